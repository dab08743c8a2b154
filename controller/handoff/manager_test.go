package handoff

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/api"
	"baton/controller/northbound"
	"baton/controller/sessions"
	"baton/openflow"
	"baton/packet"
)

var (
	clientAt  = netip.MustParseAddrPort("10.1.0.2:40000")
	serviceAt = netip.MustParseAddrPort("10.9.9.9:80")
	routerAt  = netip.MustParseAddrPort("10.9.9.9:50000")
	serverAt  = netip.MustParseAddrPort("10.2.0.3:80")
)

// places has the client at switch 1, the router at 2 and the surrogate at 3, which is the core.
var places = map[netip.Addr]Place{
	clientAt.Addr():  {sessions.Point{Switch: 1, Port: 1}, packet.MAC{2, 0, 0, 0, 0, 1}},
	serviceAt.Addr(): {sessions.Point{Switch: 2, Port: 3}, packet.MAC{2, 0, 0, 0, 0, 2}},
	serverAt.Addr():  {sessions.Point{Switch: 3, Port: 2}, packet.MAC{2, 0, 0, 0, 0, 3}},
}

// fake is a network that a test plays.
type fake struct {
	mu      sync.Mutex
	entries map[uint64]map[string]*openflow.FlowMod // by switch
	out     []packet.Frame                          // packet-outs
	fail    map[uint64]error                        // of Commit
	stuck   map[uint64]bool                         // Commit does not return
	noPath  bool
}

func (f *fake) Locate(a netip.Addr, _ packet.MAC) (Place, bool) {
	p, ok := places[a]
	return p, ok
}

func (f *fake) Path(from, to Place) ([]Hop, error) {
	if f.noPath {
		return nil, errors.New("there is no path")
	}
	return []Hop{{from.Switch, from.Port, 9}, {to.Switch, 8, to.Port}}, nil
}

func (*fake) Core(sw uint64) bool                        { return sw == 3 }
func (*fake) Ensure(context.Context, Place, Place) error { return nil }
func key(m *openflow.FlowMod) string                     { return fmt.Sprintf("%d %x", m.Priority, []byte(m.Match)) }
func (f *fake) Send(sw uint64, m openflow.Message) error { return f.apply(sw, m) }

func (f *fake) Commit(ctx context.Context, sw uint64, messages ...openflow.Message) error {
	f.mu.Lock()
	stuck, err := f.stuck[sw], f.fail[sw]
	f.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := f.apply(sw, m); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) apply(sw uint64, m openflow.Message) error {
	if err := openflow.Check(m); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entries[sw] == nil {
		f.entries[sw] = map[string]*openflow.FlowMod{}
	}
	switch m := m.(type) {
	case *openflow.PacketOut:
		frame, err := packet.Parse(slices.Clone(m.Data))
		if err != nil {
			return err
		}
		f.out = append(f.out, frame)
	case *openflow.FlowMod:
		switch m.Command {
		case openflow.FlowAdd:
			f.entries[sw][key(m)] = m
		case openflow.FlowDeleteStrict:
			delete(f.entries[sw], key(m))
		case openflow.FlowDelete:
			for k, e := range f.entries[sw] {
				if e.Cookie&m.CookieMask == m.Cookie {
					delete(f.entries[sw], k)
				}
			}
		}
	}
	return nil
}

func (f *fake) count() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries {
		n += len(e)
	}
	return n
}

// sent are the packet-outs since the last call, as "from > to flags bytes".
func (f *fake) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, o := range f.out {
		all = append(all, fmt.Sprintf("%v > %v %v %d", o.Src, o.Dst, o.TCP().Flags(), len(o.Payload())))
	}
	f.out = nil
	return all
}

// play is a manager with a network, a router and a leg.
type play struct {
	*Manager
	t      *testing.T
	net    *fake
	caller northbound.Caller
}

func newPlay(t *testing.T, o Options) *play {
	t.Helper()
	p := newEmpty(t, o)
	p.open(routerAt, serverAt, 5000, 6000)
	p.open(clientAt, serviceAt, 100, 200)
	p.say(clientAt, serviceAt, packet.ACK|packet.PSH, 100, 200, 78)
	p.net.sent()
	return p
}

// newEmpty is a play before its first packet.
func newEmpty(t *testing.T, o Options) *play {
	t.Helper()
	p := &play{t: t, net: &fake{entries: map[uint64]map[string]*openflow.FlowMod{}, fail: map[uint64]error{}, stuck: map[uint64]bool{}}, caller: northbound.Caller{Connection: 7}}
	o.Network = p.net
	if o.Choose == nil {
		o.Choose = func(q Request) (string, error) { return q.Ready[0], nil }
	}
	p.Manager = New(o, Addresses{Services: []Service{{Address: serviceAt}}, Surrogates: []Surrogate{{Name: "se1", Address: serverAt, Host: "cache"}}})
	t.Cleanup(p.Close)
	if _, err := p.hello(t.Context(), p.caller, api.ControllerHello{Name: "rr1", Service: serviceAt}); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *play) say(a, b netip.AddrPort, flags packet.Flags, seq, ack packet.Seq, payload int) {
	p.t.Helper()
	at := places[a.Addr()]
	if !p.Packet(at.Point, packet.Build(packet.Spec{SrcMAC: at.MAC, DstMAC: places[b.Addr()].MAC, Src: a, Dst: b, Seq: seq, Ack: ack, Flags: flags,
		Payload: make([]byte, payload)})) {
		p.t.Fatalf("%v -> %v is left to others", a, b)
	}
}

func (p *play) open(a, b netip.AddrPort, x, y packet.Seq) {
	p.say(a, b, packet.SYN, x-1, 0, 0)
	p.say(b, a, packet.SYN|packet.ACK, y-1, x, 0)
	p.say(a, b, packet.ACK, x, y, 0)
}

func (p *play) sizes(client, leg uint32) error {
	ctx := p.t.Context()
	if client > 0 {
		return p.setRequestSize(ctx, p.caller, api.ControllerRequestSize{Client: clientAt, Service: serviceAt, Size: client, Request: "GET /"})
	}
	return p.setRequestSize(ctx, p.caller, api.ControllerRequestSize{Leg: api.RouterLeg{Local: routerAt, Remote: serverAt}, Size: leg})
}

func (p *play) match() (api.ControllerMatch, error) {
	return p.getMatchingSession(p.t.Context(), p.caller, api.ControllerSessionKey{Client: clientAt, Service: serviceAt})
}

func (p *play) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// toRequest is a handoff up to the request on the leg.
func (p *play) toRequest() {
	p.t.Helper()
	p.must(p.sizes(78, 0))
	m, err := p.match()
	p.must(err)
	if m.Surrogate != "se1" || m.Host != "cache" || m.Leg.Local != routerAt {
		p.t.Fatalf("%+v", m)
	}
	p.must(p.sizes(0, 90))
	p.say(routerAt, serverAt, packet.ACK|packet.PSH, 5000, 6000, 90)
}

func (p *play) until(what string, ok func() bool) {
	p.t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	p.t.Fatalf("not %s: %+v; entries %d", what, p.Counts(), p.net.count())
}

func (p *play) state() api.ControllerSessionState {
	for _, s := range p.Sessions() {
		if s.Client == clientAt {
			return s.State
		}
	}
	return ""
}

func TestHandoff(t *testing.T) {
	p := newPlay(t, Options{})
	p.must(p.sizes(78, 0))
	if p.net.count() != 1 || p.state() != api.ControllerRequested {
		t.Fatalf("%d entries, %s; want flow mod 1", p.net.count(), p.state())
	}
	p.say(serviceAt, clientAt, packet.ACK, 200, 178, 0)             // blocked
	p.say(clientAt, serviceAt, packet.ACK|packet.PSH, 178, 200, 40) // more: repeated later
	p.say(clientAt, serviceAt, packet.FIN|packet.ACK, 218, 200, 0)  // too
	m, err := p.match()
	p.must(err)
	p.say(routerAt, serverAt, packet.ACK, 5000, 6000, 60) // before the size is reported
	p.must(p.setRequestSize(t.Context(), p.caller, api.ControllerRequestSize{Leg: m.Leg, Size: 90}))
	p.say(routerAt, serverAt, packet.ACK, 5000, 6000, 60) // repeated
	if out := p.net.sent(); len(out) > 0 {
		t.Fatalf("passed on: %v", out)
	}
	p.say(routerAt, serverAt, packet.ACK|packet.PSH, 5060, 6000, 30)
	var out []string
	p.until("sent", func() bool { out = append(out, p.net.sent()...); return len(out) >= 2 })
	if out[0] != "10.9.9.9:50000 > 10.2.0.3:80 .A... 60" && !strings.HasSuffix(out[0], " 60") || !strings.HasSuffix(out[1], " 30") {
		t.Errorf("the request: %v", out)
	}
	p.say(serverAt, routerAt, packet.ACK, 6000, 5060, 0) // a part
	p.say(serverAt, routerAt, packet.ACK, 6000, 5090, 0)
	p.until("done", func() bool { return p.Counts().Done == 1 })
	out = p.net.sent()
	if n := len(out); n < 2 || !strings.Contains(out[n-2], "10.1.0.2:40000 > 10.9.9.9:80 ") || !strings.Contains(out[n-1], "10.2.0.3:80 > 10.9.9.9:50000 ") {
		t.Errorf("the resets: %v", out)
	}
	if p.net.count() != 9 || p.state() != api.ControllerHandedOff || len(p.Wanted(1))+len(p.Wanted(3)) != 6 {
		t.Errorf("%d entries, %s", p.net.count(), p.state())
	}
	p.say(serverAt, routerAt, packet.ACK|packet.PSH, 6000, 5090, 70) // the answer begins: no more copies
	if p.net.count() != 8 {
		t.Errorf("%d entries when the answer has begun", p.net.count())
	}
	// It is idle: everything goes.
	id := p.Handoffs()[0].ID
	if p.FlowGone(3, &openflow.FlowRemoved{Cookie: 0xb701 << 48}) {
		t.Error("another module's entry")
	}
	p.FlowGone(3, &openflow.FlowRemoved{Cookie: cookie(uint32(id)), Reason: openflow.RemovedIdleTimeout, Packets: 5, Octets: 500})
	if c := p.Counts(); p.net.count() != 0 || c.Ended != 1 || c.Bytes != 500 || c.Live != 0 || p.state() != "" {
		t.Errorf("%d entries are left; %+v", p.net.count(), c)
	}
}

// TestResets: the resets have the numbers that their receivers expect.
func TestResets(t *testing.T) {
	p := newPlay(t, Options{})
	p.toRequest()
	p.until("sent", func() bool { return len(p.net.sent()) > 0 })
	p.say(serverAt, routerAt, packet.ACK, 6000, 5090, 0)
	p.until("done", func() bool { return p.Counts().Done == 1 })
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	n := len(p.net.out)
	if a, b := p.net.out[n-2].TCP().Seq(), p.net.out[n-1].TCP().Seq(); a != 178 || b != 6000 {
		t.Errorf("%d and %d", a, b)
	}
}

// TestUndone: each failure has its end: the session is the router's again, and nothing is left in the switches.
func TestUndone(t *testing.T) {
	quick := Options{Patience: 300 * time.Millisecond}
	for _, tt := range []struct {
		why  string
		play func(*play)
	}{
		{"timeout", func(p *play) { p.must(p.sizes(78, 0)) }},
		{"router-gone", func(p *play) {
			p.must(p.sizes(78, 0))
			p.routerGone(p.caller)
		}},
		{"client-reset", func(p *play) {
			p.must(p.sizes(78, 0))
			p.say(clientAt, serviceAt, packet.RST, 178, 0, 0)
		}},
		{"router-reset", func(p *play) {
			p.must(p.sizes(78, 0))
			p.say(serviceAt, clientAt, packet.RST, 200, 0, 0)
		}},
		{"reused", func(p *play) {
			p.must(p.sizes(78, 0))
			p.say(clientAt, serviceAt, packet.SYN, 777777, 0, 0)
		}},
		{"proxied", func(p *play) {
			p.must(p.sizes(78, 0))
			p.net.noPath = true // or its entries for the proxied session would be counted
			p.must(p.proxied(p.t.Context(), p.caller, api.ControllerProxied{Client: clientAt, Service: serviceAt, Why: "test"}))
		}},
		{"leg-closed", func(p *play) {
			p.must(p.sizes(78, 0))
			_, err := p.match()
			p.must(err)
			p.say(serverAt, routerAt, packet.FIN|packet.ACK, 6000, 5000, 0)
		}},
		{"leg-size", func(p *play) {
			p.must(p.sizes(78, 0))
			_, err := p.match()
			p.must(err)
			p.must(p.sizes(0, 90))
			p.say(routerAt, serverAt, packet.ACK, 5000, 6000, 100)
		}},
		{"switch", func(p *play) {
			p.net.fail[1] = errors.New("the switch is not connected")
			p.toRequest()
			p.until("failed", func() bool { return p.Counts().Failed["switch"] == 1 })
			p.until("remembered", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.leftover[1]) == 1 })
			delete(p.net.fail, 1)
			p.must(p.SwitchUp(p.t.Context(), 1))
		}},
		{"timeout", func(p *play) { // of a barrier
			p.net.stuck[3] = true
			p.toRequest()
			p.until("failed", func() bool { return p.Counts().Failed["timeout"] == 1 })
			p.net.mu.Lock()
			p.net.stuck[3] = false
			p.net.mu.Unlock()
		}},
		{"no-path", func(p *play) {
			p.net.noPath = true
			p.toRequest()
		}},
		{"timeout", func(p *play) { p.toRequest() }}, // the surrogate does not answer
		{"surrogate-reset", func(p *play) {
			p.toRequest()
			p.until("sent", func() bool { return len(p.net.sent()) > 0 })
			p.say(serverAt, routerAt, packet.RST, 6000, 0, 0)
		}},
		{"no-surrogate", func(p *play) {
			p.must(p.sizes(78, 0))
			p.o.Choose = func(Request) (string, error) { return "", errors.New("none in service") }
			_, err := p.match()
			p.refused(err, api.ControllerUnavailable)
		}},
	} {
		t.Run(tt.why, func(t *testing.T) {
			p := newPlay(t, quick)
			tt.play(p)
			p.until("failed: "+tt.why, func() bool { return p.Counts().Failed[tt.why] == 1 })
			p.until("clean", func() bool { return p.net.count() == 0 && p.Counts().Live == 0 })
			if got := p.state(); got == api.ControllerRequested || got == api.ControllerHandedOff {
				t.Error(got)
			}
			if h := p.Handoffs(); len(h) != 1 || h[0].Failure == "" {
				t.Errorf("%+v", h)
			}
			if tt.why == "timeout" { // the session goes on
				p.net.sent()
				p.say(serviceAt, clientAt, packet.ACK, 200, 178, 10)
				if out := p.net.sent(); len(out) != 1 {
					t.Errorf("the router's answer: %v", out)
				}
				p.refused(p.sizes(78, 0), api.ControllerConflict)
			}
		})
	}
}

func (p *play) refused(err error, code int) {
	p.t.Helper()
	var e *api.ControllerError
	if !errors.As(err, &e) || e.Code != code {
		p.t.Errorf("%v, want code %d", err, code)
	}
}

func TestCallsAreRefused(t *testing.T) {
	p := newPlay(t, Options{})
	_, err := p.hello(t.Context(), p.caller, api.ControllerHello{Name: "x", Service: serverAt})
	p.refused(err, api.ControllerNotFound)
	_, err = p.match()
	p.refused(err, api.ControllerConflict) // the size comes first
	p.refused(p.sizes(77, 0), api.ControllerConflict)
	p.refused(p.sizes(79, 0), api.ControllerConflict)
	p.refused(p.sizes(0, 10), api.ControllerNotFound)
	p.refused(p.setRequestSize(t.Context(), p.caller, api.ControllerRequestSize{Client: routerAt, Service: serviceAt, Size: 1}), api.ControllerNotFound)
	p.refused(p.setRequestSize(t.Context(), p.caller, api.ControllerRequestSize{Client: clientAt, Service: serverAt, Size: 1}), api.ControllerForbidden)
	p.refused(p.setRequestSize(t.Context(), northbound.Caller{Connection: 8}, api.ControllerRequestSize{Client: clientAt, Service: serviceAt, Size: 78}), api.ControllerConflict)
	p.must(p.sizes(78, 0))
	p.refused(p.sizes(78, 0), api.ControllerConflict)
	if p.net.count() != 1 {
		t.Errorf("%d entries", p.net.count())
	}
}

// TestFitting: a leg with other options is not chosen.
func TestFitting(t *testing.T) {
	p := newPlay(t, Options{})
	at := places[clientAt.Addr()]
	other := netip.AddrPortFrom(clientAt.Addr(), 40001)
	p.Packet(at.Point, packet.Build(packet.Spec{SrcMAC: at.MAC, Src: other, Dst: serviceAt, Seq: 99, Flags: packet.SYN, Options: packet.Options{}.AppendTimestamps(1, 0)}))
	at = places[serviceAt.Addr()]
	p.Packet(at.Point, packet.Build(packet.Spec{SrcMAC: at.MAC, Src: serviceAt, Dst: other, Seq: 199, Ack: 100, Flags: packet.SYN | packet.ACK, Options: packet.Options{}.AppendTimestamps(1, 1)}))
	p.say(other, serviceAt, packet.ACK, 100, 200, 5)
	p.must(p.setRequestSize(t.Context(), p.caller, api.ControllerRequestSize{Client: other, Service: serviceAt, Size: 5}))
	_, err := p.getMatchingSession(t.Context(), p.caller, api.ControllerSessionKey{Client: other, Service: serviceAt})
	p.refused(err, api.ControllerUnavailable)
	p.until("undone", func() bool { return p.Counts().Failed["no-leg"] == 1 })
}

// FuzzPacket: no frame of a stranger fails the manager.
func FuzzPacket(f *testing.F) {
	for _, flags := range []packet.Flags{packet.SYN, packet.ACK, packet.RST, packet.SYN | packet.ACK, packet.FIN | packet.ACK} {
		f.Add(packet.Build(packet.Spec{Src: clientAt, Dst: serviceAt, Flags: flags, Seq: 178, Payload: []byte("x")}), true)
		f.Add(packet.Build(packet.Spec{Src: serverAt, Dst: routerAt, Flags: flags, Seq: 6000}), false)
	}
	f.Fuzz(func(t *testing.T, frame []byte, strip bool) {
		p := newPlay(t, Options{Strip: strip})
		p.must(p.sizes(78, 0))
		_, err := p.match()
		p.must(err)
		p.Packet(sessions.Point{Switch: 1, Port: 1}, frame)
		p.Packet(sessions.Point{Switch: 3, Port: 2}, slices.Clone(frame))
	})
}
