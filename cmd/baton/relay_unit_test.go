package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/api"
	"baton/experiments/experimentstest"
	"baton/lab"
)

const relayUnit = "../../packaging/baton-relay.service"

// relayUser is nobody's number: the unit's user has some that the test does not know.
const relayUser = 64123

// unitSetting returns what the relay's unit sets.
func unitSetting(t *testing.T, key string) []string { return unitSettingIn(t, relayUnit, key) }

// unitSettingIn returns what a unit sets.
func unitSettingIn(t *testing.T, file, key string) []string {
	t.Helper()
	unit, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(unit)) {
		if list, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return strings.Fields(list)
		}
	}
	t.Fatalf("the unit has no %s", key)
	return nil
}

// relayBox is a relay as the unit runs it: another user than root, some capabilities, system calls that it may make, and a cgroup file
// system that can only be read.
type relayBox struct {
	*testing.T
	lab          *lab.Lab
	client, host *lab.Host
	program, dir string // the program's copy, and where it and its files are, for everybody to read
	calls        []int
	config       string
}

func (b *relayBox) start(capabilities []string) *lab.Process {
	b.Helper()
	return startConfined(b.T, b.host, relayUser, capabilities, b.calls, b.tester(), b.program, "relay", "run", "-c", b.config)
}

// startConfined starts a program as the unit does. tester is a copy of this test's binary.
func startConfined(t *testing.T, host *lab.Host, user int, capabilities []string, calls []int, tester string, program ...string) *lab.Process {
	t.Helper()
	c := confinement{User: user, Calls: calls}
	for _, name := range capabilities {
		if bit := capabilityBits[name]; name != "CAP_SYS_RESOURCE" || hasCapability(t, bit) { // which containers often lack
			c.Capabilities = append(c.Capabilities, bit)
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	const script = `mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup; mount -o remount,bind,ro /sys/fs/cgroup; umask 077; exec "$@"`
	p, err := host.Start(lab.Program{
		Path: "sh", Env: []string{confined + "=" + string(text)}, Name: "relay",
		Args: append([]string{"-c", script, "sh", tester}, program...),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var capabilityBits = map[string]int{
	"CAP_BPF": unix.CAP_BPF, "CAP_PERFMON": unix.CAP_PERFMON, "CAP_NET_ADMIN": unix.CAP_NET_ADMIN,
	"CAP_NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE, "CAP_SYS_RESOURCE": unix.CAP_SYS_RESOURCE,
}

func hasCapability(t *testing.T, bit int) bool {
	t.Helper()
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		t.Fatal(err)
	}
	return data[bit/32].Permitted&(1<<(bit%32)) != 0
}

// tester is a copy of this test's binary, which makes system calls fail before it becomes the relay.
func (b *relayBox) tester() string {
	path := filepath.Join(b.dir, "tester")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	copyProgram(b.T, "/proc/self/exe", path)
	return path
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

// own writes a file that only the relay's user reads.
func (b *relayBox) own(path, text string) {
	b.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Chown(path, relayUser, relayUser); err != nil {
		b.Fatal(err)
	}
}

// newRelayBox makes a client, a relay that uses all it may, and a server with a relay beside it.
func newRelayBox(t *testing.T) *relayBox {
	t.Helper()
	b := &relayBox{T: t, lab: lab.New(t), calls: systemCalls(t, unitSetting(t, "SystemCallFilter"))}
	var err error
	if b.dir, err = os.MkdirTemp("", "baton-unit-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(b.dir) })
	if err := os.Chmod(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b.program = filepath.Join(b.dir, "baton")
	copyProgram(t, experimentstest.Program(t), b.program)
	run := filepath.Join(b.dir, "run")
	if err := os.Mkdir(run, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(run, relayUser, relayUser); err != nil {
		t.Fatal(err)
	}

	far := b.lab.Host("far")
	b.client, b.host = b.lab.Host("client"), b.lab.Host("relay")
	b.host.Forward()
	b.lab.Link(lab.End{Host: b.client, Addrs: []string{"10.8.0.2/24"}}, lab.End{Host: b.host, Name: "p1", Addrs: []string{"10.8.0.1/24"}}, lab.LinkOptions{})
	b.lab.Link(lab.End{Host: far, Addrs: []string{"10.9.0.2/24"}}, lab.End{Host: b.host, Name: "p2", Addrs: []string{"10.9.0.1/24"}}, lab.LinkOptions{})
	b.client.Route("default", "10.8.0.1")
	far.Route("default", "10.9.0.1")
	for _, address := range []string{"10.9.0.2:80", "10.9.0.2:8080"} {
		l, err := far.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			fmt.Fprint(w, host)
		})}
		go server.Serve(l)
		t.Cleanup(func() { server.Close() })
	}

	secret := strings.Repeat("0f", 32)
	b.own(filepath.Join(b.dir, "secret"), secret)
	theirs := filepath.Join(b.dir, "their-secret")
	if err := os.WriteFile(theirs, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(b.dir, "far.yaml"), fmt.Sprintf("name: far\ncontrol: %q\n"+
		"plaintext: {secret_file: %q}\ntrunks: {listen: [\"10.9.0.2:7000\"]}\nallow: [{prefix: 10.9.0.2/32}]\n",
		filepath.Join(b.lab.Dir(), "far.sock"), theirs))
	if _, err := far.Start(lab.Program{Path: b.program, Args: []string{"relay", "run", "-c", filepath.Join(b.dir, "far.yaml")}, Name: "far"}); err != nil {
		t.Fatal(err)
	}
	b.config = filepath.Join(b.dir, "relay.yaml")
	b.own(b.config, fmt.Sprintf(`name: near
control: %q
metrics: "127.0.0.1:9464"
plaintext: {secret_file: %q}
peers: [{name: far, address: "10.9.0.2:7000", start: 100}]
return_interfaces: [p2]
allow: [{prefix: 10.9.0.2/32}]
entries:
  - {name: low, listen: "10.8.0.1:443", destination: "10.9.0.2:80", via: [far]}
  - {name: shown, listen: "10.8.0.1:81", destination: "10.9.0.2:80", client_address: transparent}
  - name: taken
    mode: transparent
    listen: "127.0.0.1:8443"
    intercept: {destinations: [10.9.0.0/24], ports: [8080]}
    interfaces: [p1]
    early_syn: optimistic
`, b.socket(), filepath.Join(b.dir, "secret")))
	return b
}

func (b *relayBox) socket() string { return filepath.Join(b.dir, "run", "relay.sock") }

func (b *relayBox) rules() string {
	b.Helper()
	out, err := b.host.Exec(b.Context(), "sh", "-c", "ip rule; ip -6 rule; (ip route show table all; ip -6 route show table all) | sed '/proto kernel/d'")
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// TestRelayUnitsPrivileges runs the relay with what the systemd unit leaves to it: through a life, and without each capability.
func TestRelayUnitsPrivileges(t *testing.T) {
	lab.NeedRoot(t)
	all := unitSetting(t, "CapabilityBoundingSet")
	if ambient := unitSetting(t, "AmbientCapabilities"); !slices.Equal(ambient, all) {
		t.Errorf("ambient %v, bounding set %v: the relay needs all of them", ambient, all)
	}
	b := newRelayBox(t)
	before := b.rules()
	t.Run("a life", func(t *testing.T) {
		p := b.start(all)
		asked := api.NewClient(b.socket())
		defer asked.Close()
		lab.Eventually(t, long, func() error {
			s, err := asked.Relay(t.Context())
			if err != nil {
				return fmt.Errorf("%w\n%s", err, p.Log())
			}
			for _, e := range s.Entries {
				if !e.Open {
					return fmt.Errorf("%s is not open\n%s", e.Name, p.Log())
				}
			}
			if s.Peers[0].Ready == 0 {
				return fmt.Errorf("no trunk is ready\n%s", p.Log())
			}
			return nil
		})
		for url, want := range map[string]string{
			"http://10.8.0.1:443/": "10.9.0.2", "http://10.8.0.1:81/": "10.8.0.2", "http://10.9.0.2:8080/": "10.9.0.1",
		} {
			out, err := b.client.Exec(t.Context(), "curl", "-s", "--max-time", "10", url)
			if err != nil || out != want {
				t.Errorf("GET %s: %q, %v: the server sees %s", url, out, err, want)
			}
		}
		s, err := asked.Relay(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lacks := !hasCapability(t, unix.CAP_SYS_RESOURCE)
		for _, f := range s.Features {
			if !f.Used && !(f.Name == "pipes" && lacks) {
				t.Errorf("without %s: %s", f.Name, f.Reason)
			}
		}
		if s.Packets["steered"] == 0 || s.Packets["returned"] == 0 || s.Packets["syn_reported"] == 0 {
			t.Errorf("packets %v", s.Packets)
		}
		if i := slices.IndexFunc(s.Starts, func(x api.RelayStart) bool { return x.Trunks == "to" }); i < 0 || s.Starts[i].Established == 0 ||
			s.Starts[i].Refused != 0 || s.Starts[i].Window != 100 {
			t.Errorf("trunks begin with %+v", s.Starts)
		}
		if _, err := asked.Reload(t.Context()); err != nil { // as ExecReload
			t.Error(err)
		}
		if strings.Contains(p.Log(), "level=ERROR") || strings.Contains(p.Log(), "level=WARN") && !lacks {
			t.Errorf("the log:\n%s", p.Log())
		}
		if err := p.Stop(long); err != nil {
			t.Errorf("%v:\n%s", err, p.Log())
		}
		if after := b.rules(); after != before {
			t.Errorf("left behind:\n%s\nbefore:\n%s", after, before)
		}
	})
	for _, missing := range all {
		if missing == "CAP_SYS_RESOURCE" {
			continue // it runs, and says what it lacks: see relay/features_test.go
		}
		t.Run("without "+missing, func(t *testing.T) {
			p := b.start(slices.DeleteFunc(slices.Clone(all), func(c string) bool { return c == missing }))
			select {
			case <-p.Done():
			case <-time.After(long):
				t.Fatalf("it runs:\n%s", p.Log())
			}
			if want := "missing capability: " + missing; !strings.Contains(p.Log(), want) {
				t.Errorf("no %q in:\n%s", want, p.Log())
			}
			if after := b.rules(); after != before {
				t.Errorf("left behind:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

// TestRelayUnitIsValid has systemd read the unit.
func TestRelayUnitIsValid(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("SKIP: systemd-analyze is not installed")
	}
	unit, err := os.ReadFile(relayUnit)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "baton-relay.service")
	write(t, file, strings.NewReplacer("/usr/local/bin/baton", "/bin/true", "User=baton-relay", "User=daemon").Replace(string(unit)))
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "systemd-analyze", "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
