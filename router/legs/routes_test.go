package legs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"baton/router/config"
)

// TestLookupsDoNotHoldTheLock: a lookup takes as long as the kernel likes, and requests need the lock.
func TestLookupsDoNotHoldTheLock(t *testing.T) {
	w := newWorld(t, single, config.ReuseAlways)
	lookups := 0
	w.lookedUp = func() {
		lookups++
		if !w.m.mu.TryLock() {
			t.Fatal("a route is looked up with the lock held")
		}
		w.m.mu.Unlock()
	}
	w.update(single, config.ReuseAlways)
	w.m.Tick()
	w.unrouted = errors.New("no route to host")
	w.restart()
	w.adopt()
	w.update(single, config.ReuseAlways)
	w.m.SetUsable(surrogateID, true)
	request(false)(w)
	keeps(caller, vip, "no route to host")(w)
	if lookups != 5 {
		t.Errorf("%d lookups, want one each: two updates, a tick, two requests", lookups)
	}
}

// TestRoutesThatChangeDuringALookup are looked up again.
func TestRoutesThatChangeDuringALookup(t *testing.T) {
	w := newWorld(t, single, config.ReuseAlways)
	w.play([]step{
		{0, tick, "SYN, attach 3, open class 1"},
		{0, opened, "opened"},
		{10 * time.Millisecond, func(w *world) {
			w.lookedUp = func() {
				w.lookedUp = func() {}
				w.m.RoutesChanged()
			}
			w.m.RoutesChanged()
			tick(w)
		}, "attach 3"},
		{20 * time.Millisecond, func(w *world) {
			w.route.Paths = []int{3, 4}
			tick(w)
		}, "attach 3, attach 4, paths [3 4]"},
		{30 * time.Millisecond, tick, ""},
	})
}

// TestSurrogateGetsARouteLate: its legs are opened as soon as there is one.
func TestSurrogateGetsARouteLate(t *testing.T) {
	w := newWorld(t, single, config.ReuseAlways)
	w.unrouted = errors.New("no route to host")
	w.restart()
	w.adopt()
	w.update(single, config.ReuseAlways)
	w.m.SetUsable(surrogateID, true)
	w.play([]step{
		{0, tick, ""},
		{restEvery, tick, ""},
		{restEvery, request(false), ""},
		{restEvery, func(w *world) { w.unrouted = nil }, ""},
		{2 * restEvery, tick, "attach 3, paths [3]"},
		{3 * restEvery, tick, "SYN, open class 1"},
		{3 * restEvery, opened, "opened"},
	})
	if !strings.Contains(w.logged.String(), "surrogate is unreachable") {
		t.Errorf("not logged:\n%s", w.logged.String())
	}
}

// TestRequestFindsARoute: a request does not wait for the next tick.
func TestRequestFindsARoute(t *testing.T) {
	w := newWorld(t, onDemand, config.ReuseNever)
	w.unrouted = errors.New("no route to host")
	w.restart()
	w.adopt()
	w.update(onDemand, config.ReuseNever)
	w.m.SetUsable(surrogateID, true)
	w.unrouted = nil
	w.play([]step{
		{0, request(false), "SYN, attach 3, open class 1, paths [3]"},
		{0, opened, "opened"},
		{0, request(true), ""},
	})
}
