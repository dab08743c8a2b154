package plan

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// rtts reads "a b 25" lines, in milliseconds.
func rtts(t testing.TB, lines string) Matrix {
	t.Helper()
	m := make(Matrix)
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		d, err := time.ParseDuration(f[2] + "ms")
		if err != nil {
			t.Fatal(err)
		}
		m.Set(f[0], f[1], d)
	}
	return m
}

// in are relays of one cloud.
func in(cloud, names string) []Relay {
	var out []Relay
	for _, name := range strings.Fields(names) {
		out = append(out, Relay{name, cloud})
	}
	return out
}

func choose(t testing.TB, q Question) *Plan {
	t.Helper()
	if q.Client == "" {
		q.Client, q.Server = "c", "s"
	}
	p, err := Choose(q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// via are the relays of a plan, "" when it has none.
func via(p *Plan) string {
	if p.Route == nil {
		return ""
	}
	return strings.Join(p.Route.Relays, " ")
}

const line = `
	c a 10
	a s 90
	c b 90
	b s 10
	a b 80
	m a 40
	m b 40
	m c 50
	m s 50
	c s 110`

const near = "c a 10 \n a s 10.6 \n c b 10.3 \n b s 10 \n a b 5 \n c s 40"

func TestChoose(t *testing.T) {
	tests := []struct {
		name     string
		rtts     string
		question Question
		want     string
		use      Use
	}{
		{"nearest to each end", line, Question{Relays: in("x", "a b")}, "a b", UseRelays},
		{"one that divides the trunk", line, Question{Relays: in("x", "a b m")}, "a m b", UseRelays},
		{"two at most", line, Question{Relays: in("x", "a b m"), Most: 2}, "a b", UseRelays},
		{"more gain is wanted", line, Question{Relays: in("x", "a b m"), Gain: 2.1}, "a b", UseRelays},
		{"one at most", line, Question{Relays: in("x", "a b m"), Most: 1}, "a", UseRelays},
		{"nearest to both ends", "c a 10 \n a s 100 \n c b 60 \n b s 110 \n a b 50 \n c s 130", Question{Relays: in("x", "a b")}, "a", UseRelays},
		{"equally near: the shorter way", near, Question{Relays: in("x", "a b")}, "b", UseRelays},
		{"nearer counts", near, Question{Relays: in("x", "a b"), Near: 1}, "a b", UseRelays},
		{"the nearest are not joined", "c a 10 \n c b 20 \n b s 10 \n d s 5 \n d b 70",
			Question{Relays: in("x", "a b d")}, "b d", UseRelays},
		{"a further relay is a detour", `
			c a 10
			a b 100
			b s 10
			a m 70
			m b 70
			c s 900`, Question{Relays: in("x", "a b m"), Start: 1e6}, "a b", UseRelays},
		{"the first name", "c a 10 \n c b 10 \n a s 10 \n b s 10 \n a b 1 \n c s 99", Question{Relays: in("x", "b a")}, "a", UseRelays},
		{"no relay is near both ends", "c a 10 \n b s 10 \n c s 50", Question{Relays: in("x", "a b")}, "", UseDirect},
		{"nothing is known", "a b 3", Question{Relays: in("x", "a b")}, "", UseNone},
		{"direct is not known", "c a 10 \n a s 10", Question{Relays: in("x", "a")}, "a", UseRelays},
		{"direct is better", "c a 10 \n a s 10 \n c s 5", Question{Relays: in("x", "a")}, "a", UseDirect},
		{"direct is a little worse", "c a 10 \n a s 10 \n c s 15.1", Question{Relays: in("x", "a"), Size: 1}, "a", UseRelays},
		{"direct wins a tie", "c a 10 \n a s 10 \n c s 15", Question{Relays: in("x", "a"), Size: 1}, "a", UseDirect},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.question.RTTs = rtts(t, tt.rtts)
			p := choose(t, tt.question)
			if via(p) != tt.want || p.Use != tt.use {
				t.Errorf("%q, use %s, want %q, use %s:\n%s", via(p), p.Use, tt.want, tt.use, p)
			}
		})
	}
}

// TestClouds: a1 b1 are of cloud x, a2 b2 of y; over a1 b2 it is faster than over either.
func TestClouds(t *testing.T) {
	m := rtts(t, `
		c  a1 10
		b1 s  40
		a1 b1 80
		c  a2 40
		b2 s  10
		a2 b2 80
		a1 b2 80
		c  b1 300
		a1 s  300
		c  b2 300
		a2 s  300
		a2 b1 80
		c  s  900`)
	relays := append(in("x", "a1 b1"), in("y", "a2 b2")...)
	tests := []struct {
		name     string
		question Question
		want     string
		not      string // what the reason of the fastest of the others begins with
	}{
		{"prefer, enough gain", Question{}, "a1 b2", "it takes 60.0 ms more"},
		{"prefer, too little gain", Question{Margin: 0.6}, "a1 b1", "it mixes clouds and is only faster by 54.5 %, but 60 % is required"},
		{"any", Question{Clouds: AnyCloud, Margin: 0.5}, "a1 b2", "it takes 60.0 ms more"},
		{"one", Question{Clouds: OneCloud}, "a1 b1", "it mixes clouds"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.question.RTTs, tt.question.Relays, tt.question.Size = m, relays, 1
			p := choose(t, tt.question)
			if via(p) != tt.want {
				t.Errorf("%q, want %q:\n%s", via(p), tt.want, p)
			}
			if len(p.Others) == 0 || !strings.HasPrefix(p.Others[0].Not, tt.not) {
				t.Errorf("want the fastest of the others not chosen since %q...:\n%s", tt.not, p)
			}
		})
	}
}

// TestPaper: the three legs of section 3.3 as research has them, 25, 215 and 25 ms: 290 ms to the first byte, 265 on a warm connection.
func TestPaper(t *testing.T) {
	p := choose(t, Question{
		Client: "san-francisco", Server: "bangalore", Relays: in("gcp", "oregon mumbai"),
		RTTs: rtts(t, "san-francisco oregon 25 \n oregon mumbai 215 \n mumbai bangalore 25 \n san-francisco bangalore 265"),
	})
	if got := p.Route.Times; got.New != Span(290*time.Millisecond) || got.Warm != Span(265*time.Millisecond) || got.RTT != got.Warm {
		t.Errorf("%s, want 290 ms and 265 ms", &got)
	}
	if got := p.Direct; got.New != Span(530*time.Millisecond) || got.Warm != Span(265*time.Millisecond) {
		t.Errorf("%s directly, want 530 ms and 265 ms", got)
	}
}

func TestMissing(t *testing.T) {
	p := choose(t, Question{Relays: in("x", "a b d"), RTTs: rtts(t, "c a 10 \n c b 20 \n b s 10 \n d s 5 \n d b 70 \n d c 90")})
	want := []Missing{
		{"a", "b", "the two are 20.0 ms away from the ends"},
		{"a", "d", "the two are 15.0 ms away from the ends"},
		{"a", "s", "whether the relay is near to the server"},
		{"c", "s", "whether relays are faster than the direct path"},
	}
	if diff := cmp.Diff(want, p.Missing); diff != "" {
		t.Errorf("Missing (-want +got):\n%s", diff)
	}
}

func TestRTTOfBothDirections(t *testing.T) {
	m := rtts(t, "a b 30 \n b a 20 \n a c 10")
	for _, tt := range []struct {
		a, b string
		want time.Duration
	}{{"a", "b", 20}, {"b", "a", 20}, {"a", "c", 10}, {"c", "a", 10}, {"b", "c", 0}, {"a", "a", 0}} {
		got, ok := m.RTT(tt.a, tt.b)
		if got != tt.want*time.Millisecond || ok != (tt.want > 0) {
			t.Errorf("RTT(%s, %s) = %s, %v, want %d ms", tt.a, tt.b, got, ok, tt.want)
		}
	}
}

func TestRefused(t *testing.T) {
	m := rtts(t, "c a 10 \n a s 10")
	a := in("x", "a")
	tests := []struct {
		name     string
		question Question
		want     string
	}{
		{"same ends", Question{Client: "c", Server: "c", Relays: a}, `plan: client and server are both "c"`},
		{"no relays", Question{Client: "c", Server: "s"}, "plan: there are no relays"},
		{"too many", Question{Client: "c", Server: "s", Relays: make([]Relay, 257)}, "plan: 257 relays are too many (at most 256)"},
		{"twice", Question{Client: "c", Server: "s", Relays: in("x", "a a")}, `plan: relay "a" appears twice`},
		{"an end", Question{Client: "c", Server: "a", Relays: a}, `plan: "a" is a relay and an end point`},
		{"rate", Question{Client: "c", Server: "s", Relays: a, Rates: map[Pair]float64{{"s", "a"}: -1, {"x", "y"}: -2}},
			"plan: rate s to a: -1 bytes per second is invalid"},
		{"rtt", Question{Client: "c", Server: "s", Relays: a, RTTs: Matrix{{"c", "b"}: 0, {"c", "a"}: -1, {"d", "a"}: 0}},
			"plan: round-trip time c to a: -1ns is invalid (more than 0, at most 1m0s)"},
		{"unit", Question{Client: "c", Server: "s", Relays: a, RTTs: Matrix{{"c", "a"}: time.Hour}},
			"plan: round-trip time c to a: 1h0m0s is invalid (more than 0, at most 1m0s)"},
		{"clouds", Question{Client: "c", Server: "s", Relays: a, Clouds: "all"}, `plan: clouds "all": want one of prefer, any, one`},
		{"margin", Question{Client: "c", Server: "s", Relays: a, Margin: -1}, "plan: margin -1: want 0 to 10"},
		{"near", Question{Client: "c", Server: "s", Relays: a, Near: -1}, "plan: near -1ns: want 0 to 1m0s"},
		{"most", Question{Client: "c", Server: "s", Relays: a, Most: 9}, "plan: at most 9 relays: want 1 to 8"},
		{"gain", Question{Client: "c", Server: "s", Relays: a, Gain: 0.5}, "plan: gain 0.5: want 1 to 1000"},
		{"size", Question{Client: "c", Server: "s", Relays: a, Sizes: []int64{5, -1}}, "plan: -1 bytes: want more than 0"},
		{"sizes", Question{Client: "c", Server: "s", Relays: a, Sizes: make([]int64, 33)}, "plan: 33 sizes are too many (at most 32)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.question.RTTs == nil {
				tt.question.RTTs = m
			}
			p, err := Choose(tt.question)
			if err == nil || err.Error() != tt.want || p != nil {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	p := choose(t, Question{
		Relays: append(in("x", "a b"), in("", "m")...), RTTs: rtts(t, line+"\n n c 3"), Margin: 0.5, Size: 1e4, Sizes: []int64{1e4, 25e5},
	})
	want := `
from c to s: via a, b
  10 kB takes 110 ms over the relays, 220 ms directly

   RELAYS  CLOUDS  LEGS               RTT      NEW     WARM     10 kB   2.5 MB   WHY
*  a b     x       10 + 80 + 10 ms    100 ms   110 ms  100 ms   110 ms  670 ms   nearest to each end
   a m b   x  x    10 + 40 + 40 + 10 ms  100 ms  110 ms  100 ms  110 ms  390 ms  not: it takes 0.0 ms more for 10 kB
   m       -       50 + 50 ms         100 ms   150 ms  100 ms   150 ms  500 ms   not: it takes 40.0 ms more for 10 kB
   -       -       110 ms             110 ms   220 ms  110 ms   220 ms  990 ms
`
	if diff := cmp.Diff(squeeze(want), squeeze(p.String())); diff != "" {
		t.Errorf("String (-want +got):\n%s", diff)
	}
	p = choose(t, Question{Relays: in("x", "a"), RTTs: rtts(t, "c a 10"), Sizes: []int64{1}})
	want = `
from c to s: unknown
  no path from one end to the other is measured

  RELAYS CLOUDS LEGS RTT NEW WARM 1 B WHY

not measured:
  a to s  whether the relay is near to the server
  c to s  whether relays are faster than the direct path
`
	if diff := cmp.Diff(squeeze(want), squeeze(p.String())); diff != "" {
		t.Errorf("String (-want +got):\n%s", diff)
	}
}

// squeeze leaves out how wide columns are.
func squeeze(s string) string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(s)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func TestOtherwise(t *testing.T) {
	q := Question{Relays: in("x", "a"), RTTs: rtts(t, "c a 60 \n a s 60 \n c s 80"), Sizes: []int64{1e4, 1e5, 1e6, 1e7}}
	for _, tt := range []struct {
		size int64
		use  Use
		want string
	}{
		{1e6, UseRelays, "; direct would be faster for the first byte and 10 kB"},
		{1e3, UseDirect, "; relays would be faster for 100 kB, 1 MB and 10 MB"},
	} {
		q.Size = tt.size
		if p := choose(t, q); p.Use != tt.use || !strings.HasSuffix(p.Why, tt.want) {
			t.Errorf("%s: %s, want %s: ...%s", p.Use, p.Why, tt.use, tt.want)
		}
	}
}

func TestJSON(t *testing.T) {
	p := choose(t, Question{
		Relays: in("x", "a"), RTTs: rtts(t, "c a 10.0004 \n a s 20"), Rates: map[Pair]float64{{"s", "a"}: 1e6}, Size: 1, Sizes: []int64{1},
	})
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"client":"c","server":"s","use":"relays","why":"the direct path is not measured","route":{"relays":["a"],"clouds":["x"],` +
		`"legs":[{"from":"c","to":"a","rtt_ms":10},{"from":"a","to":"s","rtt_ms":20,"rate":1000000}],"longest_ms":0,` +
		`"times":{"rtt_ms":30,"new_ms":50,"warm_ms":30,"sizes_ms":[50.001]},"why":"nearest to both ends"},` +
		`"missing":[{"from":"c","to":"s","why":"whether relays are faster than the direct path"}],"size":1,"sizes":[1]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}
