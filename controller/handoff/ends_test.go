package handoff

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"baton/api"
	"baton/controller/switches"
	"baton/openflow"
	"baton/packet"
)

// TestStrip: a SYN passes without the options, with a checksum that holds.
func TestStrip(t *testing.T) {
	p := newPlay(t, Options{Strip: true})
	at := places[clientAt.Addr()]
	options := packet.Options{}.AppendMSS(1460).AppendSACKPermitted().AppendTimestamps(7, 0).AppendNOP(1).AppendWindowScale(7)
	p.Packet(at.Point, packet.Build(packet.Spec{SrcMAC: at.MAC, Src: netip.AddrPortFrom(clientAt.Addr(), 5), Dst: serviceAt, Flags: packet.SYN, Options: options}))
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	f := p.net.out[0]
	o := f.TCP().Options()
	_, _, stamps := o.Timestamps()
	_, scale := o.WindowScale()
	mss, _ := o.MSS()
	if stamps || scale || o.SACKPermitted() || mss != 1460 || f.TCP().Checksum() != f.TransportChecksum() {
		t.Errorf("%x, checksum %x, want %x", []byte(o), f.TCP().Checksum(), f.TransportChecksum())
	}
}

// TestReuse: a client that uses its port again ends what was handed over.
func TestReuse(t *testing.T) {
	p := newPlay(t, Options{})
	p.toRequest()
	p.until("sent", func() bool { return len(p.net.sent()) > 0 })
	p.say(serverAt, routerAt, packet.ACK, 6000, 5090, 0)
	p.until("done", func() bool { return p.Counts().Done == 1 })
	p.net.sent()
	p.say(clientAt, serviceAt, packet.SYN, 999, 0, 0)
	if out := p.net.sent(); len(out) != 1 || p.net.count() != 0 || p.Counts().Ended != 1 || p.state() != api.ControllerHandshake {
		t.Errorf("%v, %d entries, %s", out, p.net.count(), p.state())
	}
}

// TestFinished: when a client has closed its session, the entries end soon after the surrogate's last packet.
func TestFinished(t *testing.T) {
	var kept []Record
	p := newPlay(t, Options{Keep: func(r Record) { kept = append(kept, r) }})
	p.handedOver(&kept)
	entries := p.net.count()
	p.say(clientAt, serviceAt, packet.FIN|packet.ACK, 178, 1000, 0)
	p.say(clientAt, serviceAt, packet.FIN|packet.ACK, 178, 1000, 0) // repeated
	idle := map[uint16]int{}
	for _, at := range p.net.entries {
		for _, m := range at {
			idle[m.Idle]++
		}
	}
	if idle[endSeconds] != 1 || p.net.count() != entries || p.Counts().Ended != 0 {
		t.Errorf("by idle time: %v, %d entries before, %d ended", idle, entries, p.Counts().Ended)
	}
	p.FlowGone(3, &openflow.FlowRemoved{Cookie: cookie(uint32(p.Handoffs()[0].ID)), Reason: openflow.RemovedIdleTimeout})
	if p.net.count() != 0 || p.Counts().Ended != 1 {
		t.Errorf("%d entries are left", p.net.count())
	}
}

// TestReset: so it is when its client has reset it, though nobody but the surrogate can tell whether the RST is the client's: the session is not forgotten.
func TestReset(t *testing.T) {
	var kept []Record
	p := newPlay(t, Options{Keep: func(r Record) { kept = append(kept, r) }})
	p.handedOver(&kept)
	entries := p.net.count()
	p.say(clientAt, serviceAt, packet.RST, 4711, 0, 0)
	soon := 0
	for _, at := range p.net.entries {
		for _, m := range at {
			if m.Idle == endSeconds {
				soon++
			}
		}
	}
	if soon != 1 || p.net.count() != entries || p.Counts().Ended != 0 || p.state() != api.ControllerHandedOff {
		t.Errorf("%d entries end soon; %d of %d are left; %s", soon, p.net.count(), entries, p.state())
	}
}

// TestFinishedEarly: a client may end its session, and use its port again, before the controller has heard of the surrogate's acknowledgement.
func TestFinishedEarly(t *testing.T) {
	for _, flags := range []packet.Flags{packet.FIN | packet.ACK, packet.RST} {
		t.Run(flags.String(), func(t *testing.T) {
			p := newPlay(t, Options{})
			p.toRequest()
			p.until("sent", func() bool { return len(p.net.sent()) > 0 })
			p.say(clientAt, serviceAt, flags, 178, 1000, 0)
			p.say(serverAt, routerAt, packet.ACK, 6000, 5090, 0)
			p.until("done", func() bool { return p.Counts().Done == 1 })
			soon := 0
			for _, m := range p.net.entries[3] {
				if m.Idle == endSeconds {
					soon++
				}
			}
			if soon != 1 || p.state() != api.ControllerHandedOff {
				t.Errorf("%d entries end soon; the session is %s", soon, p.state())
			}
		})
	}
	t.Run("used again", func(t *testing.T) {
		p := newPlay(t, Options{})
		p.toRequest()
		p.until("sent", func() bool { return len(p.net.sent()) > 0 })
		p.say(clientAt, serviceAt, packet.SYN, 999, 0, 0)
		out := p.net.sent()
		if n := len(out); n < 3 || !strings.Contains(out[n-3], "10.1.0.2:40000 > 10.9.9.9:80 RST|ACK") || !strings.Contains(out[n-1], " SYN ") {
			t.Errorf("want the router's session reset before the SYN: %v", out)
		}
		if c := p.Counts(); c.Done != 1 || c.Ended != 1 || len(c.Failed) != 0 || p.net.count() != 0 || p.state() != api.ControllerHandshake {
			t.Errorf("%+v, %d entries, %s", c, p.net.count(), p.state())
		}
		p.say(serverAt, routerAt, packet.ACK, 6000, 5090, 0) // late
		if out := p.net.sent(); len(out) != 1 || p.Counts().Done != 1 {
			t.Errorf("the acknowledgement of a session that is over: %v", out)
		}
	})
}

// TestResetAtOnce: a surrogate that acknowledges a request and resets the session in one packet: the client hears of it.
func TestResetAtOnce(t *testing.T) {
	p := newPlay(t, Options{})
	p.toRequest()
	p.until("sent", func() bool { return len(p.net.sent()) > 0 })
	p.say(serverAt, routerAt, packet.RST|packet.ACK, 6000, 5090, 0)
	out := p.net.sent()
	if n := len(out); n != 3 || !strings.Contains(out[2], "RST|ACK") {
		t.Errorf("want the router's two sessions reset, and the RST passed on: %v", out)
	}
	if c := p.Counts(); c.Done != 1 || c.Ended != 1 || len(c.Failed) != 0 || p.net.count() != 0 || p.state() != "" {
		t.Errorf("%+v, %d entries, %s", c, p.net.count(), p.state())
	}
}

// TestTakenLeg: a leg with the addresses of one that was handed over is refused, and the session goes on.
func TestTakenLeg(t *testing.T) {
	var kept []Record
	p := newPlay(t, Options{Keep: func(r Record) { kept = append(kept, r) }})
	r := p.handedOver(&kept)
	p.net.sent()
	entries := p.net.count()
	p.say(routerAt, serverAt, packet.SYN, 77, 0, 0)
	if out := p.net.sent(); len(out) != 1 || !strings.Contains(out[0], "10.2.0.3:80 > 10.9.9.9:50000 ") || p.net.count() != entries || p.Counts().Ended != 0 {
		t.Errorf("session %d: sent %v, %d of %d entries, %d ended", r.ID, out, p.net.count(), entries, p.Counts().Ended)
	}
}

// TestReroute: handed-over sessions follow the topology.
func TestReroute(t *testing.T) {
	p := newPlay(t, Options{})
	p.toRequest()
	p.until("sent", func() bool { return len(p.net.sent()) > 0 })
	p.say(serverAt, routerAt, packet.ACK, 6000, 5090, 0)
	p.until("done", func() bool { return p.Counts().Done == 1 })
	before := len(p.Wanted(1))
	p.o.Network = moved{p.net}
	p.Reroute(t.Context())
	if got := len(p.Wanted(1)); got != before {
		t.Errorf("%d entries at the access, want %d", got, before)
	}
	out := false
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	for _, e := range p.net.entries[1] {
		for _, i := range e.Instructions {
			for _, a := range i.(openflow.InstructionApplyActions).Actions {
				out = out || a == openflow.Action(openflow.ActionOutput{Port: 7, MaxLen: openflow.MaxLenNoBuffer})
			}
		}
	}
	if !out {
		t.Error("the access switch does not use the other link")
	}
	for _, e := range p.net.entries[3] {
		if e.Priority == switches.PriorityAnswer {
			t.Error("copies of the surrogate's packets still go by the old link")
		}
	}
}

// moved is the network with another link.
type moved struct{ *fake }

func (moved) Path(from, to Place) ([]Hop, error) {
	return []Hop{{from.Switch, from.Port, 7}, {to.Switch, 6, to.Port}}, nil
}

// TestWaitForLeg: a session for which the router has no leg at all waits for the next one.
func TestWaitForLeg(t *testing.T) {
	p := newPlay(t, Options{})
	p.say(serverAt, routerAt, packet.RST, 6000, 0, 0)
	p.must(p.sizes(78, 0))
	second := netip.AddrPortFrom(routerAt.Addr(), 50001)
	go func() {
		time.Sleep(30 * time.Millisecond)
		p.open(second, serverAt, 1, 1)
	}()
	m, err := p.match()
	p.must(err)
	if m.Leg.Local != second {
		t.Errorf("%+v", m)
	}
}
