package legs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"baton/router/config"
)

// TestFullTable: a table of sessions that is full is logged once, as is its end, however often legs lack a place.
func TestFullTable(t *testing.T) {
	w := newWorld(t, config.Legs{Min: 10, Max: 20, Idle: time.Hour}, config.ReuseAlways) // the kernel has 8
	lines := func() string {
		t.Helper()
		said := w.logged.String()
		w.logged.Reset()
		return said
	}
	w.play([]step{{0, tick, "8 SYN, attach 3, 8 open class 1"}})
	if got := lines(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "limits.sessions=8") ||
		strings.Count(got, "\n") != 1 {
		t.Errorf("when it is full: %q", got)
	}
	if got, want := w.m.Places(), (Places{Used: 8, Limit: 8, Full: true}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	w.play([]step{{0, opened, "8 opened"}, {100 * time.Millisecond, tick, ""}, {time.Second, tick, ""}})
	if err := w.m.WaitIdle(t.Context(), surrogateID, usual&^1); !errors.Is(err, ErrNoPlace) || !errors.Is(err, ErrNoLeg) {
		t.Errorf("a leg of another class: %v", err)
	}
	w.now = w.began.Add(2 * time.Second)
	w.m.SetUsable(surrogateID, false) // its idle legs end
	for _, at := range []time.Duration{3 * time.Second, 10 * time.Second} {
		w.now = w.began.Add(at)
		tick(w)
	}
	if got := lines(); strings.Contains(got, "sessions") || !w.m.Places().Full {
		t.Errorf("soon after: %q, %+v", got, w.m.Places())
	}
	w.now = w.began.Add(relief + 3*time.Second)
	tick(w)
	tick(w)
	if got := lines(); !strings.Contains(got, "level=INFO") || !strings.Contains(got, "places again") ||
		strings.Count(got, "limits.sessions") != 1 {
		t.Errorf("when there are places: %q", got)
	}
	if got := w.m.Places(); got.Full || got.Used != 0 {
		t.Errorf("%+v", got)
	}
}
