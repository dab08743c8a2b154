package legs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	kernel "baton/datapath/router"
	"baton/router/config"
)

// world fakes the kernel, the wire, the routes and the clock, and records the manager's actions.
type world struct {
	t       *testing.T
	m       *Manager
	now     time.Time
	began   time.Time
	splices map[uint32]*kernel.Splice
	queues  map[string][]uint32
	made    []int // number of queues made at once
	counted kernel.Surrogate
	route   Route
	did     []string
	late    map[uint32]bool // legs whose ACK is delayed
	logged  strings.Builder

	failed  func(surrogate, kind string) // replace those of Options
	doubted func(surrogate string)
	changed func()

	lookedUp func()
	unrouted error // why there is no route
}

const (
	surrogateID = 7
	usual       = 0<<1 | 1 // timestamps, the only MSS
	plain       = 0 << 1
)

var (
	server = netip.MustParseAddrPort("192.0.2.1:80")
	ours   = netip.MustParseAddr("192.0.2.254")
)

func newWorld(t *testing.T, legs config.Legs, reuse config.Reuse) *world {
	w := &world{
		t: t, now: time.Unix(1000, 0),
		splices: map[uint32]*kernel.Splice{}, queues: map[string][]uint32{}, late: map[uint32]bool{},
		route:  Route{Source: ours, Ifindex: 3, Paths: []int{3}},
		failed: func(string, string) {}, doubted: func(string) {}, changed: func() {},
		lookedUp: func() {},
	}
	w.began = w.now
	w.restart()
	w.adopt()
	w.update(legs, reuse)
	w.m.SetUsable(surrogateID, true)
	return w
}

// restart replaces the manager.
func (w *world) restart() {
	w.m = New(Options{
		Kernel: w, Wire: w, Routes: w, Ports: PortRange{2048, 4095},
		Now: func() time.Time { return w.now }, Timestamp: func() uint32 { return 1 },
		MSS: []uint16{1460}, Log: slog.New(slog.NewTextHandler(&w.logged, nil)),
		Failed:  func(surrogate, kind string) { w.failed(surrogate, kind) },
		Doubted: func(surrogate string) { w.doubted(surrogate) },
		Changed: func() { w.changed() },
		Event:   func(_, event string) { w.note("%s", event) },
	})
}

// adopt takes over the legs of the manager before.
func (w *world) adopt() {
	w.t.Helper()
	if err := w.m.Adopt(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) update(legs config.Legs, reuse config.Reuse) {
	w.t.Helper()
	s := Surrogate{ID: surrogateID, Name: "s", Address: server, Legs: legs, Reuse: reuse}
	if err := w.m.Update([]Surrogate{s}, 1500); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) note(format string, args ...any) { w.did = append(w.did, fmt.Sprintf(format, args...)) }

// step is an event at a time, and the manager's actions in response: each once, sorted, with its count.
type step struct {
	at   time.Duration
	do   func(w *world)
	want string
}

func (w *world) play(steps []step) {
	w.t.Helper()
	for _, s := range steps {
		w.now = w.began.Add(s.at)
		w.did = nil
		s.do(w)
		if got := w.said(); got != s.want {
			w.t.Fatalf("at %v: did %q, want %q", s.at, got, s.want)
		}
	}
}

func (w *world) said() string {
	slices.Sort(w.did)
	var out []string
	for i := 0; i < len(w.did); {
		n := 1
		for i+n < len(w.did) && w.did[i+n] == w.did[i] {
			n++
		}
		if n > 1 {
			out = append(out, fmt.Sprintf("%d %s", n, w.did[i]))
		} else {
			out = append(out, w.did[i])
		}
		i += n
	}
	return strings.Join(out, ", ")
}

func tick(w *world) { w.m.Tick() }

func queueName(class, band uint8) string { return fmt.Sprintf("%d/%d", class, band) }

// opened makes every opening leg idle, as the kernel does without a delay.
func opened(w *world) {
	for n := range uint32(w.Sessions()) {
		if s := w.splices[n]; s != nil && s.State == kernel.Opening {
			w.idle(s, kernel.BandFresh)
			w.m.Handle(kernel.Event{Up: true, Splice: n, Surrogate: surrogateID, Class: s.Class})
		}
	}
}

// answered makes each SYN-ACK wait for the manager.
func answered(w *world) {
	for n, s := range w.splices {
		if s.State == kernel.Opening {
			s.State = kernel.Answered
			w.m.Handle(kernel.Event{Answered: true, Splice: n, Surrogate: surrogateID, Class: s.Class})
		}
	}
}

// idle puts a leg into its queue.
func (w *world) idle(s *kernel.Splice, band uint8) {
	s.State, s.Band = kernel.Idle, band
	q := queueName(s.Class, band)
	w.queues[q] = append(w.queues[q], s.Number)
	w.counted.Idle[s.Class]++
	if band == kernel.BandFresh {
		w.counted.Fresh[s.Class]++
	}
}

// dies ends an idle leg, as reported by the kernel.
func dies(number uint32, end kernel.End, idle time.Duration) func(*world) {
	return func(w *world) {
		s := w.splices[number]
		w.leavesIdle(s)
		s.State = kernel.Dead
		w.m.Handle(kernel.Event{
			End: end, Splice: number, Surrogate: surrogateID, Class: s.Class, Requests: s.Requests, Idle: idle,
		})
	}
}

func (w *world) leavesIdle(s *kernel.Splice) {
	w.counted.Idle[s.Class]--
	if s.Band == kernel.BandFresh {
		w.counted.Fresh[s.Class]--
	}
}

// refused makes the surrogate answer every SYN with RST.
func refused(w *world) {
	for n, s := range w.splices {
		if s.State == kernel.Opening {
			s.State = kernel.Dead
			w.m.Handle(kernel.Event{End: kernel.Refused, Splice: n, Surrogate: surrogateID, Class: s.Class})
		}
	}
}

var usualLegs = config.Legs{Min: 2, Max: 6, Idle: 50 * time.Second}

func TestPoolIsFilledAndKept(t *testing.T) {
	w := newWorld(t, usualLegs, config.ReuseAlways)
	w.play([]step{
		{0, tick, "2 SYN, attach 3, 2 open class 1"},
		{time.Millisecond, opened, "2 opened"},
		{200 * time.Millisecond, tick, ""},
		{400 * time.Millisecond, dies(0, kernel.ResetIdle, 0), "free, reset idle"},
		{500 * time.Millisecond, tick, "SYN, open class 1"},
	})
}

func TestSYNsAreRepeatedAndGivenUp(t *testing.T) {
	w := newWorld(t, config.Legs{Min: 1, Max: 6, Idle: 50 * time.Second}, config.ReuseAlways)
	w.play([]step{
		{0, tick, "SYN, attach 3, open class 1"},
		{900 * time.Millisecond, tick, ""},
		{time.Second, tick, "SYN"},
		{2900 * time.Millisecond, tick, ""},
		{3 * time.Second, tick, "SYN"},
		{7 * time.Second, tick, "attach 3, free, timeout"},
		{7*time.Second + firstBackoff - time.Millisecond, tick, ""}, // not before the backoff ends
		{7*time.Second + 2*firstBackoff, tick, "SYN, open class 1"},
	})
}

func TestRefusedLegsBackOff(t *testing.T) {
	w := newWorld(t, config.Legs{Min: 1, Max: 6, Idle: 50 * time.Second}, config.ReuseAlways)
	w.play([]step{
		{0, tick, "SYN, attach 3, open class 1"},
		{0, refused, "free, refused"},
		{firstBackoff / 2, tick, ""},
		{2 * firstBackoff, tick, "SYN, open class 1"},
		{2 * firstBackoff, refused, "free, refused"},
		{2*firstBackoff + firstBackoff, tick, ""}, // twice as long now
		{2*firstBackoff + 2*firstBackoff + restEvery, tick, "SYN, open class 1"},
	})
}

func TestAcknowledgesLate(t *testing.T) {
	legs := config.Legs{Min: 1, Max: 6, Idle: 50 * time.Second, Handshake: 40 * time.Millisecond}
	w := newWorld(t, legs, config.ReuseAlways)
	w.play([]step{
		{0, tick, "SYN, attach 3, open class 1"},
		{time.Millisecond, answered, ""},
		{30 * time.Millisecond, tick, ""},
		{41 * time.Millisecond, tick, "ACK, opened"},
	})
}

func TestAcknowledgesAtOnceForAClientThatWaits(t *testing.T) {
	legs := config.Legs{Min: 0, Max: 6, Idle: 50 * time.Second, Handshake: 40 * time.Millisecond}
	w := newWorld(t, legs, config.ReuseAlways)
	got := make(chan error, 1)
	w.play([]step{
		{0, func(w *world) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			got <- w.m.WaitIdle(ctx, surrogateID, usual)
		}, "SYN, open class 1"},
	})
	if err := <-got; !errors.Is(err, ErrNoLeg) {
		t.Fatalf("Want without time: %v", err)
	}
	// as WaitIdle does, until it waits
	w.m.pools[surrogateID].ensureClass(usual).waiters = []chan error{got}
	w.play([]step{{time.Millisecond, answered, "ACK, opened"}})
	if err := <-got; err != nil {
		t.Errorf("the client that waits is told %v", err)
	}
}

// uses takes fresh legs for clients, as the kernel does; those that find none miss them.
func uses(clients uint32) func(*world) {
	return func(w *world) {
		for range clients {
			q := w.queues[queueName(usual, kernel.BandFresh)]
			if len(q) == 0 {
				w.counted.Missed[usual]++
				continue
			}
			w.queues[queueName(usual, kernel.BandFresh)] = q[1:]
			w.leavesIdle(w.splices[q[0]])
			w.splices[q[0]].State = kernel.Active
			w.counted.Popped[usual]++
			w.counted.PoppedFresh[usual]++
			w.counted.Active++
		}
	}
}

func TestAcknowledgesEarlyAtASuddenStart(t *testing.T) {
	legs := config.Legs{Min: 4, Max: 8, Idle: 50 * time.Second, Handshake: 40 * time.Millisecond}
	w := newWorld(t, legs, config.ReuseNever)
	w.play([]step{
		{0, tick, "4 SYN, attach 3, 4 open class 1"},
		{time.Millisecond, answered, ""},
		{5 * time.Millisecond, tick, ""}, // nobody lacks them
		{41 * time.Millisecond, tick, "4 ACK, 4 opened"},
		{140 * time.Millisecond, uses(6), ""}, // two find none
		{141 * time.Millisecond, tick, "4 SYN, 4 open class 1"},
		{142 * time.Millisecond, answered, ""},
		{144 * time.Millisecond, uses(1), ""},             // which finds none, too
		{145 * time.Millisecond, tick, "2 ACK, 2 opened"}, // for as many in each of the next two ticks
		{146 * time.Millisecond, uses(1), ""},
		{149 * time.Millisecond, tick, "ACK, opened"},
	})
}

func TestLearnsThatTimestampsAreRefused(t *testing.T) {
	w := newWorld(t, config.Legs{Min: 1, Max: 6, Idle: 50 * time.Second}, config.ReuseAlways)
	w.play([]step{
		{0, tick, "SYN, attach 3, open class 1"},
		{time.Millisecond, func(w *world) {
			w.splices[0].Class, w.splices[0].ServerMSS = plain, 1200
			opened(w)
		}, "opened"},
		{200 * time.Millisecond, tick, ""}, // its one leg is of the class that is kept now
		{300 * time.Millisecond, dies(0, kernel.ResetIdle, 0), "free, reset idle"},
		{400 * time.Millisecond, tick, "SYN, open class 0"},
	})
	if f := w.m.Facts(surrogateID); !f.NoTS || f.MSS != 1200 {
		t.Errorf("facts %+v", f)
	}
	if err := w.m.WaitIdle(t.Context(), surrogateID, usual); !errors.Is(err, ErrNoLeg) {
		t.Errorf("a client with timestamps may wait: %v", err)
	}
}

func TestRenewsBeforeTheSurrogateCloses(t *testing.T) {
	w := newWorld(t, config.Legs{Min: 1, Max: 6, Idle: 50 * time.Second}, config.ReuseAlways)
	quiet := func(age time.Duration) func(*world) {
		return func(w *world) {
			for _, s := range w.splices {
				s.Quiet = age
			}
			tick(w)
		}
	}
	w.play([]step{
		{0, tick, "SYN, attach 3, open class 1"},
		{0, opened, "opened"},
		{10 * time.Second, dies(0, kernel.ClosedIdle, 10*time.Second), "closed idle, free"},
		{10100 * time.Millisecond, tick, "SYN, attach 3, open class 1"},
		{10100 * time.Millisecond, opened, "opened"},
		{17 * time.Second, quiet(6900 * time.Millisecond), "attach 3"},
		{19 * time.Second, quiet(8900 * time.Millisecond), "RST, free, retired"}, // 0.8 of the surrogate's timeout
	})
}

func TestRoutesAreFollowed(t *testing.T) {
	w := newWorld(t, config.Legs{Min: 1, Max: 6, Idle: 50 * time.Second}, config.ReuseAlways)
	w.play([]step{
		{0, tick, "SYN, attach 3, open class 1"},
		{time.Second / 2, func(w *world) {
			w.route = Route{Source: ours, Ifindex: 4, Paths: []int{3, 4}}
			w.m.RoutesChanged()
			tick(w)
		}, "attach 3, attach 4, paths [3 4]"},
		{time.Second, func(w *world) {
			w.route = Route{Local: true}
			w.m.RoutesChanged()
			tick(w)
		}, "SYN"},
	})
	if !w.m.Local(surrogateID) {
		t.Error("not known to be local")
	}
	if err := w.m.WaitIdle(t.Context(), surrogateID, usual); !errors.Is(err, ErrNoLeg) {
		t.Errorf("a leg to this host: %v", err)
	}
}

// An event may be read after its splice has been reused.
func TestEventsOfAnEarlierLegChangeNothing(t *testing.T) {
	w := newWorld(t, config.Legs{Min: 1, Max: 6, Idle: 50 * time.Second}, config.ReuseAlways)
	w.play([]step{
		{0, tick, "SYN, attach 3, open class 1"},
		{0, func(w *world) {
			w.m.Handle(kernel.Event{Up: true, Splice: 0, Surrogate: surrogateID + 1, Class: usual})
			w.m.Handle(kernel.Event{Up: true, Splice: 0, Surrogate: surrogateID, Class: usual}) // still opening
			w.m.Handle(kernel.Event{End: kernel.ClosedIdle, Splice: 0, Surrogate: surrogateID})
			w.m.Handle(kernel.Event{End: kernel.ClosedIdle, Splice: 5, Surrogate: surrogateID})
		}, ""},
		{time.Second, tick, "SYN"},
	})
}

// A leg whose events have not been read yet is not given up.
func TestUnreadEventsAreCaughtUp(t *testing.T) {
	w := newWorld(t, config.Legs{Min: 1, Max: 6, Idle: 50 * time.Second}, config.ReuseAlways)
	w.play([]step{
		{0, tick, "SYN, attach 3, open class 1"},
		{time.Second, func(w *world) {
			w.idle(w.splices[0], kernel.BandFresh)
			tick(w)
		}, "opened"},
		{9 * time.Second, tick, "attach 3"},
	})
}

// With reuse safe new clients can use only fresh legs: in a full pool, others are evicted.
func TestFullPoolMakesRoomForFreshLegs(t *testing.T) {
	w := newWorld(t, config.Legs{Min: 1, Max: 2, Idle: 50 * time.Second}, config.ReuseSafe)
	w.play([]step{
		{0, tick, "SYN, attach 3, open class 1"},
		{0, opened, "opened"},
		{100 * time.Millisecond, func(w *world) { // it has served a client
			s := w.splices[0]
			w.leavesIdle(s)
			w.queues = map[string][]uint32{
				queueName(usual, kernel.BandNearest): nil, queueName(usual, kernel.BandFresh): nil,
			}
			w.idle(s, kernel.BandNearest)
			tick(w)
		}, "SYN, open class 1"},
		{100 * time.Millisecond, opened, "opened"},
		{200 * time.Millisecond, func(w *world) { // as has the other
			s := w.splices[1]
			w.leavesIdle(s)
			w.queues[queueName(usual, kernel.BandFresh)] = nil
			w.idle(s, kernel.BandNearest)
			tick(w)
		}, "RST, SYN, free, open class 1, retired"},
	})
}

func TestRemovedSurrogatesLegsEnd(t *testing.T) {
	w := newWorld(t, usualLegs, config.ReuseAlways)
	w.play([]step{
		{0, tick, "2 SYN, attach 3, 2 open class 1"},
		{0, opened, "2 opened"},
		{time.Second, func(w *world) {
			if err := w.m.Update(nil, 1500); err != nil {
				t.Fatal(err)
			}
			tick(w)
		}, "2 RST, 2 free, 2 retired"},
		{2 * time.Second, tick, ""},
	})
	if len(w.m.pools) != 0 || len(w.m.free) != w.Sessions() {
		t.Errorf("%d pools, %d free splices", len(w.m.pools), len(w.m.free))
	}
}

// TestSurrogateWithoutReadyLegsComesBack: it was down, not removed.
func TestSurrogateWithoutReadyLegsComesBack(t *testing.T) {
	w := newWorld(t, config.Legs{Max: 8, Idle: time.Minute}, config.ReuseAlways)
	w.m.SetUsable(surrogateID, false)
	w.play([]step{
		{0, tick, "attach 3"},
		{2 * renewEvery, tick, ""},
		{4 * renewEvery, func(w *world) { w.m.SetUsable(surrogateID, true) }, ""},
		{4 * renewEvery, request(false), "SYN, open class 1"},
		{4 * renewEvery, opened, "opened"},
		{4 * renewEvery, request(true), ""},
	})
}

// TestLegsOfALateSurrogate: a surrogate that is not up for a while at first has its legs as soon as it is.
func TestLegsOfALateSurrogate(t *testing.T) {
	w := newWorld(t, config.Legs{Min: 2, Max: 8, Idle: time.Minute}, config.ReuseAlways)
	w.m.SetUsable(surrogateID, false)
	w.play([]step{
		{0, tick, "attach 3"},
		{2 * renewEvery, tick, ""},
		{2 * routeEvery, tick, "attach 3"},
		{2 * rareClassLife, func(w *world) {
			w.m.SetUsable(surrogateID, true)
			w.m.Tick()
		}, "2 SYN, attach 3, 2 open class 1"},
	})
}
