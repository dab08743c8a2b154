package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	zero   = time.Unix(1000, 0)
	timing = Timing{Renew: 250 * time.Millisecond, Stop: 1100 * time.Millisecond, Takeover: 1400 * time.Millisecond}
)

func at(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }

// script is an election that is told what happens, by the millisecond.
type script struct {
	t *testing.T
	*election
}

func (s script) expect(ms int, kind actionKind, master bool) action {
	s.t.Helper()
	a, next := s.tick(at(ms))
	if a.kind != kind || s.is(at(ms)) != master {
		s.t.Fatalf("at %d: action %d, master %v (%s); want %d, %v", ms, a.kind, s.is(at(ms)), s.why, kind, master)
	}
	if !next.After(at(ms)) {
		s.t.Fatalf("at %d: the next time is %v", ms, next.Sub(zero))
	}
	return a
}

func seen(holder string, generation uint64, revision, beat int64) observation {
	return observation{claim{holder, generation}, revision, beat}
}

// won is an election that has claimed at 0, with the answer after 10 ms.
func won(t *testing.T) script {
	t.Helper()
	s := script{t, newElection("a", timing)}
	s.expect(0, doNothing, false)
	s.observe(at(0), seen("", 6, 3, 3))
	a := s.expect(0, doClaim, false)
	if a.generation != 7 {
		t.Fatalf("the generation is %d, want 7", a.generation)
	}
	s.expect(5, doNothing, false)
	s.done(at(10), a, true, seen("a", 7, 4, 4), nil)
	return s
}

func TestMasterRenews(t *testing.T) {
	s := won(t)
	s.expect(10, doNothing, true)
	a := s.expect(250, doRenew, true)
	s.done(at(260), a, true, seen("a", 7, 4, 5), nil)
	s.expect(499, doNothing, true)
	s.expect(500, doRenew, true)
	if got := s.until(); got != at(250+1100) {
		t.Errorf("it is the master until %v: counted from the beginning of the renewal", got.Sub(zero))
	}
}

// TestMasterStops: without an answer a master stops, and claims again when there is one: nobody else has.
func TestMasterStops(t *testing.T) {
	s := won(t)
	a := s.expect(250, doRenew, true)
	s.done(at(600), a, false, observation{}, errors.New("no quorum"))
	a = s.expect(600, doRenew, true)
	late := s.expect(850, doRenew, true) // the next attempt does not wait for the answer
	if !s.is(at(1099)) || s.is(at(1100)) {
		t.Error("it is the master for another time than Stop")
	}
	again := s.expect(1100, doClaim, false)
	if again.generation != 8 {
		t.Errorf("it claims generation %d", again.generation)
	}
	s.done(at(1150), a, true, seen("a", 7, 4, 5), nil) // too late to be the master by it
	if s.is(at(1150)) {
		t.Error("a late answer makes a master")
	}
	s.done(at(1160), again, true, seen("a", 8, 6, 6), nil)
	s.expect(1160, doNothing, true)
	s.done(at(1170), late, false, seen("a", 8, 6, 6), nil) // of the earlier claim
	s.expect(1170, doNothing, true)
}

// TestAttemptsAreBounded: a store that does not answer is not flooded.
func TestAttemptsAreBounded(t *testing.T) {
	s := won(t)
	n := 0
	for ms := 250; ms < 10_000; ms += 10 {
		if a, _ := s.tick(at(ms)); a.kind != doNothing {
			n++
		}
	}
	if n != mostFlying {
		t.Errorf("%d attempts without an answer", n)
	}
}

// TestPausedProcess: after a pause it is no master, before anything else has run.
func TestPausedProcess(t *testing.T) {
	s := won(t)
	if s.is(at(60_000)) {
		t.Error("it is the master after a minute of sleep")
	}
	s.expect(60_000, doClaim, false)
}

// TestCandidateWaits: a change begins the time anew, and its own claim that lost is no claim.
func TestCandidateWaits(t *testing.T) {
	s := script{t, newElection("b", timing)}
	s.observe(at(0), seen("a", 7, 4, 4))
	s.expect(1000, doNothing, false)
	s.observe(at(1000), seen("a", 7, 4, 5))
	s.observe(at(1300), seen("a", 7, 4, 5)) // the same once more
	s.observe(at(1300), seen("x", 6, 3, 4)) // older
	s.expect(2399, doNothing, false)
	a := s.expect(2400, doClaim, false)
	s.done(at(2410), a, false, seen("c", 8, 9, 9), nil)
	s.expect(2410, doNothing, false)
	s.expect(3809, doNothing, false)
	if a = s.expect(3810, doClaim, false); a.generation != 9 {
		t.Errorf("generation %d", a.generation)
	}
}

// TestOvertaken: a master that sees another one is none, whatever tells it.
func TestOvertaken(t *testing.T) {
	s := won(t)
	s.observe(at(100), seen("b", 8, 9, 9))
	s.expect(100, doNothing, false)
	s = won(t)
	a := s.expect(250, doRenew, true)
	s.done(at(260), a, false, seen("b", 8, 9, 9), nil)
	s.expect(260, doNothing, false)
	s = won(t) // seen while the claim's answer was on its way
	a = s.expect(250, doRenew, true)
	s.observe(at(255), seen("b", 8, 9, 9))
	s.done(at(260), a, true, seen("a", 7, 4, 5), nil)
	s.expect(260, doNothing, false)
}

// TestSlowClaim: an answer that took longer than a master's time makes none.
func TestSlowClaim(t *testing.T) {
	s := script{t, newElection("a", timing)}
	s.observe(at(0), observation{})
	a := s.expect(0, doClaim, false)
	if a.generation != 1 {
		t.Errorf("the first generation is %d", a.generation)
	}
	s.done(at(1100), a, true, seen("a", 1, 1, 1), nil)
	s.expect(1100, doClaim, false)
}

// TestRaise: a master whose generation a switch refuses claims a greater one, and stays the master.
func TestRaise(t *testing.T) {
	s := won(t)
	s.raise(3)
	s.expect(200, doNothing, true)
	s.raise(100)
	a := s.expect(210, doClaim, true)
	if a.generation != 101 {
		t.Errorf("generation %d", a.generation)
	}
	s.observe(at(215), seen("a", 101, 8, 8)) // before the answer
	s.expect(216, doNothing, true)
	s.done(at(220), a, true, seen("a", 101, 8, 8), nil)
	s.expect(220, doNothing, true)
	if s.term != 101 {
		t.Errorf("the term is %d", s.term)
	}
}

func TestResigned(t *testing.T) {
	s := script{t, newElection("b", timing)}
	s.observe(at(0), seen("a", 7, 4, 4))
	s.expect(10, doNothing, false)
	s.observe(at(20), seen("", 7, 5, 4))
	s.expect(20, doClaim, false)
}

// world is a store and its clients in simulated time: messages are late or lost, clients are cut off for a while.
type world struct {
	r       *rand.Rand
	state   observation
	now     time.Time
	clients []*simulated
	// terms are the generations that were ever masters.
	terms map[uint64]string
}

type simulated struct {
	*election
	cut    time.Time // until then nothing passes
	events []event   // on their way, in any order
}

type event struct {
	at time.Time
	do func()
}

func (w *world) late() time.Time { return w.now.Add(time.Duration(w.r.IntN(80)) * time.Millisecond) }

// send has the store carry out an action, late, and answers, late; or one of the two is lost.
func (w *world) send(c *simulated, a action) {
	lost := func() bool { return w.now.Before(c.cut) || w.r.IntN(40) == 0 }
	giveUp := event{w.now.Add(timing.Stop), func() { c.done(w.now, a, false, observation{}, errors.New("no answer")) }}
	if lost() {
		c.events = append(c.events, giveUp)
		return
	}
	c.events = append(c.events, event{w.late(), func() {
		written := a.seen.revision == w.state.revision && (a.kind == doRenew || a.seen.beat == w.state.beat)
		if written {
			w.state.beat = max(w.state.beat, w.state.revision) + 1
			if a.kind == doClaim {
				w.state.claim, w.state.revision = claim{c.me, a.generation}, w.state.beat
			}
			for _, other := range w.clients { // watches
				o := w.state
				if !w.now.Before(other.cut) {
					other.events = append(other.events, event{w.late(), func() { other.observe(w.now, o) }})
				}
			}
		}
		o := w.state
		if lost() {
			c.events = append(c.events, giveUp)
			return
		}
		c.events = append(c.events, event{w.late(), func() { c.done(w.now, a, written, o, nil) }})
	}})
}

func (w *world) step(t *testing.T) {
	w.now = w.now.Add(5 * time.Millisecond)
	masters := ""
	for _, c := range w.clients {
		due := c.events
		c.events = nil
		for _, e := range due {
			if e.at.After(w.now) {
				c.events = append(c.events, e)
			} else {
				e.do()
			}
		}
		if a, _ := c.tick(w.now); a.kind != doNothing {
			w.send(c, a)
		}
		if !c.is(w.now) {
			continue
		}
		if masters != "" {
			t.Fatalf("%v: %s and %s are masters", w.now.Sub(zero), masters, c.me)
		}
		masters = c.me
		if owner, had := w.terms[c.term]; had && owner != c.me {
			t.Fatalf("%s and %s have generation %d", owner, c.me, c.term)
		} else if !had {
			for g := range w.terms {
				if g > c.term {
					t.Fatalf("%s has generation %d after %d", c.me, c.term, g)
				}
			}
			w.terms[c.term] = c.me
		}
	}
}

// TestNeverTwoMasters simulates an hour of three controllers whose messages are late and lost and who are cut off again and again.
func TestNeverTwoMasters(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &world{r: rand.New(rand.NewPCG(seed, 1)), now: zero, terms: map[uint64]string{}}
			for i := range 3 {
				c := &simulated{election: newElection(string(rune('a'+i)), timing)}
				c.observe(zero, observation{})
				w.clients = append(w.clients, c)
			}
			for w.now.Before(zero.Add(10 * time.Minute)) {
				if w.r.IntN(400) == 0 {
					w.clients[w.r.IntN(3)].cut = w.now.Add(time.Duration(w.r.IntN(4000)) * time.Millisecond)
				}
				w.step(t)
			}
			if len(w.terms) < 20 {
				t.Errorf("only %d masters: nothing was tried", len(w.terms))
			}
			for _, c := range w.clients { // all is well again
				c.cut = time.Time{}
			}
			for end := w.now.Add(5 * time.Second); w.now.Before(end); {
				w.step(t)
			}
			n := 0
			for _, c := range w.clients {
				if c.is(w.now) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d masters afterwards", n)
			}
		})
	}
}

// TestReplacedInTime: the master ends at any moment, and another is the master within two seconds.
func TestReplacedInTime(t *testing.T) {
	for seed := range uint64(50) {
		w := &world{r: rand.New(rand.NewPCG(seed, 2)), now: zero, terms: map[uint64]string{}}
		for i := range 3 {
			c := &simulated{election: newElection(string(rune('a'+i)), timing)}
			c.observe(zero, observation{})
			w.clients = append(w.clients, c)
		}
		master := func() int {
			for i, c := range w.clients {
				if c.is(w.now) {
					return i
				}
			}
			return -1
		}
		for end := w.now.Add(3*time.Second + time.Duration(seed)*7*time.Millisecond); w.now.Before(end) || master() < 0; {
			w.step(t)
		}
		i := master()
		w.clients = append(w.clients[:i], w.clients[i+1:]...)
		began := w.now
		for master() < 0 {
			w.step(t)
		}
		if took := w.now.Sub(began); took > 2*time.Second {
			t.Errorf("seed %d: it took %v", seed, took)
		}
	}
}
