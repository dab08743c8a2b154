package legs

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"baton/datapath"
	kernel "baton/datapath/router"
	"baton/router/config"
)

// record is the calls of Failed, Doubted and Changed, in their order.
type record struct {
	mu   sync.Mutex
	said []string
}

func (r *record) add(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, call)
}

func (r *record) calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.said)
}

// hold makes all calls of the Options' functions wait for release, and records them when they return.
func (w *world) hold() (calls *record, release func()) {
	calls = &record{}
	held := make(chan struct{})
	call := func(name string) {
		<-held
		calls.add(name)
	}
	w.failed = func(_, kind string) { call(kind) }
	w.doubted = func(string) { call("doubt") }
	w.changed = func() { call("change") }
	return calls, sync.OnceFunc(func() { close(held) })
}

// maintain runs the manager, which does the steps instead of events. ended is closed when it has returned.
func (w *world) maintain(ctx context.Context, steps ...func(*world)) (ended <-chan struct{}) {
	done := make(chan struct{})
	next := func(until time.Time) (kernel.Event, error) {
		if len(steps) > 0 {
			step := steps[0]
			steps = steps[1:]
			step(w)
			return kernel.Event{}, os.ErrDeadlineExceeded
		}
		select {
		case <-ctx.Done():
			return kernel.Event{}, datapath.ErrClosed
		case <-time.After(time.Until(until)):
			return kernel.Event{}, os.ErrDeadlineExceeded
		}
	}
	go func() {
		defer close(done)
		w.m.maintain(ctx, next)
	}()
	return done
}

// deliver makes the calls that are due, instead of Run.
func deliver(w *world) {
	for call := w.m.reports.takeNext(); call != nil; call = w.m.reports.takeNext() {
		call()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

var single = config.Legs{Min: 1, Max: 6, Idle: 50 * time.Second}

// refuseOne has the surrogate refuse a leg that is opened for that.
func refuseOne(w *world) {
	w.now = w.now.Add(time.Minute) // after the backoff
	w.m.Tick()
	refused(w)
}

// timeOutOne has the surrogate not answer a leg.
func timeOutOne(w *world) {
	for range 4 {
		w.now = w.now.Add(20 * time.Second)
		w.m.Tick()
	}
}

// loseOne has the surrogate end a session without a response.
func loseOne(w *world) {
	for n, s := range w.splices {
		s.State = kernel.Dead
		w.m.Handle(kernel.Event{End: kernel.Failed, Splice: n, Surrogate: surrogateID, Class: s.Class})
	}
}

func moveAway(w *world) {
	w.route.Local = !w.route.Local
	w.m.RoutesChanged()
	w.m.Tick()
}

func TestFailuresKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, single, config.ReuseAlways)
		var calls record
		slow := time.Second
		w.failed = func(_, kind string) {
			if kind == "refused" {
				time.Sleep(slow) // overtaken by the other, if it can be
			}
			calls.add(kind)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := w.maintain(ctx, refuseOne, timeOutOne)
		time.Sleep(2 * slow)
		if got, want := calls.calls(), []string{"refused", "timeout"}; !slices.Equal(got, want) {
			t.Errorf("reported %q, want %q", got, want)
		}
		cancel()
		<-ended
	})
}

func TestRunWaitsForTheReportUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, single, config.ReuseAlways)
		calls, release := w.hold()
		defer release()
		ctx, cancel := context.WithCancel(t.Context())
		ended := w.maintain(ctx, refuseOne, refuseOne)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if isClosed(ended) {
			t.Error("Run has returned before Failed")
		}
		release()
		<-ended
		synctest.Wait()
		if got, want := calls.calls(), []string{"refused"}; !slices.Equal(got, want) {
			t.Errorf("reported %q, want %q: the second failure is not reported while closing", got, want)
		}
	})
}

func TestNothingIsReportedAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, single, config.ReuseAlways)
		ctx, cancel := context.WithCancel(t.Context())
		ended := w.maintain(ctx, tick)
		cancel()
		<-ended
		calls, release := w.hold()
		release()
		for _, step := range []func(*world){loseOne, refuseOne, timeOutOne, moveAway} {
			step(w)
		}
		synctest.Wait()
		if got := calls.calls(); len(got) > 0 {
			t.Errorf("reported %q", got)
		}
	})
}

func TestFloodOfReportsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, single, config.ReuseAlways)
		calls, release := w.hold()
		defer release()
		const flood = 1000
		ctx, cancel := context.WithCancel(t.Context())
		steps := slices.Repeat([]func(*world){refuseOne, tick, loseOne, moveAway, moveAway}, flood)
		ended := w.maintain(ctx, append(steps, timeOutOne)...)
		synctest.Wait()
		release()
		synctest.Wait()
		got := calls.calls()
		if len(got) < 3 || len(got) > maxReports+2 { // one was under way, and a change
			t.Errorf("%d calls after %d failures", len(got), flood)
		}
		if last := got[len(got)-1]; last != "timeout" {
			t.Errorf("the last call is of %q, want that of the last failure", last)
		}
		cancel()
		<-ended
	})
}

// TestReportsOfOneSurrogateDoNotDelayAnother: surrogates take turns.
func TestReportsOfOneSurrogateDoNotDelayAnother(t *testing.T) {
	var calls record
	r := newReports(&Options{
		Failed:  func(surrogate, kind string) { calls.add(surrogate + " " + kind) },
		Doubted: func(surrogate string) { calls.add(surrogate + " doubt") },
		Changed: func() { calls.add("change") },
	})
	r.addFailure("a", "refused")
	r.addDoubt("a")
	r.addFailure("a", "timeout")
	r.addDoubt("a") // one waits
	r.addFailure("b", "timeout")
	r.addChange()
	r.addChange()
	for call := r.takeNext(); call != nil; call = r.takeNext() {
		call()
	}
	want := []string{"change", "a refused", "b timeout", "a doubt", "a timeout"}
	if got := calls.calls(); !slices.Equal(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
}
