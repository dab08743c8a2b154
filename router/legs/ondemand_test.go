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

// request waits for a leg without time to wait.
func request(want bool) func(*world) {
	return func(w *world) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err := w.m.WaitIdle(ctx, surrogateID, usual)
		if (err == nil) != want || err != nil && !errors.Is(err, ErrNoLeg) {
			w.t.Fatalf("a request is told %v", err)
		}
	}
}

// taken gives the oldest idle leg to a client.
func taken(w *world) {
	q := queueName(usual, kernel.BandFresh)
	s := w.splices[w.queues[q][0]]
	w.queues[q] = w.queues[q][1:]
	w.leavesIdle(s)
	s.State = kernel.Active
	w.counted.PoppedFresh[usual]++
	w.counted.Popped[usual]++
}

// quiet sets the time for which all legs have been idle, and ticks.
func quiet(d time.Duration) func(*world) {
	return func(w *world) {
		for _, s := range w.splices {
			s.Quiet = d
		}
		tick(w)
	}
}

var onDemand = config.Legs{Mode: config.LegsOnDemand, Max: 6, Idle: 50 * time.Second, Handshake: 40 * time.Millisecond}

func TestOnDemandOpensWhatIsAskedFor(t *testing.T) {
	w := newWorld(t, onDemand, config.ReuseNever)
	w.play([]step{
		{0, tick, "attach 3"},
		{time.Second, request(false), "SYN, open class 1"},
		{time.Second, opened, "opened"}, // without a delay
		{time.Second, request(true), ""},
		{time.Second, request(false), "SYN, open class 1"}, // the first leg is another's, who has not taken it yet
		{time.Second, opened, "opened"},
		{time.Second, taken, ""},
		{time.Second, request(true), ""},
		{1100 * time.Millisecond, taken, ""},
		{1100 * time.Millisecond, func(w *world) { w.counted.Missed[usual] = 20; tick(w) }, ""},
		{1500 * time.Millisecond, tick, ""},
		{2 * time.Second, request(false), "SYN, open class 1"},
		{2 * time.Second, opened, "opened"},
		{2400 * time.Millisecond, quiet(400 * time.Millisecond), ""},
		{2700 * time.Millisecond, quiet(700 * time.Millisecond), "RST, free, retired"}, // its client has left
	})
}

// A request that waits gets a leg without the delay, whatever is being opened for later ones.
func TestWaitingRequestOpensItsOwnLeg(t *testing.T) {
	legs := config.Legs{Min: 1, Max: 6, Idle: 50 * time.Second, Handshake: 40 * time.Millisecond}
	w := newWorld(t, legs, config.ReuseNever)
	w.play([]step{
		{0, tick, "SYN, attach 3, open class 1"},
		{0, request(false), "SYN, open class 1"},
	})
	if len(w.splices) != 2 || len(w.late) != 1 {
		t.Errorf("%d legs, of which %d are acknowledged late, want 2 and 1", len(w.splices), len(w.late))
	}
}

// At the limit a request waits for a leg that is being opened.
func TestWaitingRequestAtTheLimit(t *testing.T) {
	legs := config.Legs{Min: 1, Max: 1, Idle: 50 * time.Second, Handshake: 40 * time.Millisecond}
	w := newWorld(t, legs, config.ReuseNever)
	w.play([]step{{0, tick, "SYN, attach 3, open class 1"}})
	got := make(chan error)
	go func() { got <- w.m.WaitIdle(t.Context(), surrogateID, usual) }()
	for waiting := false; !waiting; time.Sleep(time.Millisecond) {
		w.m.mu.Lock()
		waiting = len(w.m.pools[surrogateID].classes[usual].waiters) > 0
		w.m.mu.Unlock()
		select {
		case err := <-got:
			t.Fatalf("it is told %v", err)
		default:
		}
	}
	w.play([]step{{time.Millisecond, answered, "ACK, opened"}})
	if err := <-got; err != nil {
		t.Errorf("it is told %v", err)
	}
}

// closes makes the surrogate close every idle leg, each that long after it was opened.
func closes(after time.Duration) func(*world) {
	return func(w *world) {
		for n := range uint32(w.Sessions()) {
			if s := w.splices[n]; s != nil && s.State == kernel.Idle {
				w.leavesIdle(s)
				w.queues[queueName(s.Class, kernel.BandFresh)] = nil
				s.State = kernel.Dead
				w.m.Handle(kernel.Event{
					End: kernel.ClosedIdle, Splice: n, Surrogate: surrogateID, Class: s.Class, Idle: after, Age: after,
				})
			}
		}
	}
}

// TestEarlyClosesAreLearnt: a surrogate closes unused connections after a second.
func TestEarlyClosesAreLearnt(t *testing.T) {
	w := newWorld(t, config.Legs{Mode: config.LegsReady, Min: 2, Max: 6, Idle: 50 * time.Second}, config.ReuseNever)
	for i := range 4 {
		at := time.Duration(i) * 2 * time.Second
		if mode, _ := w.m.Mode(surrogateID); mode != config.LegsReady {
			t.Fatalf("mode %s after %d closes", mode, i)
		}
		first := ""
		if i == 0 {
			first = "attach 3, "
		}
		w.play([]step{
			{at, tick, "2 SYN, " + first + "2 open class 1"},
			{at, opened, "2 opened"},
			{at + time.Second, closes(time.Second), "2 closed idle, 2 free"},
		})
		w.m.routed = w.now.Add(time.Hour) // so that routes are not looked up
	}
	mode, after := w.m.Mode(surrogateID)
	if mode != config.LegsOnDemand || after != time.Second {
		t.Errorf("mode %s after %v, want on-demand after 1s", mode, after)
	}
	if n := strings.Count(w.logged.String(), "opened on demand"); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, w.logged.String())
	}
	test := 7*time.Second + earlyTest
	w.play([]step{
		{8 * time.Second, tick, ""},
		{9 * time.Second, request(false), "SYN, open class 1"},
		{9 * time.Second, opened, "opened"},
		{9 * time.Second, taken, ""},
		{20 * time.Second, tick, ""},
		{test, tick, "SYN, open class 1"},
		{test, opened, "opened"},
		{test + time.Second, quiet(time.Second), ""},
		{test + time.Second, closes(time.Second), "closed idle, free"},
		{test + time.Minute, tick, ""},
	})
	w.m.routed = w.began.Add(24 * time.Hour)
	test += time.Second + earlyTest
	w.play([]step{
		{test, tick, "SYN, open class 1"},
		{test, opened, "opened"},
		{test + 2*time.Second, quiet(2 * time.Second), ""},
		{test + earlyIdle, quiet(earlyIdle), ""},
		{test + earlyIdle + restEvery, tick, "2 SYN, 2 open class 1"}, // legs are kept ready again
	})
	if mode, _ := w.m.Mode(surrogateID); mode != config.LegsReady {
		t.Errorf("mode %s when it keeps connections", mode)
	}
}

// TestRestartIsNoHabit: a surrogate that restarts closes legs of any age.
func TestRestartIsNoHabit(t *testing.T) {
	var e early
	now := time.Unix(1000, 0)
	for range 4 {
		now = now.Add(time.Minute)
		for range 100 {
			e.noteClose(2*time.Second, 2*time.Second, now)
		}
		if e.closes > 1 {
			t.Fatalf("%d closes in a row", e.closes)
		}
		e.noteSurvival()
	}
	for range 100 { // as it starts it closes at once for a second
		now = now.Add(10 * time.Millisecond)
		if e.noteClose(0, 0, now) {
			t.Fatal("a habit after a second")
		}
	}
}

var others = []netip.Addr{netip.MustParseAddr("192.0.2.252"), netip.MustParseAddr("192.0.2.253")}

// from counts legs by the address that they start from.
func (w *world) from() map[netip.Addr]int {
	out := make(map[netip.Addr]int)
	for _, s := range w.splices {
		out[s.Router.Addr()]++
	}
	return out
}

func (w *world) wantFrom(first, second, route int) {
	w.t.Helper()
	if got := w.from(); got[others[0]] != first || got[others[1]] != second || got[ours] != route {
		w.t.Fatalf("legs from %v, want %d, %d and %d from the route's address", got, first, second, route)
	}
}

func TestLegsStartFromAllSources(t *testing.T) {
	legs := config.Legs{Min: 4, Max: 8, Idle: 50 * time.Second, Sources: others}
	w := newWorld(t, legs, config.ReuseNever)
	w.m.o.Ports = PortRange{2048, 2050}
	w.play([]step{
		{0, tick, "4 SYN, attach 3, 4 open class 1"},
		{0, opened, "4 opened"},
	})
	w.wantFrom(2, 2, 0)
	legs.Min = 8
	w.update(legs, config.ReuseNever)
	w.play([]step{{200 * time.Millisecond, tick, "2 SYN, 2 open class 1"}}) // then all ports are in use
	w.wantFrom(3, 3, 0)
	if n := strings.Count(w.logged.String(), "every port to the surrogate is in use"); n != 1 {
		t.Errorf("it is logged %d times that ports are missing", n)
	}

	// the next process finds them in use
	w.play([]step{{300 * time.Millisecond, opened, "2 opened"}})
	w.restart()
	w.m.o.Ports = PortRange{2048, 2050}
	w.update(legs, config.ReuseNever)
	w.adopt()
	w.m.SetUsable(surrogateID, true)
	w.play([]step{{500 * time.Millisecond, tick, "attach 3"}})

	// a reload without the second one
	legs.Min, legs.Sources = 3, others[:1]
	w.update(legs, config.ReuseNever)
	w.play([]step{{800 * time.Millisecond, tick, "3 RST, 3 free, 3 retired"}})
	w.wantFrom(3, 0, 0)

	// and without any
	legs.Sources = nil
	w.update(legs, config.ReuseNever)
	w.play([]step{
		{1100 * time.Millisecond, tick, "3 RST, 3 SYN, 3 free, 3 open class 1, 3 retired"},
	})
	w.wantFrom(0, 0, 3)
}

func TestPortsAreReusedInTurn(t *testing.T) {
	p := newPorts(PortRange{2048, 2147})
	p.claimPort(2050)
	p.claimPort(2050)
	p.claimPort(4000) // of an earlier range
	last := map[uint16]int{}
	for i := range 99 {
		port, ok := p.allocPort()
		if !ok || port < 2048 || port > 2147 || port == 2050 || last[port] != 0 {
			t.Fatalf("port %d, %t", port, ok)
		}
		last[port] = i + 1
	}
	if port, ok := p.allocPort(); ok {
		t.Fatalf("port %d of none", port)
	}
	for port := range last {
		p.freePort(port)
		p.freePort(port)
	}
	p.freePort(4000)
	for i := range 99 { // the one freed longest ago first
		if port, ok := p.allocPort(); !ok || last[port] != i+1 {
			t.Fatalf("port %d is number %d, %t, want number %d", port, last[port], ok, i+1)
		}
	}
}
