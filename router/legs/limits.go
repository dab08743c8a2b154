package legs

import "time"

// The share of a surrogate's own idle limit after which its legs are renewed, and the least that is believed.
const (
	idleShare    = 0.8
	shortestIdle = 500 * time.Millisecond
)

const (
	// scoutEvery is the least time between a close that a scout has met and the next scout.
	scoutEvery = time.Minute
	// learnRequests is how many legs in a row end after the same number of requests before that counts as the
	// surrogate's limit. Clients that ask for the close of their session make announced ends, too; so many in a row
	// that nearly all of them would have to.
	learnRequests = 16
	// liftEvery is how long a learnt number of requests is held without a doubt.
	liftEvery = 10 * time.Minute
)

// idleLimit learns how long a surrogate keeps idle legs.
//
// A leg that the surrogate closes shortens it at once. Such a close may tell little: a server that is restarted closes legs of
// any age, and may have a longer keep-alive afterwards. So one leg at a time, the scout, is left idle for longer, and the limit
// follows its age for as long as it lives. It lies in its queue like others: a client may take it.
type idleLimit struct {
	learnt   time.Duration // 0: none
	scouting bool
	scout    uint32 // a splice, while scouting
	seen     bool   // in this round
	next     time.Time
}

// limit is the age at which an idle leg is renewed, of at most bound.
func (l *idleLimit) limit(bound time.Duration) time.Duration {
	if l.learnt == 0 {
		return bound
	}
	return min(l.learnt, bound)
}

// round begins a look at all idle legs. A scout that the last one did not meet is gone.
func (l *idleLimit) round() {
	l.scouting = l.scouting && l.seen
	l.seen = false
}

// keep tells whether a leg that has been idle for so long is left so. Limit, which it may raise, is then above its age or
// the leg is the scout.
func (l *idleLimit) keep(leg uint32, idle, bound time.Duration, now time.Time) bool {
	if idle < l.limit(bound) {
		return true
	}
	if idle >= bound {
		if l.scouting && leg == l.scout {
			*l = idleLimit{} // the surrogate bears all that is asked of it
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

// closed tells of a leg that the surrogate closed when it had been idle for so long. It returns whether the limit has shrunk.
func (l *idleLimit) closed(idle, bound time.Duration, now time.Time) bool {
	scouted := l.scouting
	l.scouting, l.next = false, now.Add(scoutEvery)
	limit, before := time.Duration(float64(idle)*idleShare), l.limit(bound)
	if scouted && limit > before || idle > shortestIdle && limit < before {
		l.learnt = limit
	}
	return l.limit(bound) < before
}

// requestLimit learns after how many requests a surrogate announces that it will close. What it has learnt is put in doubt
// now and then: the limit is lifted until a leg meets the surrogate's again.
type requestLimit struct {
	configured, learnt uint32
	candidate          uint32
	seen               int // legs in a row that ended there
	lifted             bool
	doubt              time.Time // when learnt is lifted next
}

func (r *requestLimit) limit() uint32 {
	switch {
	case r.configured != 0:
		return r.configured
	case r.lifted:
		return 0
	}
	return r.learnt
}

// tick returns whether the limit has changed by the passage of time.
func (r *requestLimit) tick(now time.Time) bool {
	if r.configured != 0 || r.learnt == 0 || r.lifted || now.Before(r.doubt) {
		return false
	}
	r.lifted = true
	return true
}

// ended tells of a leg that has ended after so many requests, as its surrogate had announced or otherwise. It returns whether the
// limit has changed.
func (r *requestLimit) ended(requests uint32, announced bool, now time.Time) bool {
	before := r.limit()
	switch {
	case requests < 2: // a surrogate without keep-alive has no limit to stay below
	case !announced:
		if requests > r.candidate { // so that was none
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
	return r.limit() != before
}
