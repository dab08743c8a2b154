package handoff

import (
	"encoding/json"
	"net/netip"
	"testing"

	"baton/api"
	"baton/controller/sessions"
	"baton/openflow"
	"baton/packet"
)

// handedOver plays a handoff, and returns its record as a store has it.
func (p *play) handedOver(kept *[]Record) Record {
	p.t.Helper()
	p.toRequest()
	p.until("sent", func() bool { return len(p.net.sent()) > 0 })
	p.say(serverAt, routerAt, packet.ACK, 6000, 5090, 0)
	p.until("done", func() bool { return p.Counts().Done == 1 })
	if len(*kept) != 1 {
		p.t.Fatalf("%d records", len(*kept))
	}
	text, err := json.Marshal((*kept)[0])
	p.must(err)
	var r Record
	p.must(json.Unmarshal(text, &r))
	return r
}

// TestRestore: another controller knows a session by its record, brings it to the path of the moment, and ends it.
func TestRestore(t *testing.T) {
	var kept []Record
	first := newPlay(t, Options{Keep: func(r Record) { kept = append(kept, r) }})
	r := first.handedOver(&kept)
	before := first.net.count()

	var forgotten []uint32
	next := newEmpty(t, Options{Forget: func(id uint32) { forgotten = append(forgotten, id) }})
	next.net.entries = first.net.entries
	next.Restore([]Record{r, r})
	all := next.Handoffs()
	if len(all) != 1 || all[0].ID != uint64(r.ID) || all[0].Surrogate != "se1" || all[0].Client != first.Handoffs()[0].Client || all[0].Leg != first.Handoffs()[0].Leg {
		t.Fatalf("%+v", all)
	}
	if s := next.Sessions(); len(s) != 1 || s[0].State != api.ControllerHandedOff || s[0].Surrogate != "se1" {
		t.Errorf("%+v", s)
	}
	if n := len(next.Wanted(1)) + len(next.Wanted(3)); n != 0 {
		t.Errorf("%d entries are wanted before the network is known", n)
	}
	next.Reroute(t.Context())
	if n := len(next.Wanted(1)) + len(next.Wanted(3)); n != 6 || next.net.count() != before {
		t.Errorf("%d entries are wanted, and the switches have %d, want 6 and %d", n, next.net.count(), before)
	}
	// Packets that come to the controller are still those of a session that was handed over.
	next.say(clientAt, serviceAt, packet.ACK, 178, 1000, 10)
	if out := next.net.sent(); len(out) != 0 {
		t.Errorf("a packet of the client was passed on: %v", out)
	}
	next.FlowGone(3, &openflow.FlowRemoved{Cookie: cookie(uint32(r.ID)), Reason: openflow.RemovedIdleTimeout})
	if c := next.Counts(); next.net.count() != 0 || c.Ended != 1 || c.Live != 0 || len(forgotten) != 1 || forgotten[0] != r.ID {
		t.Errorf("%d entries are left, %v are forgotten; %+v", next.net.count(), forgotten, c)
	}
}

// TestRestoreAgain: what has no record any more ended under another master; a session whose addresses are used again is not taken.
func TestRestoreAgain(t *testing.T) {
	var kept []Record
	first := newPlay(t, Options{Keep: func(r Record) { kept = append(kept, r) }})
	r := first.handedOver(&kept)
	entries := first.net.count()
	first.Restore([]Record{r})
	if c := first.Counts(); c.Live != 1 {
		t.Errorf("its own session: %+v", c)
	}
	first.Restore(nil)
	if c := first.Counts(); c.Live != 0 || first.net.count() != entries || len(first.Sessions()) != 0 {
		t.Errorf("%+v, %d entries, want them to stay: %d", c, first.net.count(), entries)
	}

	next := newEmpty(t, Options{})
	next.say(clientAt, serviceAt, packet.SYN, 99, 0, 0)
	next.Restore([]Record{r})
	if c := next.Counts(); c.Live != 0 || next.state() != api.ControllerHandshake {
		t.Errorf("%+v, %s", c, next.state())
	}
}

func TestTableRestores(t *testing.T) {
	tt := sessions.New(sessions.Rules{}, func(_, _ netip.AddrPort) sessions.Kind { return sessions.Client })
	s := &sessions.Session{Way: sessions.Way{From: clientAt, To: serviceAt}, Kind: sessions.Client, State: api.ControllerHandedOff}
	if !tt.Restore(s) || tt.Restore(&sessions.Session{Way: s.Way.Back(), Kind: sessions.Leg}) {
		t.Error("the session is not restored, or twice")
	}
	if tt.Remove(s); tt.Session(s.Way) != nil || tt.Session(s.Way.Back()) != nil {
		t.Error("the session is left")
	}
}
