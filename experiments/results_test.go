package experiments

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	update   = flag.Bool("update", false, "write testdata anew")
	pictures = flag.String("pictures", "", "`folder` to write the pictures of TestPictures to: look at them")
)

// made are results as a run would leave them: three contenders, of which the last fails requests, and one round is not whole.
func made(cases []Case, parameters []Parameter) *Results {
	r := &Results{
		Schema: schema, Experiment: "made", Question: "Which is faster?", Began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Took: 61.5,
		Ended: Complete, Options: RunOptions{Rounds: 5, Duration: 3, Defaults: true}, Parameters: slices.Clone(parameters), Cases: slices.Clone(cases),
		Contenders: []ContenderInfo{{"direct", "no proxy"}, {"baton", "handed off"}, {"slow | steady", ""}},
		Measures: []MeasureInfo{
			{Name: "rate", Title: "Requests a second", Unit: "requests/s", Per: "request"}, {Name: "time", Unit: "ms", Less: true},
			{Name: "left out", Unit: "ms"},
		},
		Machine: Machine{Processor: "Processor", Processors: 2, Virtual: true, Memory: 8 << 30, Kernel: "6.18.0", Distribution: "Debian", Go: "go1.26",
			Busy: 0.01, Sysctls: map[string]string{"net.ipv4.tcp_congestion_control": "cubic"}},
		Versions: map[string]string{"nginx": "1.2", "haproxy": "2.6"}, Source: Source{Revision: "0123456789abcdef", Dirty: true},
	}
	for round := 1; round <= 5; round++ {
		for i, c := range cases {
			for k, contender := range r.Contenders {
				if round == 5 && k == 2 {
					continue
				}
				wander := 1 + 0.02*float64((round*7+k*3+i)%5-2)
				path := 1 + 0.3*float64(i)*float64(3-k)
				s := Sample{Round: round, Case: c.Name, Contender: contender.Name, Measure: "rate", Work: 1000,
					Value:  40000 / float64(k+1) / path * wander,
					CPU:    &Usage{Machine: 2e-5 * float64(k+1) * wander, Contender: 1e-6 * float64(k)},
					Single: &Distribution{Count: 1000, P50: 1e-3 * path, P99: 4e-3 * path}}
				if k == 2 && round == 2 {
					s.Errors, s.First = 1200, "connection reset by peer"
				}
				r.Samples = append(r.Samples, s, Sample{Round: round, Case: c.Name, Contender: contender.Name, Measure: "time", Value: 0.2 * path * wander})
			}
		}
	}
	return r
}

var madeAbout = About{
	Name: "made", Method: "By hand.", Caveats: []string{"None of it is true."},
	Claims: []Claim{
		{What: "rate beside direct", Paper: "0.88 ×", Where: "a paper, figure 19", Unit: "×", Ours: RatioOf("", "rate", "baton", "direct"), AtLeast: 0.9},
		{What: "time", Unit: "ms", Ours: ValueOf("", "time", "baton"), AtMost: 0.3},
		{What: "of one that was not there", Ours: RatioOf("", "rate", "other", "direct")},
	},
}

func TestResultsAndBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results", "made")
	want := made(grid(path), path)
	want.Lab = &LabVerdict{Failing: []string{"delay"}}
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want.Cases {
		want.Cases[i].Quick = false // what a run needs alone
	}
	for i := range want.Parameters {
		want.Parameters[i].Values, want.Parameters[i].Quick = nil, nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"none":          {"", "results.json does not exist"},
		"no JSON":       {"hello", "invalid character"},
		"other JSON":    {"{}", "schema 0, this program reads 1 to 1"},
		"of the future": {`{"schema": 2}`, "schema 2, this program reads 1 to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.text != "" {
				if err := os.WriteFile(filepath.Join(dir, resultsFile), []byte(tt.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Read: %v, want %q", err, tt.want)
			}
		})
	}
}

// TestRatioPairsRounds: what changes on the machine from round to round does not touch a ratio.
func TestRatioPairsRounds(t *testing.T) {
	r := &Results{}
	for round, speed := range []float64{1, 10, 100} {
		for name, factor := range map[string]float64{"a": 1, "b": 2} {
			r.Samples = append(r.Samples, Sample{Round: round + 1, Contender: name, Measure: "m", Value: speed * factor})
		}
	}
	r.Samples = append(r.Samples, Sample{Round: 4, Contender: "b", Measure: "m", Value: 7}) // a did not come to its turn
	want := Estimate{Median: 2, Low: 2, High: 2, Coverage: 0.75, Rounds: 3}
	if got := r.Ratio("", "b", "a", "m"); got != want {
		t.Errorf("ratio %+v, want %+v", got, want)
	}
}

func TestVerdict(t *testing.T) {
	tests := []struct {
		name   string
		c      Claim
		e      Estimate
		want   string
		inGoal string
	}{
		{"above", Claim{AtLeast: 1, Unit: "×"}, Estimate{Low: 1.1, Median: 1.2, High: 1.3}, "reached", "≥ 1.00 ×"},
		{"below", Claim{AtLeast: 1}, Estimate{Low: 0.7, Median: 0.8, High: 0.9}, "missed", "≥ 1.00"},
		{"open, above", Claim{AtLeast: 1}, Estimate{Low: 0.9, Median: 1.1, High: 1.3}, "reached at the median, not by the whole interval", "≥ 1.00"},
		{"open, below", Claim{AtLeast: 1}, Estimate{Low: 0.8, Median: 0.9, High: 1.3}, "missed at the median, not by the whole interval", "≥ 1.00"},
		{"short", Claim{AtMost: 2, Unit: "ms"}, Estimate{Low: 1, Median: 1.1, High: 1.2}, "reached", "≤ 2.00 ms"},
		{"long", Claim{AtMost: 2}, Estimate{Low: 2.1, Median: 2.2, High: 2.3}, "missed", "≤ 2.00"},
		{"open, long", Claim{AtMost: 2}, Estimate{Low: 1.9, Median: 2.2, High: 2.3}, "missed at the median, not by the whole interval", "≤ 2.00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.c.verdict(tt.e); got != tt.want || tt.c.goal() != tt.inGoal {
				t.Errorf("%q for %q, want %q for %q", got, tt.c.goal(), tt.want, tt.inGoal)
			}
		})
	}
}

func TestReportIsAsBefore(t *testing.T) {
	r := made([]Case{{}}, nil)
	r.Ended, r.Options.Quick, r.Machine.Busy = Interrupted, true, 0.5
	r.Options.Contenders, r.Options.Cases = []string{"direct", "baton"}, []string{"rtt 5 ms"}
	r.Lab = &LabVerdict{Failing: []string{"delay at p99: 2 ms"}}
	got := r.Markdown(madeAbout, []Drawn{{"rate", "rate", "Requests a second; more is better"}})
	file := filepath.Join("testdata", "report.md")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("report (-want +got); go test -update writes it anew:\n%s", diff)
	}
	var text strings.Builder
	r.Text(&text, madeAbout)
	for _, want := range []string{"Interrupted", "1200 failed: connection reset by peer", "× direct", "reached"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("text lacks %q:\n%s", want, text.String())
		}
	}
}

func TestCommand(t *testing.T) {
	r := made([]Case{{}}, nil)
	r.Options = RunOptions{Rounds: 2, Duration: 0.5, Quick: true, IPv6: true, Cases: []string{"rtt 5 ms"}, Measures: []string{"rate"}}
	want := "baton-lab experiment run made --quick --rounds 2 --duration 500ms --ipv6 --case 'rtt 5 ms' --measure rate"
	if got := r.Command(); got != want {
		t.Errorf("command %q, want %q", got, want)
	}
}

// TestPictures: an SVG is well-formed, has the names in it, and does not show what was not measured.
func TestPictures(t *testing.T) {
	many := Parameter{Name: "sessions", Title: "idle sessions", Values: []float64{1000, 10000, 100000, 1000000}}
	failing := made([]Case{{}}, nil)
	failing.Lab, failing.Ended = &LabVerdict{Failing: []string{"delay"}}, Interrupted
	running := made([]Case{{}}, nil)
	for i := range running.Samples {
		if s := &running.Samples[i]; s.Measure == "time" && s.Round < 3 && s.Contender != "direct" {
			s.Course = &Course{Of: "packets in the queue", Every: 0.2}
			for k := range 300 {
				s.Course.Values = append(s.Course.Values, 200+100*math.Sin(float64(k*s.Round)/10))
			}
		}
	}
	tests := []struct {
		name  string
		r     *Results
		p     Plot
		words []string
	}{
		{"courses", running, Plot{Measure: "time", Of: OfCourse, Title: "The queue"}, []string{"The queue", "packets in the queue", "baton", "slow | steady", "Round 1.", "60"}},
		{"bars", made([]Case{{}}, nil), Plot{Measure: "rate"}, []string{"Requests a second; more is better", "requests/s", "direct", "baton", "slow | steady",
			"(0.48 × direct)", "1,200 failed", "87.5 %"}},
		{"bars of several cases", made([]Case{{Name: "wired"}, {Name: "wireless"}}, nil), Plot{Measure: "time"}, []string{"Time; less is better", "wired", "wireless"}},
		{"marks", failing, Plot{Measure: "rate", Of: OfProcessor}, []string{"Interrupted", "self-test fails", "µs/request", "Processor time"}},
		{"lines", made(grid([]Parameter{many}), []Parameter{many}), Plot{Measure: "rate"}, []string{"idle sessions", "1 M", "slow | steady", "requests failed"}},
		{"panels", made(grid(path), path), Plot{Measure: "rate", Of: OfRatio}, []string{"round-trip time, ms", "loss 1.5 %", "× direct"}},
		{"over another axis", made(grid(path), path), Plot{Measure: "rate", Of: OfP99, Over: "loss", Title: "Own title"}, []string{"Own title", "loss, %", "round-trip time 200 ms"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pic, ok := tt.r.picture(tt.p)
			if !ok {
				t.Fatal("nothing to draw")
			}
			svg, err := pic.svg()
			if err != nil {
				t.Fatal(err)
			}
			words := textOf(t, svg)
			for _, w := range tt.words {
				if !strings.Contains(words, w) {
					t.Errorf("the SVG lacks %q:\n%s", w, words)
				}
			}
			if *pictures != "" {
				if err := os.WriteFile(filepath.Join(*pictures, slug(tt.name)+".svg"), svg, 0o644); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, p := range []Plot{{Measure: "left out"}, {Measure: "unknown"}, {Measure: "rate", Of: OfCourse}} {
		if _, ok := made([]Case{{}}, nil).picture(p); ok {
			t.Errorf("a picture of %q", p.Measure)
		}
	}
}

// textOf is the text of an XML document, which must be well-formed.
func textOf(t *testing.T, document []byte) string {
	t.Helper()
	var words strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(document)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return words.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := token.(xml.CharData); ok {
			words.Write(c)
		}
	}
}

func TestPaletteKeepsColours(t *testing.T) {
	whole := palette([]ContenderInfo{{Name: "direct"}, {Name: "baton"}, {Name: "haproxy"}, {Name: "x"}, {Name: "y"}})
	part := palette([]ContenderInfo{{Name: "haproxy"}, {Name: "baton"}})
	if whole[2] != part[0] || whole[1] != part[1] {
		t.Error("a contender changes its colour with those beside it")
	}
	seen := map[any]bool{}
	for _, c := range whole {
		seen[c] = true
	}
	if len(seen) != len(whole) {
		t.Error("two contenders have one colour")
	}
	if n := len(palette(make([]ContenderInfo, 20))); n != 20 {
		t.Errorf("%d colours for 20", n)
	}
}

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		name      string
		low, high float64
		log       bool
	}{{"small", 0, 0.003, false}, {"large", 0, 4.2e7, false}, {"below 0", -3, 11, false}, {"decades", 0.001, 900, true}, {"half a decade", 2, 9, true}} {
		t.Run(tt.name, func(t *testing.T) {
			ticks := linearTicks(tt.low, tt.high)
			if tt.log {
				ticks = logTicks(tt.low, tt.high)
			}
			labels := 0
			for _, k := range ticks {
				if k.Label != "" {
					labels++
				}
				if k.Value < tt.low-1e-9 || k.Value > tt.high+1e-9 || math.IsNaN(k.Value) {
					t.Errorf("tick at %v", k.Value)
				}
			}
			if labels < 2 || labels > 10 {
				t.Errorf("%d labels", labels)
			}
		})
	}
}

// TestRatioToNothing: a baseline of 0 has no multiples, and rounds with one do not count.
func TestRatioToNothing(t *testing.T) {
	r := &Results{Samples: []Sample{
		{Contender: "a", Measure: "m", Round: 1, Value: 0}, {Contender: "b", Measure: "m", Round: 1, Value: 3},
		{Contender: "a", Measure: "m", Round: 2, Value: 2}, {Contender: "b", Measure: "m", Round: 2, Value: 4},
		{Contender: "a", Measure: "m", Round: 3, Value: 0}, {Contender: "b", Measure: "m", Round: 3, Value: 0},
	}}
	if e := r.Ratio("", "b", "a", "m"); e.Rounds != 1 || e.Median != 2 {
		t.Errorf("%+v, want one round with 2", e)
	}
}
