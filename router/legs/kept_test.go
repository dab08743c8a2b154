package legs

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	kernel "baton/datapath/router"
	"baton/router/config"
)

var (
	caller = netip.MustParseAddrPort("198.51.100.7:40000")
	vip    = netip.MustParseAddrPort("203.0.113.9:80")
)

var keeping = config.Legs{Mode: config.LegsOnDemand, Max: 2, Idle: 50 * time.Second}

// keeps asks for a leg from the client's address without time to wait. told is what the request is told, "" for a leg.
func keeps(client, vip netip.AddrPort, told string) func(*world) {
	return func(w *world) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := w.m.WaitKept(ctx, surrogateID, usual, client, vip)
		if (err == nil) != (told == "") ||
			err != nil && (!errors.Is(err, ErrNoLeg) || !strings.Contains(err.Error(), told)) {
			w.t.Fatalf("a request is told %v, want %q", err, told)
		}
	}
}

// serves makes the client's session take its leg.
func serves(client, vip netip.AddrPort) func(*world) {
	return func(w *world) {
		s := w.of(client)
		s.State, s.Client, s.VIP = kernel.Active, client, vip
	}
}

// of is the leg from the client's address.
func (w *world) of(client netip.AddrPort) *kernel.Splice {
	for _, s := range w.splices {
		if s.Router == client {
			return s
		}
	}
	w.t.Fatalf("no leg from %v", client)
	return nil
}

// ends makes the client's leg end, which the manager does not know yet; ended tells it.
func (w *world) ends(client netip.AddrPort, end kernel.End, left bool) (ended func(*world)) {
	s := w.of(client)
	s.State = kernel.Dead
	if left {
		s.Client = netip.AddrPort{}
	}
	return func(w *world) {
		w.m.Handle(kernel.Event{End: end, Splice: s.Number, Surrogate: surrogateID, Class: s.Class, Requests: 1})
	}
}

func TestKeptLegs(t *testing.T) {
	w := newWorld(t, keeping, config.ReuseNever)
	var ended func(*world)
	next := netip.AddrPortFrom(caller.Addr(), 40001)
	other := netip.AddrPortFrom(vip.Addr().Next(), 80)
	itself := netip.AddrPortFrom(server.Addr(), 40003)
	w.play([]step{
		{0, tick, "attach 3"},
		{time.Second, keeps(caller, vip, "in time"), "SYN, open class 1"},
		{time.Second, keeps(caller, vip, "in time"), ""}, // it is on its way
		{time.Second, opened, "opened"},
		{time.Second, keeps(caller, vip, ""), ""},
		{time.Second, serves(caller, vip), ""},
		{2 * time.Second, tick, ""},
		{2 * time.Second, keeps(caller, vip, ""), ""}, // its session is there
		{2 * time.Second, keeps(caller, other, "has a session with it already, of VIP 203.0.113.9:80"), ""},
		{2 * time.Second, keeps(next, vip, "in time"), "SYN, open class 1"},
		{2 * time.Second, keeps(netip.AddrPortFrom(caller.Addr(), 40002), vip, "limit of 2 legs"), ""},
		{2 * time.Second, keeps(itself, vip, "the surrogate is the client itself"), ""},
		{2 * time.Second, opened, "opened"},
		{2400 * time.Millisecond, tick, ""},
		{2700 * time.Millisecond, tick, "RST, free, retired"}, // its client has left
		{3 * time.Second, func(w *world) { ended = w.ends(caller, kernel.Closed, false) }, ""},
		{3 * time.Second, keeps(caller, vip, "not free yet"), ""},
		{3 * time.Second, func(w *world) { ended(w) }, "closed, free"},
		{3 * time.Second, keeps(caller, vip, "in time"), "SYN, open class 1"},
		{3 * time.Second, opened, "opened"},
		{3 * time.Second, serves(caller, vip), ""},
		// it has moved, and the surrogate would close
		{3 * time.Second, func(w *world) { w.ends(caller, kernel.Closed, true)(w) }, "RST, closed, free"},
		{4 * time.Second, keeps(caller, vip, "in time"), "SYN, open class 1"},
		{4 * time.Second, refused, "free, refused"},
	})
	if len(w.m.kept) != 0 || len(w.m.ports) != 0 {
		t.Errorf("remembered: %v, ports %v", w.m.kept, w.m.ports)
	}
}

// TestKeptLegIsToldOfAtOnce: a request that waits hears of its leg, or that there will be none.
func TestKeptLegIsToldOfAtOnce(t *testing.T) {
	for _, up := range []bool{true, false} {
		w := newWorld(t, keeping, config.ReuseNever)
		told := make(chan error)
		go func() {
			_, err := w.m.WaitKept(t.Context(), surrogateID, usual, caller, vip)
			told <- err
		}()
		for waits := false; !waits; time.Sleep(time.Millisecond) {
			w.m.mu.Lock()
			waits = len(w.m.pools[surrogateID].opening) == 1
			w.m.mu.Unlock()
		}
		if up {
			opened(w)
		} else {
			refused(w)
		}
		if err := <-told; (err == nil) != up {
			t.Errorf("up %t: told %v", up, err)
		}
	}
}

// TestKeptSYNIsRepeated: a SYN that met an old connection on the same ports is sent again as soon as that is reset, and
// not forever.
func TestKeptSYNIsRepeated(t *testing.T) {
	w := newWorld(t, keeping, config.ReuseNever)
	stale := func(w *world) {
		w.m.Handle(kernel.Event{Stale: true, Splice: w.of(caller).Number, Surrogate: surrogateID, Class: usual})
	}
	w.play([]step{
		{0, tick, "attach 3"},
		{time.Second, keeps(caller, vip, "in time"), "SYN, open class 1"},
		{time.Second, stale, "SYN"},
		{time.Second, stale, "SYN"},
		{time.Second, stale, ""},
		{time.Second, opened, "opened"},
		{time.Second, stale, ""},
	})
}

// TestKeptLegsAreAdopted: a later process knows which legs are whose, and closes those that nobody has taken.
func TestKeptLegsAreAdopted(t *testing.T) {
	w := newWorld(t, keeping, config.ReuseNever)
	idle := netip.AddrPortFrom(caller.Addr(), 40001)
	w.play([]step{
		{0, tick, "attach 3"},
		{0, keeps(caller, vip, "in time"), "SYN, open class 1"},
		{0, keeps(idle, vip, "in time"), "SYN, open class 1"},
		{0, opened, "2 opened"},
		{0, serves(caller, vip), ""},
	})
	w.restart()
	w.update(keeping, config.ReuseNever)
	w.adopt()
	w.m.SetUsable(surrogateID, true)
	w.play([]step{
		{time.Second, keeps(caller, vip, ""), ""},
		{2 * time.Second, tick, "RST, attach 3, free, retired"},
		{2 * time.Second, func(w *world) { w.ends(caller, kernel.ServerReset, false)(w) }, "free, server reset"},
	})
	if len(w.m.kept) != 0 {
		t.Errorf("remembered: %v", w.m.kept)
	}
}

// TestUnansweredKeptLeg: the log says once what may be wrong; the surrogate is not blamed.
func TestUnansweredKeptLeg(t *testing.T) {
	w := newWorld(t, keeping, config.ReuseNever)
	w.failed = func(string, string) { t.Error("blamed") }
	w.doubted = func(surrogate string) { w.note("doubted %s", surrogate) }
	w.play([]step{
		{0, tick, "attach 3"},
		{0, keeps(caller, vip, "in time"), "SYN, open class 1"},
		{time.Second, tick, "SYN"},
		{3 * time.Second, tick, "SYN"},
		{7 * time.Second, tick, "attach 3, free, timeout"},
		{7 * time.Second, deliver, "doubted s"},
		{7 * time.Second, keeps(caller, vip, "in time"), "SYN, open class 1"},
		{8 * time.Second, tick, "SYN"},
		{10 * time.Second, tick, "SYN"},
		{14 * time.Second, tick, "attach 3, free, timeout"},
		{14 * time.Second, deliver, "doubted s"},
	})
	if n := strings.Count(w.logged.String(), "must lead through this host"); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, w.logged.String())
	}
}

// TestKeptSessionStaysAtItsServer: two pools have the same server. A request for the other pool stays on the session's
// leg.
func TestKeptSessionStaysAtItsServer(t *testing.T) {
	w := newWorld(t, keeping, config.ReuseNever)
	if err := w.m.Update([]Surrogate{
		{ID: surrogateID, Name: "s", Address: server, Legs: keeping, Reuse: config.ReuseNever},
		{ID: surrogateID + 1, Name: "again", Address: server, Legs: keeping, Reuse: config.ReuseNever},
	}, 1500); err != nil {
		t.Fatal(err)
	}
	w.m.SetUsable(surrogateID+1, true)
	w.play([]step{
		{0, keeps(caller, vip, "in time"), "SYN, open class 1"},
		{0, opened, "opened"},
		{0, serves(caller, vip), ""},
	})
	k, err := w.m.WaitKept(t.Context(), surrogateID+1, usual, caller, vip)
	if want := (KeptLeg{Number: w.of(caller).Number, Surrogate: surrogateID}); err != nil || k != want {
		t.Errorf("got %+v, %v, want %+v", k, err, want)
	}
}
