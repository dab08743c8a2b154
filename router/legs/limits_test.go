package legs

import (
	"testing"
	"time"
)

// keeper is a surrogate with an idle timeout, and a pool of unused legs.
type keeper struct {
	keepAlive time.Duration
	now       time.Time
	since     []time.Time // when each leg became idle
	closed    int         // by the surrogate
	renewed   int
}

func newKeeper(keepAlive time.Duration, legs int) *keeper {
	k := &keeper{keepAlive: keepAlive, now: time.Unix(1, 0), since: make([]time.Time, legs)}
	for i := range k.since {
		k.since[i] = k.now
	}
	return k
}

// run advances the time in the manager's steps.
func (k *keeper) run(l *idleLimit, bound, length time.Duration) {
	for end := k.now.Add(length); k.now.Before(end); {
		k.now = k.now.Add(renewEvery)
		for i, since := range k.since {
			if k.now.Sub(since) >= k.keepAlive {
				l.noteClose(k.keepAlive, bound, k.now)
				k.closed++
				k.since[i] = k.now
			}
		}
		l.startRound()
		for i, since := range k.since {
			if !l.mayKeepLeg(uint32(i), k.now.Sub(since), bound, k.now) {
				k.renewed++
				k.since[i] = k.now
			}
		}
	}
}

func TestIdleLimitFollowsTheSurrogate(t *testing.T) {
	const bound = 45 * time.Second
	l, k := &idleLimit{}, newKeeper(5*time.Second, 16)
	k.run(l, bound, time.Minute)
	if got := l.renewAfter(bound); got != 4*time.Second {
		t.Fatalf("limit is %v at a surrogate that closes after 5s, want 4s", got)
	}
	// Now only scouts are closed, and not often.
	k.closed = 0
	k.run(l, bound, 10*time.Minute)
	if got := l.renewAfter(bound); got != 4*time.Second || k.closed < 5 || k.closed > 10 {
		t.Errorf("limit is %v with %d closes in 10 min, want 4s with one for each minute at most", got, k.closed)
	}
	k.keepAlive = 20 * time.Second
	k.run(l, bound, 3*time.Minute)
	if got := l.renewAfter(bound); got != 16*time.Second {
		t.Errorf("limit is %v when the surrogate closes after 20s, want 16s", got)
	}
	k.keepAlive = 75 * time.Second
	k.run(l, bound, 3*time.Minute)
	if got := l.renewAfter(bound); got != bound {
		t.Errorf("limit is %v when the surrogate closes after 75s, want the bound %v", got, bound)
	}
	k.closed, k.renewed = 0, 0
	k.run(l, bound, 10*time.Minute)
	if k.closed != 0 || k.renewed < 16*12 {
		t.Errorf("%d legs closed, %d renewed, want none and all 16 each 45s", k.closed, k.renewed)
	}
	k.keepAlive = 5 * time.Second
	k.run(l, bound, time.Minute)
	if got := l.renewAfter(bound); got != 4*time.Second {
		t.Errorf("limit is %v when the surrogate closes after 5s again, want 4s", got)
	}
}

// A restarted server closes legs of any age.
func TestIdleLimitOutlivesARestart(t *testing.T) {
	const bound = 45 * time.Second
	l, k := &idleLimit{}, newKeeper(time.Hour, 16)
	k.run(l, bound, 10*time.Second)
	for i := range k.since {
		l.noteClose(time.Duration(i)*time.Second, bound, k.now)
		k.since[i] = k.now
	}
	if got := l.renewAfter(bound); got != 800*time.Millisecond {
		t.Fatalf("limit is %v after a close at 1s, want 800ms", got)
	}
	k.run(l, bound, 2*time.Minute)
	if got := l.renewAfter(bound); got != bound {
		t.Errorf("limit is %v two minutes after the restart, want %v", got, bound)
	}
}

// A client may get the scout, and its splice number may be reused by a younger leg.
func TestScoutIsReplaced(t *testing.T) {
	const bound = 45 * time.Second
	now := time.Unix(1, 0)
	l := &idleLimit{learnt: 4 * time.Second}
	l.startRound()
	if !l.mayKeepLeg(1, 5*time.Second, bound, now) || l.mayKeepLeg(2, 6*time.Second, bound, now) {
		t.Fatal("two legs past the limit: want the first kept, the other not")
	}
	l.startRound()
	l.mayKeepLeg(1, 0, bound, now)
	if l.mayKeepLeg(3, 7*time.Second, bound, now) {
		t.Error("a second scout in the round in which the first is missed")
	}
	l.startRound()
	if !l.mayKeepLeg(3, 7*time.Second, bound, now) {
		t.Error("no scout follows one that was taken")
	}
	if got, want := l.renewAfter(bound), 5600*time.Millisecond; got != want {
		t.Errorf("limit is %v with a scout of 7s, want %v", got, want)
	}
}

func TestIdleLimitStaysBelowItsBound(t *testing.T) {
	l := &idleLimit{learnt: 30 * time.Second}
	if got := l.renewAfter(10 * time.Second); got != 10*time.Second {
		t.Errorf("limit is %v, want legs.idle of 10s", got)
	}
	if got := l.renewAfter(time.Minute); got != 30*time.Second {
		t.Errorf("limit is %v after legs.idle was raised, want the learnt 30s", got)
	}
}

// legsEnd reports so many legs that end after so many requests.
func (r *requestLimit) legsEnd(count int, requests uint32, announced bool, now time.Time) {
	for range count {
		r.noteEnd(requests, announced, now)
	}
}

func TestRequestLimitFollowsTheSurrogate(t *testing.T) {
	now := time.Unix(1, 0)
	r := &requestLimit{}
	r.legsEnd(learnRequests-1, 100, true, now)
	if r.inForce() != 0 {
		t.Fatalf("limit is %d after %d legs, want none yet", r.inForce(), learnRequests-1)
	}
	if !r.noteEnd(100, true, now) || r.inForce() != 99 {
		t.Fatalf("limit is %d after %d legs of 100 requests, want 99", r.inForce(), learnRequests)
	}
	r.legsEnd(1000, 99, false, now) // at the limit
	if r.liftDue(now.Add(liftEvery-1)) || r.inForce() != 99 {
		t.Errorf("limit is %d before its time, want 99", r.inForce())
	}
	now = now.Add(liftEvery)
	if !r.liftDue(now) || r.inForce() != 0 {
		t.Fatalf("limit is %d after %v, want none", r.inForce(), liftEvery)
	}
	if !r.noteEnd(100, true, now) || r.inForce() != 99 {
		t.Fatalf("limit is %d after a leg of 100 requests, want 99 again", r.inForce())
	}
	now = now.Add(liftEvery)
	r.liftDue(now)
	r.legsEnd(learnRequests, 1000, true, now)
	if r.inForce() != 999 {
		t.Errorf("limit is %d after legs of 1000 requests, want 999", r.inForce())
	}
	r.legsEnd(learnRequests, 10, true, now)
	if r.inForce() != 9 {
		t.Errorf("limit is %d after legs of 10 requests, want 9", r.inForce())
	}
	if !r.noteEnd(11, false, now) || r.inForce() != 0 {
		t.Errorf("limit is %d after a leg that served more, want none", r.inForce())
	}
}

// Clients that send Connection: close look like a surrogate that announces its close, but not after the same number of
// requests.
func TestClientsThatCloseTeachNoLimit(t *testing.T) {
	now := time.Unix(1, 0)
	r := &requestLimit{}
	r.legsEnd(100, 1, true, now)
	for range 100 {
		r.legsEnd(learnRequests-1, 2, true, now)
		r.noteEnd(3, true, now)
		r.legsEnd(learnRequests-1, 2, true, now)
		r.noteEnd(7, false, now)
	}
	if r.inForce() != 0 {
		t.Errorf("limit is %d, want none", r.inForce())
	}
}

func TestConfiguredRequestLimitHolds(t *testing.T) {
	now := time.Unix(1, 0)
	r := &requestLimit{configured: 990}
	r.legsEnd(2*learnRequests, 100, true, now)
	if r.liftDue(now.Add(2*liftEvery)) || r.inForce() != 990 {
		t.Errorf("limit is %d, want the configured 990", r.inForce())
	}
}
