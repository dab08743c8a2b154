package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/api"
	"baton/experiments/experimentstest"
	"baton/lab"
)

const anycastUnit = "../../packaging/baton-anycast.service"

// TestAnycastUnit runs a site as the unit does: another user than root, one capability, and system calls that it may make. It puts the
// service's address on an interface, runs a command as a check, keeps its state, and takes the address away at its end.
func TestAnycastUnit(t *testing.T) {
	l := lab.New(t)
	host := l.Host("site")
	host.Interface("lo").SetUp()
	dir, err := os.MkdirTemp("", "baton-unit-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program, tester, own := filepath.Join(dir, "baton"), filepath.Join(dir, "tester"), filepath.Join(dir, "own")
	copyProgram(t, experimentstest.Program(t), program)
	copyProgram(t, "/proc/self/exe", tester)
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(own, "anycast.yaml")
	write(t, config, fmt.Sprintf(`name: london
control: %[1]s/anycast.sock
site:
  prefixes: [192.0.2.0/24, "2001:db8::/48"]
  bgp: {as: 64512, router_id: 10.0.0.2, peers: [{name: r1, address: 127.0.0.1, as: 65000, password_file: %[1]s/password, gtsm: true}]}
  addresses: {interface: lo, addresses: [192.0.2.1/32, "2001:db8::1/128"]}
  checks: [{name: yes, command: [/bin/true], interval: 100ms, timeout: 5s, rise: 1}]
  loads: [{name: lo, interface: lo, capacity: 1gbit, interval: 200ms}]
  state: %[1]s/state.json
`, own))
	write(t, filepath.Join(own, "password"), "secret\n")
	for _, path := range []string{own, config, filepath.Join(own, "password")} {
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, relayUser, relayUser); err != nil {
			t.Fatal(err)
		}
	}
	p := startConfined(t, host, relayUser, unitSettingIn(t, anycastUnit, "AmbientCapabilities"), systemCalls(t, unitSettingIn(t, anycastUnit, "SystemCallFilter")),
		tester, program, "anycast", "run", "-c", config)
	client := api.NewClient(filepath.Join(own, "anycast.sock"))
	defer client.Close()
	lab.Eventually(t, 30*time.Second, func() error {
		s, err := client.Anycast(t.Context())
		if err == nil && (s.Site.Level != "announce" || s.Site.Load == nil) {
			err = fmt.Errorf("the site is %+v", s.Site)
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, p.Log())
		}
		return nil
	})
	addresses := func() string {
		t.Helper()
		out, err := host.Exec(t.Context(), "ip", "address", "show", "dev", "lo")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := addresses(); !strings.Contains(out, "192.0.2.1/32") || !strings.Contains(out, "2001:db8::1/128") {
		t.Errorf("the service's addresses are not there:\n%s", out)
	}
	if _, err := client.AnycastInstruct(t.Context(), api.AnycastInstruction{Kind: "drain"}); err != nil {
		t.Error(err)
	}
	if _, err := client.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Stop(30 * time.Second); err != nil {
		t.Errorf("the end: %v\n%s", err, p.Log())
	}
	if out := addresses(); strings.Contains(out, "192.0.2.1") || strings.Contains(out, "2001:db8::1") {
		t.Errorf("the service's addresses are left:\n%s", out)
	}
	if text, err := os.ReadFile(filepath.Join(own, "state.json")); err != nil || !strings.Contains(string(text), `"instruction":"drain"`) {
		t.Errorf("the state is %s, %v", text, err)
	}
}

func TestAnycastUnitIsRight(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("SKIP: systemd-analyze is not installed")
	}
	unit, err := os.ReadFile(anycastUnit)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "baton-anycast.service")
	text := strings.NewReplacer("/usr/local/bin/baton", "/bin/true", "User=baton-anycast", "User=root").Replace(string(unit))
	write(t, file, text)
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
