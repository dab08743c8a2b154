package health

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMachine runs scripts. A step is an event and what must hold after it:
//
//	ok, fail       an active check that began just now
//	late-ok T      an active success that began T ago
//	lost           a connection of ours that was refused, with others in the pool
//	last           the same of the pool's last usable surrogate
//	suspect        a failure that its client may have caused
//	probe-ok, probe-fail  an early probe, which must be due; "not-due" that none is
//	+T             time passes, then a tick
//	drain, undrain the operator
func TestMachine(t *testing.T) {
	active := func(rise, fall int) *machine { return newMachine(true, rise, fall, Passive{}, time.Unix(1000, 0)) }
	passive := func() *machine { return newMachine(false, 0, 0, Passive{}, time.Unix(1000, 0)) }
	tests := []struct {
		name   string
		m      *machine
		script string
	}{
		{"first success is enough", active(5, 3), "start=checking ok=up"},
		{"first failure is enough", active(2, 3), "fail=down ok=down ok=up"},
		{"fall counts failures in a row", active(2, 3), "ok=up fail=up fail=up ok=up fail=up fail=up fail=down"},
		{"rise counts successes in a row", active(3, 1), "ok=up fail=down ok=down ok=down fail=down ok=down ok=down ok=up"},
		{"rise and fall of 0 are 1", active(0, 0), "ok=up fail=down ok=up"},
		{"reported failures take it down", active(2, 3), "ok=up lost=up lost=up lost=down"},
		{"one active success lifts that", active(5, 3), "ok=up lost=up lost=up lost=down +1s=down ok=up"},
		{"a success under way when it fell does not", active(5, 3), "ok=up lost=up lost=up lost=down +1s=down late-ok:2s=down ok=up"},
		{"reported failures expire", active(2, 3), "ok=up lost=up lost=up +10s=up lost=up lost=up lost=down"},
		{"a sliding window", active(2, 3), "ok=up lost=up +6s=up lost=up +6s=up lost=up +1s=up lost=down"},
		{"a tick never lifts what is checked actively", active(2, 3), "ok=up lost=up lost=up lost=down +1h=down"},
		{"failed checks keep it down", active(1, 2), "ok=up lost=up lost=up lost=down fail=down ok=up"},
		{"failures while down count for nothing", active(1, 2), "fail=down lost=down lost=down lost=down ok=up lost=up lost=up lost=down"},
		{"while checking, too", active(1, 2), "lost=checking lost=checking lost=checking ok=up lost=up"},
		{"the fall starts afresh after a return", active(1, 2), "ok=up fail=up fail=down ok=up fail=up fail=down"},

		{"nothing checks: up from the start", passive(), "start=up lost=up lost=up lost=down"},
		{"backoff ends", passive(), "lost=up lost=up lost=down +4s=down +1s=up"},
		{"backoff doubles at a relapse", passive(), "lost=up lost=up lost=down +5s=up lost=up lost=up lost=down +5s=down +4s=down +1s=up lost=up lost=up lost=down +19s=down +1s=up"},
		{"backoff is forgotten after a good time", passive(), "lost=up lost=up lost=down +5s=up +1m=up lost=up lost=up lost=down +5s=up"},
		{"backoff is bounded", passive(), relapses(8) + "+119s=down +1s=up"},

		{"what a client may have caused takes nothing down", active(2, 3), "ok=up suspect=up suspect=up suspect=up suspect=up probe-ok=up suspect=up +1s=up probe-ok=up"},
		{"it has a probe made, once a second", active(2, 3), "ok=up suspect=up probe-ok=up suspect=up not-due=up +500ms=up not-due=up +500ms=up probe-ok=up not-due=up"},
		{"a failed probe counts as a check, and begets the next", active(2, 3), "ok=up suspect=up probe-fail=up not-due=up +1s=up probe-fail=up +1s=up probe-fail=down not-due=down ok=down ok=up"},
		{"a probe and checks are counted together", active(2, 3), "ok=up fail=up suspect=up probe-fail=up fail=down"},
		{"a probe that succeeds ends the row", active(2, 3), "ok=up fail=up fail=up suspect=up probe-ok=up fail=up fail=up fail=down"},
		{"nothing is probed that is down", active(2, 3), "fail=down suspect=down not-due=down"},
		{"the last of a pool stays, and is probed", active(2, 3), "ok=up last=up last=up last=up last=up probe-ok=up last=up last=up"},
		{"a probe takes the last of a pool down", active(2, 3), "ok=up last=up last=up last=up probe-fail=up +1s=up probe-fail=up +1s=up probe-fail=down"},
		{"reports of the last count when another has come", active(2, 3), "ok=up last=up last=up last=up last=up lost=down"},
		{"without checks a probe is as good", passive(), "last=up last=up last=up probe-fail=up +1s=up probe-fail=up +1s=up probe-fail=down +4s=down +1s=up suspect=up probe-ok=up"},
		{"and its backoff doubles", passive(), "suspect=up probe-fail=up +1s=up probe-fail=up +1s=up probe-fail=down +5s=up suspect=up probe-fail=up +1s=up probe-fail=up +1s=up probe-fail=down +9s=down +1s=up"},

		{"draining is beside the phase", active(1, 1), "drain=checking/draining ok=up/draining fail=down/draining ok=up/draining undrain=up"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			for i, step := range strings.Fields(tt.script) {
				event, want, _ := strings.Cut(step, "=")
				before := tt.m.state
				now = now.Add(time.Millisecond)
				play(t, tt.m, event, &now)
				got := string(tt.m.state.Phase)
				if tt.m.state.Draining {
					got += "/draining"
				}
				if got != want {
					t.Fatalf("step %d (%s): %s, want %s", i, event, got, want)
				}
				if tt.m.state.Up != (tt.m.state.Phase == Up) || tt.m.state.Usable() != (got == "up") {
					t.Fatalf("step %d (%s): %+v contradicts itself", i, event, tt.m.state)
				}
				if changed := before.Phase != tt.m.state.Phase; changed != !before.Since.Equal(tt.m.state.Since) {
					t.Fatalf("step %d (%s): Since %v, before %v, phase changed = %v", i, event, tt.m.state.Since, before.Since, changed)
				}
			}
		})
	}
}

// relapses goes down and up n-1 times, and down once more.
func relapses(n int) string {
	var b strings.Builder
	backoff := 5 * time.Second
	for i := range n {
		b.WriteString("lost=up lost=up lost=down ")
		if i < n-1 {
			fmt.Fprintf(&b, "+%s=up ", backoff)
		}
		backoff = min(2*backoff, 2*time.Minute)
	}
	return b.String()
}

func play(t *testing.T, m *machine, event string, now *time.Time) {
	t.Helper()
	name, arg, _ := strings.Cut(event, ":")
	switch {
	case name == "start":
	case name == "ok":
		m.checked("", *now, *now)
	case name == "fail":
		m.checked("status 500", *now, *now)
	case name == "late-ok":
		ago, err := time.ParseDuration(arg)
		if err != nil {
			t.Fatal(err)
		}
		m.checked("", now.Add(-ago), *now)
	case name == "lost":
		m.failed("refused", false, *now)
	case name == "last":
		m.failed("refused", true, *now)
	case name == "suspect":
		m.suspected(*now)
	case name == "not-due":
		if m.begin(*now) {
			t.Fatal("an early probe is due")
		}
	case name == "probe-ok", name == "probe-fail":
		if next := m.next(); next.After(*now) || !m.begin(*now) {
			t.Fatalf("no early probe is due, but something at %v", next)
		}
		m.probed(map[string]string{"probe-fail": "status 500"}[name], *now, *now)
	case name == "drain", name == "undrain":
		m.drain(name == "drain")
	case strings.HasPrefix(name, "+"):
		d, err := time.ParseDuration(name[1:])
		if err != nil {
			t.Fatal(err)
		}
		*now = now.Add(d)
		m.tick(*now)
	default:
		t.Fatalf("unknown event %s", strconv.Quote(event))
	}
}

func TestMachineCounts(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMachine(true, 2, 3, Passive{}, now)
	m.checked("", now, now)
	m.checked("", now, now)
	if got := m.state; got.Successes != 2 || got.Failures != 0 || got.LastError != "" {
		t.Errorf("after 2 successes: %+v", got)
	}
	m.checked("status 500", now, now)
	if got := m.state; got.Successes != 0 || got.Failures != 1 || got.LastError != "status 500" {
		t.Errorf("after a failure: %+v", got)
	}
	p := newMachine(false, 0, 0, Passive{}, now)
	p.failed("refused", false, now)
	if got := p.state; got.Failures != 1 || got.LastError != "refused" {
		t.Errorf("passive, after a failure: %+v", got)
	}
	p.tick(now.Add(time.Minute))
	if got := p.state.Failures; got != 0 {
		t.Errorf("passive, after the window: %d failures, want 0", got)
	}
}

func TestMachineNext(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMachine(false, 0, 0, Passive{Failures: 1, Backoff: 7 * time.Second}, now)
	if got := m.next(); !got.IsZero() {
		t.Errorf("next while up = %v, want none", got)
	}
	m.failed("refused", false, now)
	if got, want := m.next(), now.Add(7*time.Second); !got.Equal(want) {
		t.Errorf("next while down = %v, want %v", got, want)
	}
	m.tick(m.next())
	if !m.state.Up {
		t.Error("not up at the moment that next names")
	}
}

func TestLastUsable(t *testing.T) {
	up, draining, down := State{Up: true}, State{Up: true, Draining: true}, State{}
	for _, tt := range []struct {
		name   string
		others []State
		want   bool
	}{
		{"alone", nil, true},
		{"beside one that is up", []State{up}, false},
		{"beside one that is down", []State{down}, true},
		{"beside one that is drained", []State{draining}, true},
		{"beside several", []State{down, draining, up}, false},
		{"of several", []State{down, draining, down}, true},
	} {
		if got := lastUsable(tt.others); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
