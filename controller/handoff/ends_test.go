package handoff

import (
	"net/netip"
	"testing"
	"time"

	"baton/api"
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
