package legs

import "time"

// The share of a surrogate's idle timeout after which its legs are renewed, and the shortest plausible timeout.
const (
	idleShare    = 0.8
	shortestIdle = 500 * time.Millisecond
)

const (
	// scoutEvery is the least time from the close of a scout to the next scout.
	scoutEvery = time.Minute
	// learnRequests is how many legs in a row must end after the same number of requests to infer the surrogate's
	// limit. Clients that send Connection: close cause announced ends, too; for a wrong inference nearly all would have
	// to.
	learnRequests = 16
	// liftEvery is how long a learnt request limit holds before it is tested.
	liftEvery = 10 * time.Minute
)

// idleLimit learns a surrogate's idle timeout.
//
// A leg closed by the surrogate lowers it at once. Such a close may mean little: a restarted server closes legs of any
// age, and may have a longer timeout afterwards. So one leg at a time, the scout, is left idle for longer, and the
// limit follows its age as long as it lives. The scout stays in its queue: a client may get it.
type idleLimit struct {
	learnt   time.Duration // 0: none
	scouting bool
	scout    uint32 // splice number, while scouting
	seen     bool   // in this round
	next     time.Time
}

// renewAfter is the idle time after which a leg is renewed, at most bound.
func (l *idleLimit) renewAfter(bound time.Duration) time.Duration {
	if l.learnt == 0 {
		return bound
	}
	return min(l.learnt, bound)
}

// startRound starts a pass over all idle legs. A scout that the last pass did not see is gone.
func (l *idleLimit) startRound() {
	l.scouting = l.scouting && l.seen
	l.seen = false
}

// mayKeepLeg reports whether to keep a leg that has been idle for so long. The limit, which it may raise, is then above
// its age, or the leg is the scout.
func (l *idleLimit) mayKeepLeg(leg uint32, idle, bound time.Duration, now time.Time) bool {
	if idle < l.renewAfter(bound) {
		return true
	}
	if idle >= bound {
		if l.scouting && leg == l.scout {
			*l = idleLimit{} // no timeout found up to the bound
		}
		return false
	}
	if !l.scouting && !now.Before(l.next) {
		l.scouting, l.scout = true, leg
	}
	if !l.scouting || leg != l.scout {
		return false
	}
	l.seen = true
	l.learnt = max(l.learnt, time.Duration(float64(idle)*idleShare))
	return true
}

// noteClose handles a close by the surrogate after so much idle time. It reports whether the limit has shrunk.
func (l *idleLimit) noteClose(idle, bound time.Duration, now time.Time) bool {
	scouted := l.scouting
	l.scouting, l.next = false, now.Add(scoutEvery)
	limit, before := time.Duration(float64(idle)*idleShare), l.renewAfter(bound)
	if scouted && limit > before || idle > shortestIdle && limit < before {
		l.learnt = limit
	}
	return l.renewAfter(bound) < before
}

// requestLimit learns after how many requests a surrogate announces a close. It tests what it has learnt from time to
// time: the limit is lifted until the surrogate closes a leg again.
type requestLimit struct {
	configured, learnt uint32
	candidate          uint32
	seen               int // legs in a row that ended at candidate
	lifted             bool
	doubt              time.Time // when to lift learnt next
}

func (r *requestLimit) inForce() uint32 {
	switch {
	case r.configured != 0:
		return r.configured
	case r.lifted:
		return 0
	}
	return r.learnt
}

// liftDue reports whether the limit has changed with time.
func (r *requestLimit) liftDue(now time.Time) bool {
	if r.configured != 0 || r.learnt == 0 || r.lifted || now.Before(r.doubt) {
		return false
	}
	r.lifted = true
	return true
}

// noteEnd handles the end of a leg after so many requests, announced by the surrogate or not. It reports whether the
// limit has changed.
func (r *requestLimit) noteEnd(requests uint32, announced bool, now time.Time) bool {
	before := r.inForce()
	switch {
	case requests < 2: // without keep-alive there is no limit to learn
	case !announced:
		if requests > r.candidate { // so candidate was no limit
			r.candidate, r.seen = 0, 0
		}
		if r.learnt != 0 && requests > r.learnt+1 {
			r.learnt, r.lifted = 0, false
		}
	case requests == r.learnt+1: // as expected
		r.lifted, r.doubt = false, now.Add(liftEvery)
	case requests != r.candidate:
		r.candidate, r.seen = requests, 1
	default:
		if r.seen++; r.seen >= learnRequests {
			r.learnt, r.lifted, r.doubt = requests-1, false, now.Add(liftEvery)
		}
	}
	return r.inForce() != before
}
