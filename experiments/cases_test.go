package experiments

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var path = []Parameter{
	{Name: "rtt", Title: "round-trip time", Unit: "ms", Values: []float64{5, 50, 200}, Quick: []float64{50}},
	{Name: "loss", Title: "loss", Unit: "%", Values: []float64{0, 1.5}},
}

func TestGrid(t *testing.T) {
	var names, quick []string
	for _, c := range grid(path) {
		names = append(names, c.Name)
		if c.Quick {
			quick = append(quick, c.Name)
		}
	}
	want := []string{"rtt 5 ms, loss 0 %", "rtt 5 ms, loss 1.5 %", "rtt 50 ms, loss 0 %", "rtt 50 ms, loss 1.5 %", "rtt 200 ms, loss 0 %",
		"rtt 200 ms, loss 1.5 %"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"rtt 50 ms, loss 0 %"}, quick); diff != "" {
		t.Errorf("quick cases (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Case{{Quick: true}}, grid(nil)); diff != "" {
		t.Errorf("without parameters (-want +got):\n%s", diff)
	}
}

// asked is an experiment that is never run.
var asked = Experiment[int]{
	Name: "asked", Parameters: path,
	Contenders: []Contender[int]{{Name: "a"}, {Name: "b"}},
	Measures:   []Measure[int]{{Name: "speed", Unit: "m/s"}, {Name: "weight", Unit: "kg"}},
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name string
		o    Options
		want string // in the error; empty: none
	}{
		{"defaults", Options{}, ""},
		{"all that is known", Options{Cases: []string{"rtt 5 ms, loss 0 %"}, Contenders: []string{"b"}, Measures: []string{"speed"}}, ""},
		{"a case", Options{Cases: []string{"rtt 6 ms"}}, `--case "rtt 6 ms": one of rtt 5 ms, loss 0 %, rtt`},
		{"a case that a quick run leaves out", Options{Quick: true, Cases: []string{"rtt 5 ms, loss 0 %"}}, ""},
		{"a contender", Options{Contenders: []string{"a", "c"}}, `--contender "c": one of a, b`},
		{"a measure", Options{Measures: []string{""}}, `--measure "": one of speed, weight`},
		{"rounds", Options{Rounds: -1}, "--rounds -1: want 1 or more"},
		{"duration", Options{Duration: -time.Second}, "--duration -1s: want more than 0"},
		{"IPv6", Options{IPv6: true}, "--ipv6: asked runs over IPv4 only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := asked.Check(tt.o)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("Check: %v, want %q", err, tt.want)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	own := asked
	own.Rounds, own.Duration = 9, time.Minute
	tests := []struct {
		name     string
		e        Experiment[int]
		o        Options
		rounds   int
		duration time.Duration
	}{
		{"the framework's", asked, Options{}, 5, 3 * time.Second},
		{"the experiment's", own, Options{}, 9, time.Minute},
		{"quick", own, Options{Quick: true}, 1, 500 * time.Millisecond},
		{"as asked", own, Options{Quick: true, Rounds: 2, Duration: time.Hour}, 2, time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := tt.e.prepare(tt.o)
			if err != nil {
				t.Fatal(err)
			}
			if r.o.Rounds != tt.rounds || r.o.Duration != tt.duration || r.results.Options.Rounds != tt.rounds {
				t.Errorf("%d rounds of %v (recorded %+v), want %d of %v", r.o.Rounds, r.o.Duration, r.results.Options, tt.rounds, tt.duration)
			}
		})
	}
}
