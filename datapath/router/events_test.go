package router

import (
	"testing"
	"time"
)

// eventLog reads events from its creation on.
type eventLog struct {
	t      testing.TB
	events *Events
}

func (k *rig) events() *eventLog {
	k.t.Helper()
	e, err := k.Events()
	k.must(err)
	k.t.Cleanup(func() { e.Close() })
	l := &eventLog{k.t, e}
	for l.next() != nil { // of earlier tests
	}
	return l
}

// next returns a pending event, or nil.
func (l *eventLog) next() *Event {
	l.t.Helper()
	l.events.reader.SetDeadline(time.Unix(1, 0))
	e, err := l.events.next()
	if err != nil {
		return nil
	}
	return &e
}

// want requires an event, ignoring its times and, unless one is given, its band; and no other event.
func (l *eventLog) want(want Event) {
	l.t.Helper()
	e := l.next()
	if e == nil {
		l.t.Fatalf("no event, want %+v", want)
	}
	if e.Age < 0 || e.Age > time.Minute || e.Idle < 0 || e.Idle > time.Minute || e.Ago > time.Minute {
		l.t.Errorf("times of %+v", *e)
	}
	got := *e
	got.Age, got.Idle, got.Ago = 0, 0, 0
	if want.Band == 0 {
		got.Band = 0
	}
	if got != want {
		l.t.Errorf("event: got %+v, want %+v", got, want)
	}
	l.none()
}

func (l *eventLog) none() {
	l.t.Helper()
	if e := l.next(); e != nil {
		l.t.Errorf("an event too many: %+v", *e)
	}
}
