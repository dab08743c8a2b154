package anycast_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"baton/anycast/exchange/exchangetest"
	"baton/api"
	"baton/lab"
	"baton/lab/build"
)

// fabric is a forwarder with two clients and two sites, which reach the planner beside it by links of their own:
//
//	west 10.7.0.1 ── port 1 ┐         ┌ port 3 ── 10.7.0.3 site a ── 10.9.0.2
//	                        forwarder                                  10.9.<n>.1 planner
//	east 10.7.0.2 ── port 2 ┘         └ port 4 ── 10.7.0.4 site b ── 10.9.1.2
type fabric struct {
	*lab.Lab
	t         *testing.T
	node      *lab.Host
	hosts     []*lab.Host // by port, from 1
	authority *exchangetest.Authority
	forwarder *lab.Process
	planner   *lab.Process
	control   *api.Client // of the planner
	network   network     // for what it does with processes
}

// nowhere is the MAC that clients have for the service: nobody's, so that a rule alone leads to a site.
const nowhere = "02:00:00:00:00:ff"

func newFabric(t *testing.T) *fabric {
	t.Helper()
	f := &fabric{Lab: lab.New(t), t: t, hosts: make([]*lab.Host, 5), authority: exchangetest.NewAuthority(t)}
	f.network = network{Lab: f.Lab, t: t}
	f.Need("ovs-ofctl")
	f.node = f.Host("switch")
	ends := make([]*lab.Interface, 5)
	for port := 1; port <= 4; port++ {
		h := f.Host([]string{"", "west", "east", "sitea", "siteb"}[port])
		for _, which := range []string{"all", "default"} {
			h.Sysctl("net.ipv6.conf."+which+".disable_ipv6", "1")
		}
		k := f.Link(lab.End{Host: f.node, Name: fmt.Sprintf("p%d", port)},
			lab.End{Host: h, Name: "eth0", Addrs: []string{fmt.Sprintf("10.7.0.%d/24", port)}}, lab.LinkOptions{})
		f.hosts[port], ends[port] = h, k.B
	}
	for port, h := range f.hosts[1:] {
		for other := 1; other <= 4; other++ {
			if other != port+1 {
				h.Neighbour(ends[port+1], fmt.Sprintf("10.7.0.%d", other), ends[other].MAC)
			}
		}
	}
	mac, err := net.ParseMAC(nowhere)
	if err != nil {
		t.Fatal(err)
	}
	for port := 1; port <= 2; port++ {
		if _, err := f.hosts[port].Exec(t.Context(), "ip", "route", "add", service+"/32", "dev", "eth0"); err != nil {
			t.Fatal(err)
		}
		f.hosts[port].Neighbour(ends[port], service, mac)
	}
	f.startForwarder()
	for port := 1; port <= 4; port++ {
		f.ofctl("add-flow", fmt.Sprintf("priority=10,dl_dst=%s,actions=output:%d", ends[port].MAC, port))
	}
	for i, name := range []string{"a", "b"} {
		f.startSite(i, name)
	}
	f.plan(ends[3].MAC.String(), ends[4].MAC.String())
	return f
}

func (f *fabric) startForwarder() {
	f.t.Helper()
	path, err := build.Program("baton")
	if err != nil {
		f.t.Fatal(err)
	}
	file := f.network.file("forwarder.yaml")
	text := fmt.Sprintf(`name: a%x
control: %s
ports: {1: p1, 2: p2, 3: p3, 4: p4}
datapath_id: 0x2a
controllers: [{connect: "tcp:127.0.0.1:6653", idle: 500ms}]
retry: {min: 50ms, max: 200ms}
listen: ["tcp:127.0.0.1:6654"]
limits: {entries: 4096, groups: 64, meters: 16, cache: 1024}
`, time.Now().UnixNano()&0xffffffff, f.network.file("forwarder.sock"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.forwarder, err = f.node.Start(lab.Program{Path: path, Args: []string{"forwarder", "run", "-c", file}, Name: "forwarder"})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := f.forwarder.Stop(soon); err != nil {
			f.t.Errorf("the forwarder ends: %v\n%s", err, f.forwarder.Log())
		}
		if out, err := f.node.Exec(context.Background(), path, "forwarder", "cleanup", "-c", file); err != nil {
			f.t.Errorf("unload: %v\n%s", err, out)
		}
	})
	lab.Eventually(f.t, soon, func() error {
		if !strings.Contains(f.forwarder.Log(), "forwarder is up") {
			return fmt.Errorf("the forwarder is not up:\n%s", f.forwarder.Log())
		}
		return nil
	})
}

func (f *fabric) ofctl(command string, args ...string) string {
	f.t.Helper()
	out, err := f.node.Exec(f.t.Context(), "ovs-ofctl", append([]string{"-O", "OpenFlow13", command, "tcp:127.0.0.1:6654"}, args...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// startSite has a site report to the planner, and the service answer with its name.
func (f *fabric) startSite(i int, name string) {
	f.t.Helper()
	h := f.hosts[3+i]
	address := fmt.Sprintf("10.9.%d.2", i)
	f.Link(lab.End{Host: f.node, Name: "c" + name, Addrs: []string{fmt.Sprintf("10.9.%d.1/24", i)}}, lab.End{Host: h, Addrs: []string{address + "/24"}},
		lab.LinkOptions{})
	s := &site{n: &f.network, name: name, host: h, address: address}
	s.write("load", "0.1")
	s.touch("alive", true)
	identity := f.authority.Identity(f.t, name)
	s.Process = f.network.baton(h, "anycast-"+name, s.file("anycast.yaml"), fmt.Sprintf(`name: %s
control: %s
listen: {sites: "%s:%d"}
tls: {certificate: %s, key: %s, authority: %s}
site:
  addresses: {interface: lo, addresses: [%s/32]}
  checks: [{name: file, command: [/usr/bin/test, -e, %s], interval: 100ms, timeout: 5s, rise: 2, fall: 2}]
  loads: [{name: file, command: [/bin/cat, %s], capacity: 1, interval: 200ms, timeout: 5s}]
  planner: plan
  stale: 3s
`, name, s.file("control.sock"), address, sitePort, identity.Certificate, identity.Key, identity.Authority, service, s.file("alive"), s.file("load")))
	l, err := h.Listen("tcp", "0.0.0.0:80")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, name)
			conn.Close()
		}
	}()
	s.control = api.NewClient(s.file("control.sock"))
	f.t.Cleanup(s.control.Close)
	f.network.sites = append(f.network.sites, s)
}

// plan runs the planner. West is near a, east near b.
func (f *fabric) plan(macA, macB string) {
	f.t.Helper()
	identity := f.authority.Identity(f.t, "plan")
	f.planner = f.network.baton(f.node, "planner", f.network.file("plan.yaml"), fmt.Sprintf(`name: plan
control: %s
tls: {certificate: %s, key: %s, authority: %s}
planner:
  interval: 200ms
  stale: 2s
  settle: 1s
  step: 100%%
  sites:
    - {name: a, url: "https://10.9.0.2:%[5]d", capacity: 100mbit, ports: [{forwarder: 0x2a, port: 3, mac: "%[6]s"}]}
    - {name: b, url: "https://10.9.1.2:%[5]d", capacity: 100mbit, ports: [{forwarder: 0x2a, port: 4, mac: "%[7]s"}]}
  map:
    listen: "127.0.0.1:6653"
    addresses: [%[8]s]
    ingresses:
      - {name: west, forwarder: 0x2a, port: 1, costs: {a: 1, b: 2}}
      - {name: east, forwarder: 0x2a, port: 2, costs: {a: 2, b: 1}}
`, f.network.file("plan.sock"), identity.Certificate, identity.Key, identity.Authority, sitePort, macA, macB, service))
	f.control = api.NewClient(f.network.file("plan.sock"))
	f.t.Cleanup(f.control.Close)
}

// answered waits until a site answers the client at a port.
func (f *fabric) answered(port int, want string) {
	f.t.Helper()
	lab.Eventually(f.t, soon, func() error {
		got, err := f.ask(port)
		if err != nil || got != want {
			return fmt.Errorf("%q answers %s, %v; want %s", got, f.hosts[port].Name(), err, want)
		}
		return nil
	})
}

func (f *fabric) ask(port int) (string, error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Second)
	defer cancel()
	conn, err := f.hosts[port].Dial(ctx, "tcp", service+":80")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	got, err := io.ReadAll(conn)
	return string(got), err
}

// TestMap has forwarders lead each ingress to the nearest site that is up and has headroom, and keep the map when the planner is gone.
func TestMap(t *testing.T) {
	t.Parallel()
	f := newFabric(t)
	a, b := f.network.sites[0], f.network.sites[1]
	f.answered(1, "a")
	f.answered(2, "b")

	// The load of a site is shared out to its ingresses by what comes in there; both ask, so that something does.
	a.touch("alive", false)
	f.answered(1, "b")
	f.answered(2, "b")
	a.touch("alive", true)
	f.answered(1, "a")

	_, err := f.control.AnycastInstruct(t.Context(), api.AnycastInstruction{Kind: "drain", Site: "c"})
	if want := `site "c": not found (one of a, b)`; err == nil || err.Error() != want {
		t.Errorf("drain of a site that there is not: %v, want %s", err, want)
	}

	// An operator drains b at the planner.
	if _, err := f.control.AnycastInstruct(t.Context(), api.AnycastInstruction{Kind: "drain", Site: "b"}); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, soon, func() error {
		_, _ = f.ask(2) // demand that is to be moved
		if got, err := f.ask(2); err != nil || got != "a" {
			return fmt.Errorf("%q answers, %v", got, err)
		}
		return nil
	})

	// The planner is killed: the map stays. Its successor reads it from the forwarder.
	s, err := f.control.Anycast(t.Context())
	if err != nil || len(s.Planner.Map) != 2 || s.Planner.Forwarders[0] != "000000000000002a" {
		t.Fatalf("the planner says %+v, %v", s.Planner, err)
	}
	plan, err := os.ReadFile(f.network.file("plan.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.planner.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-f.planner.Done()
	f.answered(1, "a")
	f.answered(2, "a")
	before := f.ofctl("dump-flows")
	if strings.Count(before, "0x4241544f4e414e59") != 2 {
		t.Errorf("rules of a planner that is gone:\n%s", before)
	}
	f.network.baton(f.node, "planner2", f.network.file("plan.yaml"), string(plan))
	lab.Eventually(t, soon, func() error {
		s, err := f.control.Anycast(t.Context())
		if err == nil && (len(s.Planner.Map) != 2 || s.Planner.Map[1].Site != "a") {
			err = fmt.Errorf("the successor knows %+v", s.Planner.Map)
		}
		return err
	})
	b.is("instructed", func(st *api.AnycastSite) bool { return st.Instruction.Kind == "drain" })
}
