package store

import "time"

// Timing are the times of an election. A master stops by itself before another may take over: Stop < Takeover, both by the clock of
// the one who waits, counted from an event that is at least as early for the master. Clocks need not agree, only run at about the same
// rate; what a paused process does meanwhile is fenced by the generation.
type Timing struct {
	Renew    time.Duration // a master renews as often
	Stop     time.Duration // after the beginning of its last successful renewal a master is none any more
	Takeover time.Duration // a candidate waits as long after the last change that it has seen
}

// DefaultTiming replaces a killed master within 1.5 s.
var DefaultTiming = Timing{Renew: 250 * time.Millisecond, Stop: 1100 * time.Millisecond, Takeover: 1400 * time.Millisecond}

// claim is who is the master, as it is in the store.
type claim struct {
	Holder     string `json:"holder"` // "": nobody, the last one has resigned
	Generation uint64 `json:"generation"`
}

// observation is the election's state in the store.
type observation struct {
	claim
	revision int64 // of the claim
	beat     int64 // revision of the master's last renewal
}

func (o observation) newer(than observation) bool {
	return o.revision > than.revision || o.beat > than.beat
}

// action is what an election has its owner do.
type action struct {
	kind       actionKind
	seen       observation // the state that must still be in the store
	generation uint64      // to claim
	began      time.Time
}

type actionKind uint8

const (
	doNothing actionKind = iota
	doClaim              // write the claim and a first renewal, if nothing has changed since seen
	doRenew              // write a renewal, if the claim is still that of seen
)

// mostFlying is how many actions may be without an answer: the next attempt may reach a member of the store that is well.
const mostFlying = 4

// election decides when to claim, to renew and to stop. It is pure: its owner gives it the time and what has happened, and carries out
// actions, several at a time.
type election struct {
	me     string
	timing Timing

	known  bool // the store has been seen
	seen   observation
	seenAt time.Time // of the last change

	flying    int // actions without an answer
	master    bool
	term      uint64    // the generation of its claim
	renewedAt time.Time // the beginning of the last claim or renewal that has succeeded
	triedAt   time.Time
	why       string // the reason why it is no master
	floor     uint64 // the next claim's generation is greater
}

func newElection(me string, t Timing) *election {
	return &election{me: me, timing: t, why: "the store has not been read"}
}

// observe takes what is in the store.
func (e *election) observe(now time.Time, o observation) {
	if e.known && !o.newer(e.seen) {
		return
	}
	first := !e.known
	e.known, e.seen, e.seenAt = true, o, now
	switch {
	case e.master && o.Holder != e.me:
		e.lose("another controller has taken over: " + o.Holder)
	case e.master:
		e.term = o.Generation // a claim of its own, to raise the generation, is seen before its answer
	}
	if !e.master && first {
		e.why = "waiting for the master to end: " + o.Holder
	}
}

// tick returns what to do, and when to ask again at the latest.
func (e *election) tick(now time.Time) (action, time.Time) {
	if e.master && !now.Before(e.until()) {
		e.lose("the store did not answer in time")
	}
	tried := now.Sub(e.triedAt)
	claims := e.master && e.floor >= e.term || !e.master && e.free(now)
	switch {
	case !e.known || e.flying >= mostFlying:
	case claims && (tried >= e.timing.Renew || e.flying == 0 && tried >= e.timing.Renew/2):
		return e.start(now, action{kind: doClaim, seen: e.seen, generation: max(e.seen.Generation, e.floor) + 1}), e.next(now)
	case e.master && tried >= e.timing.Renew:
		return e.start(now, action{kind: doRenew, seen: e.seen}), e.next(now)
	}
	return action{}, e.next(now)
}

func (e *election) start(now time.Time, a action) action {
	e.flying++
	e.triedAt, a.began = now, now
	return a
}

// free reports whether there is no other master who may be alive. A claim of its own that has run out is nobody's.
func (e *election) free(now time.Time) bool {
	return e.seen.Holder == "" || e.seen.Holder == e.me || now.Sub(e.seenAt) >= e.timing.Takeover
}

// next is when something may have to be done although nothing happens.
func (e *election) next(now time.Time) time.Time {
	next := now.Add(e.timing.Takeover)
	earlier := func(t time.Time) {
		if t.After(now) && t.Before(next) {
			next = t
		}
	}
	if e.master {
		earlier(e.until())
		earlier(e.triedAt.Add(e.timing.Renew))
	} else {
		earlier(e.triedAt.Add(e.timing.Renew / 2))
		earlier(e.triedAt.Add(e.timing.Renew))
		earlier(e.seenAt.Add(e.timing.Takeover))
	}
	return next
}

// done takes the result of an action: whether it was written, and what was in the store then. After an error the store is as it was or
// as it was to be: nobody knows, and observations will tell.
func (e *election) done(now time.Time, a action, written bool, o observation, err error) {
	e.flying--
	switch {
	case err != nil:
		return
	case !written:
		if a.kind == doRenew && e.master && o.Holder != e.me {
			e.lose("another controller has taken over: " + o.Holder)
		}
		e.observe(now, o)
		return
	}
	e.known = true
	if o.newer(e.seen) {
		e.seen, e.seenAt = o, now
	}
	if e.seen.revision != o.revision || now.Sub(a.began) >= e.timing.Stop {
		return // it has been overtaken while the answer was on its way
	}
	if a.kind == doClaim {
		e.master, e.term = true, a.generation
	}
	if e.master && a.began.After(e.renewedAt) {
		e.renewedAt, e.why = a.began, ""
	}
}

// until is when a master is none any more.
func (e *election) until() time.Time { return e.renewedAt.Add(e.timing.Stop) }

// is reports whether this is the master at a time.
func (e *election) is(now time.Time) bool { return e.master && now.Before(e.until()) }

func (e *election) lose(why string) { e.master, e.why = false, why }

// raise makes the next generation greater than one that a switch has seen, and has the master claim again.
func (e *election) raise(above uint64) { e.floor = max(e.floor, above) }
