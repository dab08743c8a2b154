package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/balance/config"
	"baton/balance/links"
	"baton/lab"
)

// network is a host with two links to routers, which lead to a server. The second router may have no IPv6.
type network struct {
	t       *testing.T
	host    *lab.Host
	routers [2]*lab.Host
	server  *lab.Host
	uplinks [2]*lab.Link
	folder  string // of the journal
	env     []string
}

const (
	server4 = "203.0.113.1"
	server6 = "2001:db8:f::1"
)

func newNetwork(t *testing.T) *network {
	l := lab.New(t)
	n := &network{t: t, host: l.Host("host"), server: l.Host("server"), folder: t.TempDir()}
	for i := range n.routers {
		r := l.Host(fmt.Sprintf("router%d", i))
		r.Forward()
		n.routers[i] = r
		n.uplinks[i] = l.Link(
			lab.End{Host: n.host, Name: fmt.Sprintf("eth%d", i), Addrs: []string{fmt.Sprintf("10.%d.0.2/24", i), fmt.Sprintf("2001:db8:%d::2/64", i)}},
			lab.End{Host: r, Addrs: []string{fmt.Sprintf("10.%d.0.1/24", i), fmt.Sprintf("2001:db8:%d::1/64", i)}}, lab.LinkOptions{})
		l.Link(lab.End{Host: r, Addrs: []string{fmt.Sprintf("10.10%d.0.1/24", i), fmt.Sprintf("2001:db8:10%d::1/64", i)}},
			lab.End{Host: n.server, Addrs: []string{fmt.Sprintf("10.10%d.0.2/24", i), fmt.Sprintf("2001:db8:10%d::2/64", i)}}, lab.LinkOptions{})
		r.Route(server4+"/32", fmt.Sprintf("10.10%d.0.2", i))
		r.Route(server6+"/128", fmt.Sprintf("2001:db8:10%d::2", i))
		n.server.Route(fmt.Sprintf("10.%d.0.0/24", i), fmt.Sprintf("10.10%d.0.1", i))
		n.server.Route(fmt.Sprintf("2001:db8:%d::/64", i), fmt.Sprintf("2001:db8:10%d::1", i))
	}
	n.server.Interface("lo").Address(server4 + "/32")
	n.server.Interface("lo").Address(server6 + "/128")
	n.host.Route("default", "10.0.0.1")
	n.host.Route("default", "2001:db8:0::1")
	n.waitForCarrier()
	return n
}

// waitForCarrier waits for the host's links: the kernel notes the carrier of one end of a veth some time after that
// of the other.
func (n *network) waitForCarrier() {
	n.t.Helper()
	lab.Eventually(n.t, 10*time.Second, func() error {
		text, err := n.exec("cat", "/sys/class/net/eth0/operstate", "/sys/class/net/eth1/operstate")
		if err == nil && text != "up\nup\n" {
			err = fmt.Errorf("links are %q", text)
		}
		return err
	})
}

// state is that of the links as they are.
func (n *network) state() State {
	s := State{
		Name: "test", Datapath: config.Baton, Controller: "unix:" + filepath.Join(n.folder, "controller.sock"),
		Internal: config.Internal{
			Interface: "bal0", IPv4: netip.MustParsePrefix("192.0.0.2/29"), IPv6: netip.MustParsePrefix("64:ff9b:1::2/64"),
			Priority: 32765, Table: 30000,
		},
		Classes: []Class{{
			IPv4: netip.MustParseAddr("192.0.0.1"), IPv6: netip.MustParseAddr("64:ff9b:1::1"), MAC: links.MAC{0x02, 0x42, 0x74},
		}, {
			IPv4: netip.MustParseAddr("192.0.0.3"), IPv6: netip.MustParseAddr("64:ff9b:1::3"), MAC: links.MAC{0x02, 0x42, 0x74, 0, 0, 1},
			Users: &Users{4711, 4711},
		}},
	}
	for i, k := range n.uplinks {
		s.Links = append(s.Links, links.Link{
			Name: k.A.Name, Interface: k.A.Name, Index: k.A.Index, MAC: links.MAC(k.A.MAC), MTU: 1500, Carrier: true,
			V4: uplink(fmt.Sprintf("10.%d.0.2/24", i), fmt.Sprintf("10.%d.0.1", i), k.B),
			V6: uplink(fmt.Sprintf("2001:db8:%d::2/64", i), fmt.Sprintf("2001:db8:%d::1", i), k.B),
		})
	}
	return s
}

func uplink(own, gateway string, at *lab.Interface) links.Family {
	p := netip.MustParsePrefix(own)
	return links.Family{Address: p.Addr(), Prefix: p.Masked(), Gateway: netip.MustParseAddr(gateway), GatewayMAC: links.MAC(at.MAC)}
}

// snapshot is all that must be as it was.
func (n *network) snapshot() string {
	n.t.Helper()
	script := `export LC_ALL=C
echo links; ip -d -o link | sed 's/ qlen [0-9]*//'
echo addresses; ip -o address
echo rules; ip rule; ip -6 rule
echo routes; ip route show table all; ip -6 route show table all
echo neighbours; ip neighbour show nud permanent; ip neighbour show proxy
echo qdiscs; tc qdisc
echo nftables; nft list ruleset
echo offloads; for i in $(ls /sys/class/net); do [ $i = bonding_masters ] || ethtool -k $i; done
echo bridges; [ -z "$OVS_RUNDIR" ] || { ovs-vsctl --timeout=20 list-br; ovs-vsctl --timeout=20 --columns=name,type,options list interface; ovs-vsctl --timeout=20 list qos; }
echo sysctls; cd /proc/sys/net; grep -rs '' . | grep -v -e nf_conntrack_count -e /neigh/ -e stable_secret -e ipv4/route/flush | sort
`
	out, err := n.exec("sh", "-c", script)
	if err != nil {
		n.t.Fatal(err)
	}
	return out
}

func (n *network) exec(name string, args ...string) (string, error) {
	p, err := n.host.Start(lab.Program{Path: name, Args: args, Env: n.env, Unlogged: true})
	if err == nil {
		err = p.Wait(n.t.Context())
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return p.Stdout(), nil
}

func (n *network) mustExec(name string, args ...string) string {
	n.t.Helper()
	out, err := n.exec(name, args...)
	if err != nil {
		n.t.Fatalf("%v: %v", args, err)
	}
	return out
}

func checkSame(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"before": want, "after": got} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := exec.Command("diff", "-U1", filepath.Join(dir, "before"), filepath.Join(dir, "after")).Output()
	t.Errorf("the host is not as before:\n%s", out)
}

// order instructs a child process. The child reports each point, and waits at one to be killed.
type order struct {
	State  State
	Folder string
	Then   *State // what the plan changes to, once it is diverted
	StopAt int    // place of the point; 0: none
	Close  bool   // at the end; else it waits to be killed
}

const orderKey = "BATON_INSIDE_ORDER"

func TestMain(m *testing.M) {
	if text := os.Getenv(orderKey); text != "" {
		if err := obey(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func obey(text string) error {
	var o order
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&o); err != nil {
		return err
	}
	h, err := Open(o.State.Name, Options{Folder: o.Folder})
	if err != nil {
		return err
	}
	points := 0
	h.reached = func(point string) {
		points++
		if points == o.StopAt {
			fmt.Println("stopped", point)
			select {}
		}
	}
	plan := Make(o.State)
	if err := h.Prepare(plan); err != nil {
		return err
	}
	fmt.Println("prepared", points)
	if err := h.Divert(); err != nil {
		return err
	}
	if o.Then != nil {
		if err := h.Prepare(Make(*o.Then)); err != nil {
			return err
		}
	}
	fmt.Println("diverted", points)
	if !o.Close {
		select {}
	}
	if err := h.Close(); err != nil {
		return err
	}
	fmt.Println("closed", points)
	return nil
}

// start starts a process, by another command if there is one.
func (n *network) start(o order, by ...string) *lab.Process {
	n.t.Helper()
	o.Folder = n.folder
	text, err := json.Marshal(o)
	if err != nil {
		n.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	by = append(by, self)
	p, err := n.host.Start(lab.Program{Path: by[0], Args: by[1:], Env: append([]string{orderKey + "=" + string(text)}, n.env...), Unlogged: true})
	if err != nil {
		n.t.Fatal(err)
	}
	return p
}

// child starts a process and waits until it has said a word, which is returned with the rest of its line.
func (n *network) child(o order, word string) (*lab.Process, string) {
	n.t.Helper()
	p := n.start(o)
	said := ""
	lab.Eventually(n.t, time.Minute, func() error {
		for line := range bytes.Lines([]byte(p.Stdout())) {
			if rest, found := strings.CutPrefix(string(line), word+" "); found && strings.HasSuffix(rest, "\n") {
				said = strings.TrimSpace(rest)
				return nil
			}
		}
		select {
		case <-p.Done():
			if !strings.Contains(p.Stdout(), word+" ") {
				n.t.Fatalf("the child ended: %s", p.Log())
			}
		default:
		}
		return fmt.Errorf("it has not said %q: %s", word, p.Log())
	})
	return p, said
}

// restore restores in the host's namespace.
func (n *network) restore() (undone []string, err error) {
	doErr := n.host.Do(func() error {
		undone, err = Restore("test", Options{Folder: n.folder})
		return nil
	})
	if doErr != nil {
		n.t.Fatal(doErr)
	}
	return undone, err
}
