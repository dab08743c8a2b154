package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/build"
	"baton/lab/peers"
)

const nameserverUnit = "../../packaging/baton-nameserver.service"

// as are arguments of setpriv that run a program as the unit does: another user than root, with one capability.
var as = []string{"--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all,+net_bind_service", "--ambient-caps=+net_bind_service",
	"--bounding-set=-all,+net_bind_service", "--no-new-privs"}

// install makes a folder of that user with the program, and a configuration with a routed name, and returns the paths of both.
func install(t *testing.T) (program, file string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "baton-unit-") // where another user may go
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, file = filepath.Join(dir, "baton-cdn"), filepath.Join(dir, "n.yaml")
	if err := build.InstallPrograms(dir, "baton-cdn"); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		file: fmt.Sprintf(`listen: ["0.0.0.0:53", "[::]:53"]
control: %s/c.sock
zones: [{name: example.test, file: z, routed: {cdn: content}}]
services: {content: {answers: 2}}
health: {port: 80, path: /128, interval: 1s, timeout: 1s, fall: 1}
policy: {sites: {west: {surrogates: {se1: {addresses: [10.0.1.2]}, se2: {addresses: [10.0.1.9]}}}}}
`, dir),
		filepath.Join(dir, "z"): "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 10.0.0.2\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chown(dir, 65534, 65534), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return program, file
}

// TestNameserverInLab runs the program as its unit does, on port 53 of all addresses. Questions come over a link; nginx is a surrogate, and the other one is not there at first.
// All that is logged is JSON.
func TestNameserverInLab(t *testing.T) {
	l := lab.New(t)
	l.Need("dig", "setpriv", "nginx")
	client, server, surrogate := l.Host("client"), l.Host("server"), l.Host("surrogate")
	l.Link(lab.End{Host: client, Addrs: []string{"10.0.0.1/24", "fd00::1/64"}}, lab.End{Host: server, Addrs: []string{"10.0.0.2/24", "10.0.0.3/24", "fd00::2/64"}}, lab.LinkOptions{})
	inner := l.Link(lab.End{Host: server, Addrs: []string{"10.0.1.1/24"}}, lab.End{Host: surrogate, Addrs: []string{"10.0.1.2/24"}}, lab.LinkOptions{})
	peers.Nginx(surrogate, peers.NginxOptions{})
	program, file := install(t)
	p, err := server.Start(lab.Program{Path: "setpriv", Args: append(slices.Clone(as), program, "nameserver", "run", "-c", file, "--log-format", "json"), Name: "nameserver"})
	if err != nil {
		t.Fatal(err)
	}
	dig := func(want string, args ...string) {
		t.Helper()
		lab.Eventually(t, 20*time.Second, func() error {
			out, err := client.Exec(t.Context(), "dig", append([]string{"+short", "+tries=1", "+time=5", "cdn.example.test"}, args...)...)
			got := strings.Fields(out)
			if slices.Sort(got); err != nil || strings.Join(got, " ") != want {
				return fmt.Errorf("dig %v says %q (%v), want %q\n%s", args, got, err, want, p.Log())
			}
			return nil
		})
	}
	for _, at := range []string{"@10.0.0.2", "@10.0.0.3", "@fd00::2"} { // dig takes answers from there alone
		dig("10.0.1.2", at)
		dig("10.0.1.2", at, "+tcp")
	}
	if out, err := surrogate.Exec(t.Context(), "ip", "address", "add", "10.0.1.9/24", "dev", inner.B.Name); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dig("10.0.1.2 10.0.1.9", "@10.0.0.2")
	if out, err := server.Exec(t.Context(), "setpriv", append(slices.Clone(as), program, "nameserver", "reload", "-c", file)...); err != nil || !strings.Contains(out, "is in force") {
		t.Errorf("%v: %s", err, out)
	}
	if err := p.Stop(20 * time.Second); err != nil {
		t.Errorf("%v\n%s", err, p.Log())
	}
	for line := range strings.Lines(p.Log()) {
		var m struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Level == "" || m.Msg == "" {
			t.Errorf("not a message in JSON: %q (%v)", line, err)
		}
	}
}

// TestNameserverUnitIsValid has systemd read the unit.
func TestNameserverUnitIsValid(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("SKIP: systemd-analyze is not installed")
	}
	unit, err := os.ReadFile(nameserverUnit)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "baton-nameserver.service")
	text := strings.NewReplacer("/usr/local/bin/baton-cdn", "/bin/true", "User=baton-nameserver", "User=daemon").Replace(string(unit))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
