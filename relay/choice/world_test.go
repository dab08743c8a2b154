package choice

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"baton/relay/plan"
)

var start = time.Unix(1e9, 0)

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// world answers what a Chooser has measured, in a time of its own.
type world struct {
	t      *testing.T
	c      *Chooser
	o      Options
	now    time.Time
	rtts   map[plan.Pair]time.Duration // between relays, and from relays to servers by their address; none: no answer
	never  map[plan.Pair]bool          // the relay may not connect there
	noise  func() float64              // what a measurement is multiplied by; nil: 1
	tasks  []running
	probes map[*node][]time.Time // when a relay's measurements began
	log    []Change
}

type running struct {
	Task
	ends time.Time
}

func address(name string) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, name[0]}), 7000)
}

func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	w := &world{
		t: t, c: New(func() float64 { return 0.5 }), now: start, rtts: make(map[plan.Pair]time.Duration), never: make(map[plan.Pair]bool),
		probes: make(map[*node][]time.Time),
		o: Options{
			Self: "self", Learn: true, Allowed: func(netip.AddrPort) bool { return true }, Clouds: plan.PreferOne, Most: 3, Margin: 0.1,
			Dwell: 30 * time.Second, Refresh: 5 * time.Minute,
		},
	}
	for _, n := range names {
		w.o.Peers = append(w.o.Peers, Peer{Name: n, Address: address(n)})
	}
	return w
}

func (w *world) set(a, b string, ms float64) {
	d := time.Duration(ms * 1e6)
	w.rtts[plan.Pair{From: a, To: b}], w.rtts[plan.Pair{From: b, To: a}] = d, d
}

func (w *world) configure() { w.c.Configure(w.now, w.o) }

// run lets time pass, in steps of a probe's pace.
func (w *world) run(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(Pace) {
		w.step()
	}
}

func (w *world) step() {
	w.t.Helper()
	left := w.tasks[:0]
	for _, r := range w.tasks {
		if w.now.Before(r.ends) {
			left = append(left, r)
			continue
		}
		w.c.Done(w.now, r.Task, w.outcome(r.Task))
	}
	w.tasks = left
	for {
		task, ok := w.c.Next(w.now)
		if !ok {
			break
		}
		for _, r := range w.tasks {
			if r.node == task.node {
				w.t.Fatalf("%s measures %v and %v at once", task.By, r.Task, task)
			}
		}
		if k := len(w.probes[task.node]); k > 0 && w.now.Sub(w.probes[task.node][k-1]) < Samples*Pace {
			w.t.Fatalf("%s was asked again after %v", task.By, w.now.Sub(w.probes[task.node][k-1]))
		}
		w.probes[task.node] = append(w.probes[task.node], w.now)
		w.tasks = append(w.tasks, running{task, w.now.Add(Samples * Pace)})
	}
	w.c.Decide(w.now, 1<<20)
	w.log = append(w.log, w.c.Changes()...)
}

func (w *world) outcome(t Task) Outcome {
	to := t.To
	if to == "" {
		to = t.Target.Addr().String()
	}
	pair := plan.Pair{From: t.By, To: to}
	if w.never[pair] {
		return Outcome{Never: true, Why: "not_allowed"}
	}
	rtt := w.rtts[pair]
	if rtt == 0 {
		return Outcome{Why: "no answer"}
	}
	if w.noise != nil {
		rtt = time.Duration(float64(rtt) * w.noise())
	}
	return Outcome{RTT: rtt}
}

// route is what flows to a server are sent by.
func (w *world) route(server netip.AddrPort) (Route, bool) {
	for _, d := range []Destination{Exactly(server), Of(server)} {
		if p := w.c.all[d]; p != nil {
			return p.used, p.known
		}
	}
	return Direct, false
}

func (w *world) want(server netip.AddrPort, want Route) {
	w.t.Helper()
	if got, known := w.route(server); !known || got != want {
		w.t.Errorf("at %v: %v, known %v; want %v", w.now.Sub(start), got, known, want)
	}
}

func serverAt(i int) netip.AddrPort {
	return netip.MustParseAddrPort(fmt.Sprintf("198.51.%d.5:443", i))
}
