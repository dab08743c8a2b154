package purge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"baton/datapath/kerneltest"
	kernel "baton/datapath/purge"
	"baton/lab"
	"baton/purge/policy"
)

// The model's servers have these addresses and ports, and its clients addresses of these networks.
var (
	modelServers = []string{"10.8.1.1", "10.8.1.2", "10.8.1.3", "fd08::1:1", "fd08::1:2"}
	modelClients = []string{"10.8.0.2", "10.8.0.3", "10.8.0.4", "fd08::2", "fd08::3"}
)

const modelPorts = 6

// rig is a server's host and a client that answers nothing after its handshakes.
type rig struct {
	t              *testing.T
	client, server *lab.Host
	dp             *kernel.Purge
}

func newRig(t *testing.T, o kernel.Options) *rig {
	t.Helper()
	l := lab.New(t)
	r := &rig{t: t, client: l.Host("client"), server: l.Host("server")}
	k := l.Link(lab.End{Host: r.client}, lab.End{Host: r.server}, lab.LinkOptions{})
	length := map[bool]string{true: "/16", false: "/64"} // of IPv4, or not
	for _, a := range modelClients {
		k.A.Address(a + length[netip.MustParseAddr(a).Is4()])
	}
	for _, a := range modelServers {
		k.B.Address(a + length[netip.MustParseAddr(a).Is4()])
	}
	for i := range modelPorts {
		ln, err := r.server.Listen("tcp", fmt.Sprintf("[::]:%d", 7000+i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write(make([]byte, 100))
				t.Cleanup(func() { c.Close() })
			}
		}()
	}
	if _, err := r.client.Exec(t.Context(), "nft", fmt.Sprintf("add table netdev cut; add chain netdev cut in "+
		"{ type filter hook ingress device %q priority 0; }; add rule netdev cut in meta l4proto tcp tcp flags & syn == 0 drop", k.A.Name)); err != nil {
		t.Fatal(err)
	}
	err := r.server.Do(func() (err error) {
		r.dp, err = kernel.Load(o)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.dp.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// TestOrphansLeftAlone: on a kernel that cannot end them, connections that the application may have closed are not marked.
func TestOrphansLeftAlone(t *testing.T) {
	t.Parallel()
	lab.NeedRoot(t)
	r := newRig(t, kernel.Options{Marks: 1})
	server := netip.AddrPortFrom(netip.MustParseAddr(modelServers[0]), 7100)
	if err := r.dp.SetPolicies([]kernel.Policy{{
		ID: 1, Addresses: []netip.Prefix{netip.PrefixFrom(server.Addr(), 32)}, Ports: []kernel.Ports{{First: 7100, Last: 7100}}, Ceiling: time.Hour,
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.dp.AttachCgroup("/"); err != nil {
		t.Fatal(err)
	}
	l, err := r.server.Listen("tcp", server.String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o, err := r.client.Dial(t.Context(), "tcp", server.String())
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	a, err := l.Accept()
	if err == nil {
		_, err = a.Write(make([]byte, 100))
	}
	if err == nil {
		err = a.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, soon, func() error {
		v, err := r.dp.Verdicts()
		if err == nil && (v["closing"] == 0 || v["marked"] > 0) {
			err = fmt.Errorf("%v", v)
		}
		return err
	})
}

// randomPolicies returns policies with ports and prefixes that overlap a lot.
func randomPolicies(random *rand.Rand, n int) []kernel.Policy {
	prefixes := func(of []string, n int) (out []netip.Prefix) {
		for range n {
			a := netip.MustParseAddr(of[random.IntN(len(of))])
			out = append(out, netip.PrefixFrom(a, a.BitLen()-random.IntN(4)).Masked())
		}
		return out
	}
	var all []kernel.Policy
	for i := range n {
		first := uint16(7000 + random.IntN(modelPorts))
		p := kernel.Policy{
			ID: uint32(100 + i), Addresses: prefixes(modelServers, 1+random.IntN(3)), Exempt: prefixes(modelClients, random.IntN(2)),
			Ports:      []kernel.Ports{{First: first, Last: first + uint16(random.IntN(3))}},
			MaxRetries: random.IntN(3), Wait: random.IntN(200), Floor: time.Duration(random.IntN(1200)) * time.Millisecond,
		}
		p.Ceiling = p.Floor + time.Duration(random.IntN(2000))*time.Millisecond
		all = append(all, p)
	}
	return all
}

// match returns the policy of a connection, and whether it exempts the client, computed naively.
func match(policies []kernel.Policy, client, server netip.AddrPort) (p *kernel.Policy, spared bool) {
	holds := func(all []netip.Prefix, a netip.Addr) bool {
		return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	for i := range policies {
		p := &policies[i]
		port := slices.ContainsFunc(p.Ports, func(r kernel.Ports) bool { return r.First <= server.Port() && server.Port() <= r.Last })
		if port && holds(p.Addresses, server.Addr()) {
			return p, holds(p.Exempt, client.Addr())
		}
	}
	return nil, false
}

// mixed reports whether policies match at least a quarter of all connections, exempt some, and do not match others.
func mixed(policies []kernel.Policy) bool {
	all, due, spared := 0, 0, 0
	for _, c := range modelClients {
		for _, s := range modelServers {
			for port := range modelPorts {
				client, server := netip.MustParseAddr(c), netip.MustParseAddr(s)
				if client.Is4() != server.Is4() {
					continue
				}
				p, spare := match(policies, netip.AddrPortFrom(client, 1), netip.AddrPortFrom(server, uint16(7000+port)))
				all++
				if p != nil && spare {
					spared++
				} else if p != nil {
					due++
				}
			}
		}
	}
	return 4*due > all && 6*spared > all && 6*(all-due-spared) > all
}

// TestModel has the kernel decide about random policies and unresponsive connections, and compares the result with package policy: each
// mark is correct, none came later than it should, and no other connection is marked.
func TestModel(t *testing.T) {
	t.Parallel()
	lab.NeedRoot(t)
	random := kerneltest.Rand(t)
	r := newRig(t, kernel.Options{Marks: 10_000, Orphans: true})
	policies := randomPolicies(random, 12)
	for !mixed(policies) {
		policies = randomPolicies(random, 12)
	}
	if err := r.dp.SetPolicies(randomPolicies(random, 40)); err != nil { // which are replaced
		t.Fatal(err)
	}
	if err := r.dp.SetPolicies(policies); err != nil {
		t.Fatal(err)
	}
	if fresh, err := r.dp.AttachCgroup("/"); err != nil || !fresh {
		t.Fatal(err)
	}
	marks, err := r.dp.Marks()
	if err != nil {
		t.Fatal(err)
	}
	defer marks.Close()

	due := make(map[netip.AddrPort]*kernel.Policy) // by client
	spared, unwanted := 0, 0
	for range 150 {
		client, server := r.connect(random)
		p, spare := match(policies, client, server)
		switch {
		case p == nil:
			unwanted++
		case spare:
			spared++
		default:
			due[client] = p
		}
	}
	t.Logf("%d to be marked, %d spared, %d unwanted", len(due), spared, unwanted)
	if len(due) < 20 || spared < 5 || unwanted < 5 {
		t.Errorf("the policies are badly chosen")
	}
	some := make([]kernel.Mark, 64)
	for len(due) > 0 {
		n, err := marks.Next(some)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range some[:n] {
			p := due[m.Client]
			if p == nil || p.ID != m.Policy {
				t.Fatalf("%v > %v: marked by policy %d, want %+v", m.Client, m.Server, m.Policy, p)
			}
			delete(due, m.Client)
			checkMark(t, p, &m)
		}
	}
	v, err := r.dp.Verdicts()
	if err != nil {
		t.Fatal(err)
	}
	if v["exempt"] < uint64(spared) || v["mark_lost"]+v["no_memory"]+v["watch_failed"] > 0 {
		t.Errorf("%v", v)
	}
}

// checkMark compares a mark, and the timeouts before it as far as they are known, with the model: timers are late rather than early.
func checkMark(t *testing.T, p *kernel.Policy, m *kernel.Mark) {
	t.Helper()
	model := policy.Policy{MaxRetries: p.MaxRetries, Wait: p.Wait, Floor: p.Floor, Ceiling: p.Ceiling}
	if in, dormant := model.In(policy.Expiry{Count: m.Count, RTO: m.RTO, Unresponsive: m.Unresponsive}); !dormant || in != m.Within {
		t.Errorf("%+v: %+v: in %v, %v", model, m, in, dormant)
	}
	const early = 20 * time.Millisecond // of clocks that count in jiffies
	e := policy.Expiry{Count: 1, RTO: m.RTO >> (m.Count - 1)}
	for e.Unresponsive = e.RTO; e.Count < m.Count; e.Unresponsive += e.RTO {
		if _, dormant := model.In(policy.Expiry{Count: e.Count, RTO: e.RTO - early, Unresponsive: e.Unresponsive - early}); dormant {
			t.Errorf("%+v: %+v: not marked at timeout %d", model, m, e.Count)
		}
		e.Count++
		e.RTO *= 2
	}
}

// connect opens a connection between random addresses. The server's application has sent something at once, which nobody acknowledges.
func (r *rig) connect(random *rand.Rand) (client, server netip.AddrPort) {
	r.t.Helper()
	to := netip.MustParseAddr(modelServers[random.IntN(len(modelServers))])
	from := netip.Addr{}
	for !from.IsValid() || from.Is4() != to.Is4() {
		from = netip.MustParseAddr(modelClients[random.IntN(len(modelClients))])
	}
	server = netip.AddrPortFrom(to, uint16(7000+random.IntN(modelPorts)))
	ctx, cancel := context.WithTimeout(r.t.Context(), soon)
	defer cancel()
	c, err := r.client.DialFrom(ctx, "tcp", netip.AddrPortFrom(from, 0).String(), server.String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c.LocalAddr().(*net.TCPAddr).AddrPort(), server
}
