package relay

import (
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"baton/datapath/kerneltest"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// steered lists what steers in the namespace: rules, routes of the table, programs at a hook of an interface.
func steered(t testing.TB, table int, ifindexes ...int) []string {
	t.Helper()
	var all []string
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, err := netlink.RuleList(family)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			if r.Table == table {
				all = append(all, r.String()+" iif "+r.IifName)
			}
		}
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a table that was never made
			t.Fatal(err)
		}
		for _, r := range routes {
			all = append(all, r.String())
		}
	}
	for _, ifindex := range ifindexes {
		q, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			t.Fatal(err)
		}
		for range q.Programs {
			all = append(all, "a program")
		}
	}
	return all
}

func TestRelayLeavesNothing(t *testing.T) {
	n := newNetwork(t)
	o := Options{Mark: 7, Table: 7007, Early: 8, PerSource: 8, Expire: 1e9}
	for range 2 { // the second finds nothing of the first
		r, err := Load(o)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // again is the same
			for _, err := range []error{r.Attach(n.north), r.Attach(n.south), r.AttachReturn(n.south)} {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		// a route and two rules of each family, three programs
		if got := steered(t, o.Table, n.north, n.south); len(got) != 2*(1+2)+3 {
			t.Errorf("in force: %q", got)
		}
		if _, err := Load(o); !errors.Is(err, ErrInUse) {
			t.Errorf("a second one: %v", err)
		}
		if err := r.Detach(n.south); err != nil {
			t.Error(err)
		}
		if got := steered(t, o.Table, n.north, n.south); len(got) != 2*(1+1)+1 {
			t.Errorf("in force: %q", got)
		}
		if err := errors.Join(r.Close(), r.Close()); err != nil {
			t.Error(err)
		}
		if got := steered(t, o.Table, n.north, n.south); len(got) != 0 {
			t.Errorf("left behind: %q", got)
		}
	}
}

// An interface may go, and its name come again.
func TestRelayInterfaceGoes(t *testing.T) {
	kerneltest.Need(t)
	o := Options{Mark: 7, Table: 7007, Early: 8, PerSource: 8, Expire: 1e9}
	r, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		kerneltest.IP(t, "link", "add", "gone0", "type", "veth", "peer", "name", "gone1")
		l, err := netlink.LinkByName("gone0")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Attach(l.Attrs().Index); err != nil {
			t.Fatal(err)
		}
		kerneltest.IP(t, "link", "del", "gone0")
		if err := r.Detach(l.Attrs().Index); err != nil {
			t.Error(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if got := steered(t, o.Table); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

// What a process that was killed has left is replaced. What is somebody else's is not touched.
func TestRelayTable(t *testing.T) {
	kerneltest.Need(t)
	const table = "7008"
	o := Options{Mark: 7, Table: 7008, Early: 8, PerSource: 8, Expire: 1e9}
	for _, family := range []string{"-4", "-6"} {
		for _, left := range [][]string{
			{"rule", "add", "pref", "98", "iif", "nosuch0", "fwmark", "0x9", "lookup", table, "protocol", "98"},
			{"route", "add", "local", "default", "dev", "lo", "table", table, "protocol", "98"},
		} {
			kerneltest.IP(t, append([]string{family}, left...)...)
		}
	}
	r, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := steered(t, o.Table); len(got) != 2 || strings.Contains(strings.Join(got, "\n"), "nosuch0") {
		t.Errorf("in force: %q", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}

	for _, family := range []string{"-4", "-6"} {
		for want, others := range map[string][2][]string{
			"another program's rule uses it": {
				{family, "rule", "add", "fwmark", "0x9", "lookup", table}, {family, "rule", "del", "fwmark", "0x9", "lookup", table},
			},
			"it contains another program's route": {
				{family, "route", "add", "local", "default", "dev", "lo", "table", table}, {family, "route", "del", "local", "default", "table", table},
			},
		} {
			kerneltest.IP(t, others[0]...)
			if _, err := Load(o); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), table) {
				t.Errorf("%s %s: %v", family, want, err)
			}
			if got := steered(t, o.Table); len(got) != 1 {
				t.Errorf("of others there is %q", got)
			}
			kerneltest.IP(t, others[1]...)
		}
	}
	o.Table = unix.RT_TABLE_MAIN
	if _, err := Load(o); err == nil {
		t.Error("the system's own table is taken")
	}
}

const killedEnv = "BATON_RELAY_KILLED"

// A process that is killed leaves nothing but rules and routes, and those only until the next one comes.
func TestRelayKilled(t *testing.T) {
	kerneltest.Need(t)
	o := Options{Mark: 7, Table: 7009, Early: 8, PerSource: 8, Expire: 1e9}
	if name := os.Getenv(killedEnv); name != "" { // the process to be killed
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Load(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Attach(l.Attrs().Index), r.AttachReturn(l.Attrs().Index), r.AttachOwnCgroup()); err != nil {
			t.Fatal(err)
		}
		os.Stdout.Close() // ready
		select {}
	}
	n := newNetwork(t)
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestRelayKilled$")
	cmd.Env = append(os.Environ(), killedEnv+"=r0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // Pdeathsig is of the thread
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if got := steered(t, o.Table, n.north); len(got) != 2*(1+1)+2 {
		t.Errorf("in force: %q; it said %s", got, said)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	poll(t, "the programs to go", func() bool { return len(steered(t, o.Table, n.north)) == 2*(1+1) })
	r, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := steered(t, o.Table, n.north); len(got) != 2 {
		t.Errorf("in force: %q", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if got := steered(t, o.Table, n.north); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

func TestRelayRefusals(t *testing.T) {
	kerneltest.Need(t)
	for _, o := range []Options{{}, {Early: 1, PerSource: 1}, {Early: 1, Expire: 1e9}, {PerSource: 1, Expire: 1e9}} {
		if _, err := Load(o); err == nil {
			t.Errorf("%+v is loaded", o)
		}
	}
	r, err := Load(Options{Early: 1, PerSource: 1, Expire: 1e9})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.SetEntries([]Entry{{ID: 1, Listen: netip.MustParseAddrPort("10.0.0.1:80"), Intercept: true}}); err == nil {
		t.Error("intercepts without a mark")
	}
	if err := r.AttachReturn(1); err == nil {
		t.Error("returns without a mark")
	}
	if err := r.Attach(1 << 20); err == nil {
		t.Error("attached to no interface")
	}
	if out, err := exec.Command("ip", "tuntap", "add", "l3tun0", "mode", "tun").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer kerneltest.IP(t, "link", "del", "l3tun0")
	l, err := netlink.LinkByName("l3tun0")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Attach(l.Attrs().Index); err == nil || !strings.Contains(err.Error(), "no Ethernet header") {
		t.Errorf("attached to a tun: %v", err)
	}
}
