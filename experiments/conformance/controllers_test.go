package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/experiments/experimentstest"
	"baton/lab"
	"baton/lab/peers"
)

// edge is a switch between two hosts, with whatever controls it on its own host.
type edge struct {
	a, b, host *lab.Host
	address    string // for ovs-ofctl
}

// ofctl runs a command of ovs-ofctl on the switch.
func (e *edge) ofctl(ctx context.Context, command string, args ...string) (string, error) {
	return e.host.Exec(ctx, "ovs-ofctl", append([]string{"-O", "OpenFlow13", command, e.address}, args...)...)
}

// everyEdge runs a test with Open vSwitch, which shows that the test is right, and with the forwarder. prepare may start a
// controller on the switch's host; it is there before the switch.
func everyEdge(t *testing.T, prepare func(t *testing.T, host *lab.Host), f func(t *testing.T, e *edge)) {
	lab.NeedRoot(t)
	program := experimentstest.Program(t)
	for _, target := range []string{"ovs", "baton"} {
		t.Run(target, func(t *testing.T) {
			l := lab.New(t)
			e := &edge{a: l.Host("a"), b: l.Host("b"), host: l.Host("edge")}
			// Open vSwitch 3.5 does not complete checksums where a flow entry matches a port alone.
			link := lab.LinkOptions{NoOffloads: target == "ovs"}
			l.Link(lab.End{Host: e.a, Addrs: []string{"10.8.0.1/24"}}, lab.End{Host: e.host, Name: "p1"}, link)
			l.Link(lab.End{Host: e.b, Addrs: []string{"10.8.0.2/24"}}, lab.End{Host: e.host, Name: "p2"}, link)
			if prepare != nil {
				prepare(t, e.host)
			}
			if target == "ovs" {
				e.startOVS()
			} else {
				e.startForwarder(t, program)
			}
			f(t, e)
		})
	}
}

func (e *edge) startOVS() {
	s := peers.OpenVSwitch(e.host, peers.OpenVSwitchOptions{Ports: []string{"p1", "p2"}, DatapathID: 1, FailMode: "secure",
		Controller: "tcp:127.0.0.1:6653", NoTSO: true})
	e.address = "unix:" + filepath.Join(s.Dir, s.Bridge+".mgmt")
}

// startForwarder starts the forwarder as the tutorial does.
func (e *edge) startForwarder(t *testing.T, program string) {
	file := filepath.Join(t.TempDir(), "forwarder.yaml")
	config := tutorial(t, "yaml", "ports:") + "\nfail_mode: secure\ncontrol: " + filepath.Join(e.host.Lab().Dir(), "edge.sock") + "\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := e.host.Start(lab.Program{Path: program, Args: []string{"forwarder", "run", "-c", file}, Name: "forwarder"}); err != nil {
		t.Fatal(err)
	}
	e.address = "tcp:127.0.0.1:6654"
	lab.Eventually(t, 20*time.Second, func() error {
		_, err := e.ofctl(t.Context(), "show")
		return err
	})
}

// passes waits until a reaches an address of b, and checks that a mebibyte comes by TCP as it was sent.
func (e *edge) passes(t *testing.T, address string) {
	t.Helper()
	lab.Eventually(t, 30*time.Second, func() error {
		_, err := e.a.Exec(t.Context(), "ping", "-c", "1", "-W", "1", address)
		return err
	})
	peers.Nginx(e.b, peers.NginxOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got, err := peers.Curl(ctx, e.a, "http://"+address+"/1m")
	if err != nil {
		t.Fatal(err)
	}
	if err := peers.CheckPattern(strings.NewReader(got.Body), 1<<20); err != nil {
		t.Error(err)
	}
}

// flows waits until the switch has as many flow entries as a controller is known to make, and returns them.
func (e *edge) flows(t *testing.T, least int) string {
	t.Helper()
	var flows string
	lab.Eventually(t, 20*time.Second, func() (err error) {
		flows, err = e.ofctl(t.Context(), "dump-flows")
		if n := strings.Count(flows, "actions=") + strings.Count(flows, "goto_table"); err == nil && n < least {
			err = fmt.Errorf("%d flow entries, want %d:\n%s", n, least, flows)
		}
		return err
	})
	return flows
}

// tutorial returns the code of docs/forwarder-tutorial.md that is in a language and begins as told.
func tutorial(t *testing.T, language, begins string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/forwarder-tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "```"+language+"\n")[1:] {
		if code, _, ok := strings.Cut(part, "```"); ok && strings.HasPrefix(code, begins) {
			return code
		}
	}
	t.Fatalf("the tutorial has no %s that begins with %q", language, begins)
	return ""
}

// venv returns the folder of programs of a virtual environment of packaging/python.sh.
func venv(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("../../bin", name, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("SKIP: bin/%s is not there: make deps brings it", name)
	}
	return dir
}

// start starts a controller and waits until it listens.
func start(t *testing.T, host *lab.Host, p lab.Program) *lab.Process {
	t.Helper()
	process, err := host.Start(p)
	if err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, 30*time.Second, func() error {
		select {
		case <-process.Done():
			t.Fatalf("%s has ended:\n%s", process.Name(), process.Log())
		default:
		}
		conn, err := host.Dial(t.Context(), "tcp", "127.0.0.1:6653")
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return process
}

func TestOsken(t *testing.T) {
	bin := venv(t, "python")
	file := filepath.Join(t.TempDir(), "learning.py")
	if err := os.WriteFile(file, []byte(tutorial(t, "python", "from os_ken")), 0o600); err != nil {
		t.Fatal(err)
	}
	everyEdge(t, func(t *testing.T, host *lab.Host) {
		start(t, host, lab.Program{Path: filepath.Join(bin, "python"), Args: []string{"-W", "ignore", filepath.Join(bin, "osken-manager"), file}})
	}, func(t *testing.T, e *edge) {
		e.passes(t, "10.8.0.2")
		e.flows(t, 3)
	})
}

func TestTestcontroller(t *testing.T) {
	everyEdge(t, func(t *testing.T, host *lab.Host) {
		host.Lab().Need("ovs-testcontroller")
		start(t, host, lab.Program{Path: "ovs-testcontroller", Args: []string{"ptcp:6653:127.0.0.1", "-O", "OpenFlow13", "--unixctl=none"}})
	}, func(t *testing.T, e *edge) {
		e.passes(t, "10.8.0.2")
		e.flows(t, 3)
	})
}

// TestFaucet: Faucet programs four tables, by flow entries alone and after it has programmed the tables' features.
func TestFaucet(t *testing.T) {
	bin := venv(t, "faucet")
	generic := tutorial(t, "yaml", "vlans:")
	for _, hardware := range []string{"GenericTFM", "Open vSwitch"} {
		t.Run(hardware, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "faucet.yaml")
			config := strings.Replace(generic, "GenericTFM", fmt.Sprintf("%q", hardware), 1)
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			everyEdge(t, faucet(bin, file), func(t *testing.T, e *edge) {
				e.passes(t, "10.8.0.2")
				flows := e.flows(t, 22)
				for table := range 4 {
					if !strings.Contains(flows, fmt.Sprintf("table=%d,", table)) {
						t.Errorf("nothing in table %d:\n%s", table, flows)
					}
				}
			})
		})
	}
}

// faucet starts Faucet with a configuration.
func faucet(bin, file string) func(*testing.T, *lab.Host) {
	return func(t *testing.T, host *lab.Host) {
		start(t, host, lab.Program{Path: filepath.Join(bin, "faucet"), Env: []string{"PATH=" + bin + ":" + os.Getenv("PATH"),
			"FAUCET_CONFIG=" + file, "FAUCET_LOG=STDOUT", "FAUCET_EXCEPTION_LOG=STDOUT", "FAUCET_PROMETHEUS_ADDR=127.0.0.1",
			"FAUCET_EVENT_SOCK="}})
	}
}

// TestFaucetRoutes: Faucet routes between two VLANs, whose gateways it is, floods by groups, and drops what its list forbids.
func TestFaucetRoutes(t *testing.T) {
	bin := venv(t, "faucet")
	const config = `vlans:
  left: {vid: 100, faucet_mac: "0e:00:00:00:00:01", faucet_vips: [10.8.0.254/24]}
  right: {vid: 200, faucet_mac: "0e:00:00:00:00:02", faucet_vips: [10.9.0.254/24]}
routers:
  both: {vlans: [left, right]}
acls:
  fence:
    - rule: {dl_type: 0x800, nw_proto: 6, tcp_dst: 81, actions: {allow: 0}}
    - rule: {actions: {allow: 1}}
dps:
  edge:
    dp_id: 0x1
    hardware: GenericTFM
    group_table: true
    interfaces:
      1: {native_vlan: left, acls_in: [fence]}
      2: {native_vlan: right}
`
	file := filepath.Join(t.TempDir(), "faucet.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	everyEdge(t, faucet(bin, file), func(t *testing.T, e *edge) {
		e.b.Interface("eth0").Address("10.9.0.2/24")
		e.b.Interface("eth0").RemoveAddress("10.8.0.2/24")
		e.a.Route("10.9.0.0/24", "10.8.0.254")
		e.b.Route("10.8.0.0/24", "10.9.0.254")
		e.passes(t, "10.9.0.2")
		peers.SocatEcho(e.b, 81)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if conn, err := e.a.Dial(ctx, "tcp", "10.9.0.2:81"); err == nil {
			conn.Close()
			t.Error("a connection that the list forbids was made")
		}
		if groups := e.must(t, "dump-groups"); !strings.Contains(groups, "group_id=") {
			t.Errorf("no groups: %s", groups)
		}
	})
}
