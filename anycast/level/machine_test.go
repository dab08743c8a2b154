package level

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// ladder is the one that sites have by default.
func ladder() []Level {
	return []Level{
		{Name: "announce"},
		{Name: "med", Announcement: Announcement{MED: 100}, Enter: 0.85, Leave: 0.7},
		{Name: "prepend-1", Announcement: Announcement{MED: 100, Prepend: 1}, Enter: 0.95, Leave: 0.8},
		{Name: "prepend-3", Announcement: Announcement{MED: 100, Prepend: 3}, Enter: 1.05, Leave: 0.9},
		{Name: "drain", Announcement: Announcement{Prepend: 3, Communities: []uint32{GracefulShutdown}}},
		{Name: "withdraw", Announcement: Announcement{Withdrawn: true}},
	}
}

func rules() Rules {
	return Rules{Ladder: ladder(), Dwell: 2 * time.Minute, Flaps: Flaps{Suppress: 2000, HalfLife: 15 * time.Minute, Share: 0.5}}
}

// up is a site that is well, half full, and has two others with headroom.
func up() Input {
	return Input{Health: Up, Cause: "no answer", Proposal: NoProposal, Load: 0.5, DrainFor: time.Minute, Others: true, Alive: 2, Headroom: true}
}

func TestMachine(t *testing.T) {
	with := func(change func(*Input)) Input {
		in := up()
		change(&in)
		return in
	}
	load := func(l float64) Input { return with(func(in *Input) { in.Load = l }) }
	down := with(func(in *Input) { in.Health = Down })
	alone := with(func(in *Input) { in.Alive = 0 })
	lastDown := with(func(in *Input) { in.Health, in.Alive = Down, 0 })
	lone := with(func(in *Input) { in.Others, in.Alive = false, 0 })
	loneDown := with(func(in *Input) { in.Health, in.Others, in.Alive = Down, false, 0 })
	drained := with(func(in *Input) { in.Instruction = Drain })
	maintained := with(func(in *Input) { in.Instruction = Maintenance })
	proposal := func(w int) Input { return with(func(in *Input) { in.Planned, in.Proposal, in.Load = true, w, 2 }) }

	type step struct {
		at     time.Duration
		in     Input
		want   string // level
		held   string
		reason string // part of it
	}
	s, m := time.Second, time.Minute
	tests := []struct {
		name  string
		steps []step
	}{
		{"nothing is announced before the checks have said so", []step{
			{0, with(func(in *Input) { in.Health = Unknown }), "withdraw", "", "not known yet"},
			{1 * s, up(), "announce", "", "healthy"},
		}},
		{"load leads down a step at a time, and back below other loads", []step{
			{0, up(), "announce", "", "healthy"}, {1, up(), "announce", "", "50 %"},
			{3 * m, load(1.5), "med", "", "150 %"},
			{3*m + s, load(1.5), "med", "dwell", "150 %"},
			{5 * m, load(0.84), "med", "", "84 %"},                                          // neither entered again nor left
			{6 * m, load(0.69), "med", "", "69 % of the capacity; it would be 123 % again"}, // 150 % have become 84 %
			{7 * m, load(0.45), "announce", "", "45 %"},
			{9 * m, load(0.84), "announce", "", "84 %"},
		}},
		{"the budget holds what dwell would allow", []step{
			{0, up(), "announce", "", ""},
			{2 * m, load(2), "med", "", ""},
			{4 * m, load(2), "prepend-1", "", ""},            // 500 · 2^(-2/15) = 456, and 500
			{6 * m, load(2), "prepend-1", "flap budget", ""}, // 956 · 2^(-2/15) = 871, and 500
			{19 * m, load(2), "prepend-3", "", ""},           // 956 · 2^(-15/15) = 478, and 500
		}},
		{"no load that is known: plain", []step{
			{0, up(), "announce", "", ""}, {3 * m, load(2), "med", "", ""},
			{6 * m, load(-1), "announce", "", "not known"},
		}},
		{"nobody else has headroom: the level stays", []step{
			{0, up(), "announce", "", ""},
			{3 * m, with(func(in *Input) { in.Load, in.Headroom = 3, false }), "announce", "", "no other site has headroom"},
			{6 * m, with(func(in *Input) { in.Load, in.Headroom, in.Others = 3, false, false }), "med", "", "300 %"}, // nobody knows
		}},
		{"death waits for nothing", []step{
			{0, up(), "announce", "", ""}, {1 * s, down, "withdraw", "", "no answer"},
			{2 * s, up(), "withdraw", "dwell", "no answer"},
			{1*s + 2*m, up(), "announce", "", "healthy"},
			{2*m + 2*s, down, "withdraw", "", ""},
			{5 * m, up(), "withdraw", "flap budget", ""},
			{22 * m, up(), "announce", "", ""},
		}},
		{"the last one known to be up goes on, behind all others", []step{
			{0, alone, "announce", "", ""}, {1 * s, lastDown, "drain", "", "the last site known to be up: no answer"},
			{2 * s, down, "drain", "dwell", ""}, // others are preferred already
			{3 * m, down, "withdraw", "", "no answer"},
			{3*m + s, lastDown, "drain", "", "the last site"},
			{9 * m, alone, "drain", "flap budget", "the last site"},
			{30 * m, alone, "announce", "", "healthy"},
		}},
		{"death withdraws a drained site at once", []step{
			{0, up(), "announce", "", ""}, {1 * s, drained, "drain", "", "by the operator"}, {2 * s, down, "withdraw", "", "no answer"},
		}},
		{"nobody knows of others: death withdraws", []step{
			{0, up(), "announce", "", ""},
			{1 * s, with(func(in *Input) { in.Health, in.Others, in.Alive = Down, false, 0 }), "withdraw", "", "no answer"},
		}},
		{"a healthy site that nobody helps comes back at once", []step{
			{0, up(), "announce", "", ""}, {1 * s, down, "withdraw", "", ""}, {2 * s, alone, "announce", "", "healthy"},
			{3 * s, down, "withdraw", "", ""}, {4 * s, up(), "withdraw", "dwell", ""}, {5 * m, up(), "withdraw", "flap budget", ""},
			{6 * m, with(func(in *Input) { in.Others, in.Alive = false, 0 }), "withdraw", "flap budget", ""}, // others may be there
			{20 * m, with(func(in *Input) { in.Others, in.Alive = false, 0 }), "announce", "", "healthy"},
		}},
		{"one that knows of no others does not wait for dwell", []step{
			{0, lone, "announce", "", ""}, {1 * s, loneDown, "withdraw", "", "no answer"}, {2 * s, lone, "announce", "", "healthy"},
			{3 * s, loneDown, "withdraw", "", ""}, {4 * s, lone, "withdraw", "flap budget", ""},
		}},
		{"drained and back, at once", []step{
			{0, up(), "announce", "", ""}, {1 * s, drained, "drain", "", "by the operator"}, {2 * s, up(), "announce", "", "healthy"},
		}},
		{"maintenance", []step{
			{0, up(), "announce", "", ""}, {1 * s, maintained, "drain", "", "withdrawn in 1m0s"}, {60 * s, maintained, "drain", "", "withdrawn in 1s"},
			{61 * s, maintained, "withdraw", "", "maintenance"}, {62 * s, up(), "announce", "", "healthy"},
		}},
		{"maintenance that an earlier process was given", []step{
			{0, with(func(in *Input) { in.Health, in.Instruction = Unknown, Maintenance }), "withdraw", "", "not known yet"},
			{3 * s, maintained, "withdraw", "", "maintenance"},
			{4 * s, with(func(in *Input) { in.Instruction, in.Alive = Maintenance, 0 }), "drain", "", ""}, // it is needed
		}},
		{"maintenance of the last one", []step{
			{0, alone, "announce", "", ""},
			{5 * s, with(func(in *Input) { in.Instruction, in.Alive = Maintenance, 0 }), "drain", "", ""},
			{2 * m, with(func(in *Input) { in.Instruction, in.Alive = Maintenance, 0 }), "drain", "", "no other site is known to be up"},
			{2*m + s, with(func(in *Input) { in.Instruction, in.Alive, in.Force = Maintenance, 0, true }), "withdraw", "", "maintenance"},
		}},
		{"pinned", []step{
			{0, up(), "announce", "", ""},
			{1 * s, with(func(in *Input) { in.Instruction, in.Pin = Pin, 2 }), "prepend-1", "", "by the operator"},
			{2 * s, with(func(in *Input) { in.Instruction, in.Pin = Pin, 5 }), "withdraw", "", "by the operator"},
			{3 * s, with(func(in *Input) { in.Instruction, in.Pin, in.Alive = Pin, 5, 0 }), "drain", "", "no other site"},
		}},
		{"a proposal, no further than drain, and a stale one", []step{
			{0, proposal(0), "announce", "", "planner"}, {2 * m, proposal(2), "prepend-1", "", "proposed by the planner"},
			{20 * m, proposal(9), "drain", "", ""}, {40 * m, proposal(NoProposal), "announce", "", "no fresh proposal"},
		}},
		{"a clock that goes back stands still", []step{
			{5 * m, up(), "announce", "", ""}, {8 * m, load(2), "med", "", ""}, {0, load(0.5), "med", "dwell", ""}, {9 * m, load(0.5), "med", "dwell", ""},
			{10 * m, load(0.5), "med", "", "200 % again"}, {28*m + s, up(), "announce", "", ""}, // ten dwells: tried again
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := rules()
			machine := New(r)
			for i, step := range tt.steps {
				before := machine.Level()
				d := machine.Step(step.at, step.in)
				if got := r.Ladder[d.Level].Name; got != step.want || d.Held != step.held || !strings.Contains(d.Reason, step.reason) {
					t.Fatalf("step %d: level %s, held %q, reason %q; want %s, %q, %q", i, got, d.Held, d.Reason, step.want, step.held, step.reason)
				}
				if d.Changed != (before != d.Level) {
					t.Errorf("step %d: Changed is %v, from level %d to %d", i, d.Changed, before, d.Level)
				}
				if d.Held != "" && d.Until <= step.at && step.at > 0 {
					t.Errorf("step %d: held until %v, which is over", i, d.Until)
				}
			}
		})
	}
}

func TestConfigure(t *testing.T) {
	short := rules()
	short.Ladder = append(short.Ladder[:2:2], short.Ladder[4:]...)
	for from, want := range map[string]string{"announce": "announce", "med": "med", "prepend-1": "drain", "prepend-3": "drain", "drain": "drain", "withdraw": "withdraw"} {
		r := rules()
		m := New(r)
		m.level = r.Find(from)
		m.Configure(short)
		if got := short.Ladder[m.Level()].Name; got != want {
			t.Errorf("from %s to %s, want %s", from, got, want)
		}
	}
}

// TestOwe has a process begin after others that have withdrawn, or were killed, shortly before.
func TestOwe(t *testing.T) {
	m := New(rules())
	m.Owe(2000, 0)
	if d := m.Step(0, up()); d.Level != 5 || d.Held != "flap budget" || d.Until != 15*time.Minute {
		t.Errorf("after two withdrawals: %+v", d)
	}
	if d := m.Step(15*time.Minute, up()); d.Level != 0 {
		t.Errorf("a half-life later: %+v", d)
	}
	m = New(rules())
	m.Owe(2000, 15*time.Minute)
	if d := m.Step(0, up()); d.Level != 0 {
		t.Errorf("half a life ago: %+v", d)
	}
}

func ExampleMachine() {
	m := New(rules())
	in := up()
	m.Step(0, in)
	fmt.Println(m.Step(time.Second, in).Reason)
	in.Health, in.Cause = Down, "check web: connection refused"
	d := m.Step(2*time.Second, in)
	fmt.Println(d.Level == 5, d.Reason)
	// Output:
	// healthy, load 50 % of the capacity
	// true check web: connection refused
}
