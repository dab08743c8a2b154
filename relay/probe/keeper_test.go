package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"baton/relay/plan"

	"github.com/google/go-cmp/cmp"
)

func target(name string) Target {
	return Target{name, netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(len(name)))}
}

func targets(n int) []Target {
	var out []Target
	for i := range n {
		out = append(out, target(fmt.Sprintf("r%03d", i)))
	}
	return out
}

// network answers measurements after some time, and keeps when they were made.
type network struct {
	rtt func(t Target) (Result, error)

	mu      sync.Mutex
	running map[Target]bool
	most    int
	counts  map[Target][]int
	at      map[Target][]time.Time
}

func newNetwork(rtt func(Target) (Result, error)) *network {
	return &network{rtt: rtt, running: make(map[Target]bool), counts: make(map[Target][]int), at: make(map[Target][]time.Time)}
}

func (n *network) measure(ctx context.Context, t Target, o Options) (Result, error) {
	n.mu.Lock()
	if n.running[t] {
		panic(t.Name + " is measured twice at once")
	}
	n.running[t] = true
	n.most = max(n.most, len(n.running))
	n.counts[t] = append(n.counts[t], o.Count)
	n.at[t] = append(n.at[t], time.Now())
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		delete(n.running, t)
		n.mu.Unlock()
	}()
	select {
	case <-ctx.Done():
		return Result{}, ctx.Err()
	case <-time.After(2 * time.Second):
		return n.rtt(t)
	}
}

// times is how often a target was measured.
func (n *network) times(t Target) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.at[t])
}

func answer(d time.Duration) (Result, error) { return Result{Accepted: 1, Min: d, Median: d}, nil }

func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(func(t Target) (Result, error) { return answer(time.Duration(t.Address.Port()) * time.Millisecond) })
		k, err := newKeeper(KeeperOptions{Targets: targets(40), AtOnce: 4}, n.measure)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		k.Close()
		if n.most != 4 {
			t.Errorf("%d were measured at once, want 4", n.most)
		}
		if len(n.at) != 40 {
			t.Fatalf("%d targets were measured, want 40", len(n.at))
		}
		for target, at := range n.at {
			for i := range at[1:] {
				if d := at[i+1].Sub(at[i]); d < 27*time.Second || d > 60*time.Second { // 40 of 2 s, 4 at once: 20 s at the most in the queue
					t.Errorf("%s was measured again after %s", target.Name, d)
				}
			}
			counts := n.counts[target]
			if counts[0] != 20 || slices.Max(counts[1:]) != 5 || slices.Min(counts[1:]) != 5 {
				t.Errorf("%s was measured by %d SYNs, want 20 and then 5", target.Name, counts)
			}
		}
		m := make(plan.Matrix)
		k.Fill(m, "here")
		if rtt, ok := m.RTT("here", "r017"); !ok || rtt != 4*time.Millisecond || len(m) != 40 {
			t.Errorf("%s, %v in a matrix of %d, want 4 ms of 40", rtt, ok, len(m))
		}
	})
}

func TestUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(func(t Target) (Result, error) { return answer(time.Duration(t.Address.Port())) })
		a, b, c := target("a"), target("b"), target("c")
		k, err := newKeeper(KeeperOptions{Targets: []Target{a, b}}, n.measure)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		time.Sleep(time.Second) // both are under way
		moved := Target{"b", netip.MustParseAddrPort("192.0.2.2:77")}
		if err := k.Update([]Target{moved, c}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		var got []string
		for _, m := range k.Measured() {
			got = append(got, fmt.Sprintf("%s %s %d", m.Name, m.Address, m.RTT))
		}
		if diff := cmp.Diff([]string{"b 192.0.2.2:77 77", "c 192.0.2.1:1 1"}, got); diff != "" {
			t.Errorf("Measured (-want +got):\n%s", diff)
		}
		time.Sleep(5 * time.Minute)
		if n.times(a) != 1 || n.times(b) != 1 || n.times(moved) < 8 || n.times(c) < 8 {
			t.Errorf("measured %d times a, %d b, %d b elsewhere, %d c, want 1, 1, 8 and 8 or more",
				n.times(a), n.times(b), n.times(moved), n.times(c))
		}
		if err := k.Update([]Target{a, a}); err == nil || err.Error() != `keep round-trip times: target "a" appears twice` {
			t.Error(err)
		}
		if err := k.Update([]Target{{Name: "a"}}); err == nil || err.Error() != `keep round-trip times: target "a" has no address and port` {
			t.Error(err)
		}
		if got := len(k.Measured()); got != 2 {
			t.Errorf("%d targets after a refused update, want the 2 of before", got)
		}
		if err := k.Update(nil); err != nil || len(k.Measured()) != 0 {
			t.Errorf("%v, %d targets, want none", err, len(k.Measured()))
		}
	})
}

// TestOutOfReach: one silent measurement may be chance, two are not; what this host cannot do says nothing.
func TestOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan Result, 1)
		fault := errors.New("too many open files")
		n := newNetwork(func(Target) (Result, error) {
			if r := <-answers; r.Why != fault.Error() {
				return r, nil
			}
			return Result{}, fault
		})
		k, err := newKeeper(KeeperOptions{Targets: targets(1)}, n.measure)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		defer close(answers)
		step := func(r Result, want time.Duration) {
			t.Helper()
			answers <- r
			time.Sleep(36 * time.Second)
			synctest.Wait()
			m := k.Measured()[0]
			if m.RTT != want || (m.Err != nil) != (r.Why == fault.Error()) {
				t.Errorf("after %+v: %s, %v, want %s", r, m.RTT, m.Err, want)
			}
		}
		silent := Result{Lost: 5, Why: "no answer"}
		heard := func(d time.Duration) Result { r, _ := answer(d); return r }
		step(silent, 0)
		step(heard(30), 30)
		step(silent, 30)
		step(silent, 0)
		step(heard(50), 30)
		step(Result{Why: fault.Error()}, 30)
		step(heard(40), 40)
		step(heard(40), 40)
	})
}

func TestStale(t *testing.T) {
	h := &history{}
	now := time.Unix(1e9, 0)
	if got := h.rtt(now, time.Minute); got != 0 {
		t.Errorf("%s without a measurement", got)
	}
	r, _ := answer(5)
	h.add(now, r, nil)
	if fresh, old := h.rtt(now.Add(3*time.Minute), time.Minute), h.rtt(now.Add(3*time.Minute+1), time.Minute); fresh != 5 || old != 0 {
		t.Errorf("%d and after three intervals %d, want 5 and 0", fresh, old)
	}
}

// TestSchedule: at random, against what a schedule promises.
func TestSchedule(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		const every = 10 * time.Second
		most := 1 + random.IntN(4)
		s, now := newSchedule(every, most, random.Float64), time.Unix(1e9, 0)
		wanted := make(map[Target]bool)
		running := make(map[Target]bool)
		ended := make(map[Target]time.Time)
		for range 200 {
			now = now.Add(time.Duration(random.IntN(3000)) * time.Millisecond)
			switch random.IntN(6) {
			case 0:
				clear(wanted)
				var list []Target
				for _, t := range targets(8) {
					if random.IntN(3) > 0 {
						list, wanted[t] = append(list, t), true
					}
				}
				s.set(now, list)
				for t := range ended {
					if !wanted[t] {
						delete(ended, t)
					}
				}
			case 1, 2:
				for r := range running {
					if s.done(now, r) != wanted[r] {
						t.Fatalf("%s is of interest: %v", r.Name, !wanted[r])
					}
					delete(running, r)
					if wanted[r] {
						ended[r] = now
					}
					break
				}
			default:
				at, ok := s.wake()
				r, found := s.next(now)
				if found != (ok && !at.After(now)) {
					t.Fatalf("next %v, wake %s, %v", found, at.Sub(now), ok)
				}
				if !found {
					break
				}
				if !wanted[r] || running[r] || len(running) == most || now.Sub(ended[r]) < every*9/10 {
					t.Fatalf("%s: wanted %v, running %v beside %d, ended before %s", r.Name, wanted[r], running[r], len(running), now.Sub(ended[r]))
				}
				running[r] = true
			}
			if len(running) < most {
				for w := range wanted {
					if _, ok := s.wake(); !running[w] && !ok {
						t.Fatal("nothing will be due, though something is wanted")
					}
				}
			}
		}
	}
}

// TestLongestDueFirst: and of several the first name.
func TestLongestDueFirst(t *testing.T) {
	draws := []float64{0.9, 0.1, 0.5}
	s := newSchedule(time.Minute, 3, func() float64 { d := draws[0]; draws = draws[1:]; return d })
	now := time.Unix(1e9, 0)
	s.set(now, []Target{target("c"), target("a"), target("b")})
	order := func(at time.Time) (out string) {
		for t, ok := s.next(at); ok; t, ok = s.next(at) {
			out += t.Name
		}
		return out
	}
	if got := order(now); got != "abc" {
		t.Errorf("at first %s, want abc", got)
	}
	for _, name := range []string{"a", "b", "c"} {
		s.done(now, target(name))
	}
	if got := order(now.Add(2 * time.Minute)); got != "bca" {
		t.Errorf("then %s, want bca", got)
	}
}

// TestClosedMeanwhile: a measurement that Close has ended says nothing.
func TestClosedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(func(Target) (Result, error) { return answer(1) })
		k, err := newKeeper(KeeperOptions{Targets: targets(1)}, n.measure)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		k.Close()
		if m := k.Measured()[0]; m.Err != nil || !m.At.IsZero() || n.times(m.Target) != 1 {
			t.Errorf("%+v, measured %d times, want nothing of the one", m, n.times(m.Target))
		}
	})
}

func TestKeeperOptions(t *testing.T) {
	for _, o := range []KeeperOptions{{Every: -1}, {AtOnce: -1}, {First: -1}, {Count: 1001}, {Targets: []Target{{}}}} {
		if k, err := NewKeeper(o); err == nil {
			k.Close()
			t.Errorf("%+v is taken", o)
		}
	}
}

// TestKeeperOverLoopback: with the network as it is.
func TestKeeperOverLoopback(t *testing.T) {
	descriptors(t)
	address := listen(t, "127.0.0.1:0", func(c net.Conn) { c.Close() })
	k, err := NewKeeper(KeeperOptions{Targets: []Target{{"here", address}}, First: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for deadline := time.Now().Add(10 * time.Second); k.Measured()[0].RTT == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing was measured within 10 s: %+v", k.Measured())
		}
	}
	k.Close()
	k.Close() // is harmless
	if m := k.Measured()[0]; m.Last.Accepted != 1 || m.At.IsZero() || m.Err != nil {
		t.Errorf("%+v, want one accepted", m)
	}
}
