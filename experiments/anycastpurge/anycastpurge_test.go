package anycastpurge

import (
	"math"
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/experimentstest"
	"baton/lab"
)

// TestPoisson has figures of the table of exact limits (Garwood 1936).
func TestPoisson(t *testing.T) {
	for _, tt := range []struct{ count, low, high float64 }{
		{0, 0, 3.689}, {1, 0.0253, 5.572}, {2, 0.2422, 7.225}, {5, 1.623, 11.668}, {20, 12.217, 30.888}, {100, 81.36, 121.63},
	} {
		low, high := poisson(tt.count)
		if math.Abs(low-tt.low) > 0.01 || math.Abs(high-tt.high) > 0.01 {
			t.Errorf("%v: %.4f to %.4f, want %v to %v", tt.count, low, high, tt.low, tt.high)
		}
	}
}

// TestJudged: each connection counts once, by the download that had the port then.
func TestJudged(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 1, 2, 3, 4, s, 0, time.UTC) }
	byPort := map[uint16][]*attempt{
		1: {{begun: at(0), done: at(10)}, {begun: at(20), done: at(30)}},
		2: {{begun: at(0), done: at(10)}},
	}
	line := func(second string, port string) string {
		return `{"time":"2026-01-02T03:04:` + second + `Z","level":"INFO","msg":"dormant; not ended as dry_run is set","client":"10.0.0.1:` + port + `"}` + "\n"
	}
	const ready = `{"time":"2026-01-02T03:04:00Z","level":"INFO","msg":"ready"}` + "\n"
	for _, tt := range []struct {
		name, log string
		want      verdict
		wrong     bool
	}{
		{"nothing", ready, verdict{}, false},
		{"cut", line("05", "1"), verdict{1, 1}, false},
		{"twice", line("05", "1") + line("06", "1"), verdict{1, 1}, false},
		{"the first one, done", line("15", "1"), verdict{1, 0}, false},
		{"both of a port", line("15", "1") + line("25", "1"), verdict{2, 1}, false},
		{"two ports", line("05", "1") + line("11", "2"), verdict{2, 1}, false},
		{"nobody's", line("05", "3"), verdict{}, true},
		{"no log", "x\n", verdict{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := judged(tt.log, byPort)
			if got != tt.want || (err != nil) != tt.wrong {
				t.Errorf("%+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

// TestQuick runs the experiments as --quick does.
func TestQuick(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Program(t)
	for _, e := range []experiments.Runnable{Experiment(), Live(), Lifetime()} {
		r, err := e.Run(t.Context(), experiments.Options{Quick: true, Program: program, Progress: t.Output()})
		if err != nil {
			t.Fatal(err)
		}
		if about := e.About(); len(r.Samples) != len(about.Contenders)*len(about.Measures) {
			t.Errorf("%s: %d samples of %d contenders and %d measures", about.Name, len(r.Samples), len(about.Contenders), len(about.Measures))
		}
		for _, s := range r.Samples {
			t.Logf("%s, %s: %v %v", s.Contender, s.Measure, s.Value, s.Also)
		}
	}
}
