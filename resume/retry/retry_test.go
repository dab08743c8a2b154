package retry_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"baton/resume/retry"
)

// script is failures, one a second, and what is decided after each.
type script struct {
	name    string
	policy  func(*retry.Policy)
	sources int
	steps   []step
}

type step struct {
	f           retry.Failure
	source      int
	least, most time.Duration
	giveUp      string
}

const ms = time.Millisecond

func TestSchedule(t *testing.T) {
	body := retry.Failure{Stage: retry.Body, Bytes: 1 << 20}
	out := func(source int) retry.Failure { return retry.Failure{Stage: retry.Handshake, Source: source} }
	head := func(source int) retry.Failure { return retry.Failure{Stage: retry.Head, Source: source} }
	tests := []script{
		{"a break is followed at once, where it was", nil, 2, []step{{f: body}, {f: body}, {f: body}}},
		{"no connection is an outage", nil, 1, []step{{f: out(0), giveUp: "no connection"}}},
		{"no connection after a break, too", nil, 1, []step{{f: body}, {f: out(0), giveUp: "no connection"}}},
		{"a mirror is no outage", nil, 2, []step{{f: out(0), source: 1}, {f: out(1), giveUp: "no connection"}}},
		{"bytes from one mirror end an outage of the other", nil, 2, []step{
			{f: out(0), source: 1}, {f: retry.Failure{Stage: retry.Body, Source: 1, Bytes: 5000}, source: 1}, {f: out(1), source: 0}, {f: out(0), giveUp: "no connection"}}},
		{"outages, if they are to be waited for", func(p *retry.Policy) { p.Outages = true }, 1, []step{
			{f: out(0)}, {f: out(0), least: 125 * ms, most: 250 * ms}, {f: out(0), least: 250 * ms, most: 500 * ms}}},
		{"what brings nothing is tried less and less often, in turn", nil, 2, []step{
			{f: head(0), source: 1}, {f: head(1), source: 0, least: 125 * ms, most: 250 * ms}, {f: head(0), source: 1, least: 250 * ms, most: 500 * ms}}},
		{"so many times", func(p *retry.Policy) { p.Tries = 2 }, 1, []step{
			{f: head(0)}, {f: head(0), least: 125 * ms, most: 250 * ms}, {f: head(0), giveUp: "3 consecutive tries"}}},
		{"never again", func(p *retry.Policy) { p.Tries = 0 }, 1, []step{{f: head(0), giveUp: "1 consecutive tries"}}},
		{"so long", func(p *retry.Policy) { p.Time = 2500 * ms }, 1, []step{
			{f: head(0)}, {f: head(0), least: 125 * ms, most: 250 * ms}, {f: head(0), least: 250 * ms, most: 500 * ms}, {f: head(0), giveUp: "nothing received for 2.5s"}}},
		{"bytes refill what tries have cost", func(p *retry.Policy) { p.Tries = 2 }, 1, []step{
			{f: head(0)}, {f: head(0), least: 125 * ms, most: 250 * ms}, {f: body}, {f: head(0), least: 125 * ms, most: 250 * ms}, {f: head(0), giveUp: "3 consecutive tries"}}},
		{"a byte at a time does not", func(p *retry.Policy) { p.Tries = 2 }, 1, []step{
			{f: retry.Failure{Stage: retry.Body, Bytes: 1}}, {f: retry.Failure{Stage: retry.Body, Bytes: 1}, most: 250 * ms},
			{f: retry.Failure{Stage: retry.Body, Bytes: 1}, giveUp: "tries"}}},
		{"a busy server's wish", nil, 1, []step{{f: retry.Failure{Stage: retry.Busy, After: 7 * time.Second}, least: 7 * time.Second, most: 7 * time.Second}}},
		{"a busy server's wish, and a mirror", nil, 2, []step{{f: retry.Failure{Stage: retry.Busy, After: 7 * time.Second}, source: 1}}},
		{"a wish beyond patience", nil, 1, []step{{f: retry.Failure{Stage: retry.Busy, After: time.Hour}, giveUp: "no mirror"}}},
		{"a wish beyond the time there is", func(p *retry.Policy) { p.Time = time.Second }, 1, []step{
			{f: retry.Failure{Stage: retry.Busy, After: 2 * time.Second}, giveUp: "nothing received"}}},
		{"a useless mirror is not asked again", nil, 2, []step{
			{f: retry.Failure{Stage: retry.Useless}, source: 1}, {f: head(1), source: 1, least: 125 * ms, most: 250 * ms},
			{f: retry.Failure{Stage: retry.Useless, Source: 1}, giveUp: "no mirror"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := retry.Default()
			if tt.policy != nil {
				tt.policy(&p)
			}
			s := retry.New(p, tt.sources, rand.New(rand.NewPCG(1, 2)).Float64)
			now := time.Unix(1000, 0)
			for i, step := range tt.steps {
				d := s.Failed(now, step.f)
				now = now.Add(time.Second)
				if (step.giveUp == "") != (d.GiveUp == "") || !strings.Contains(d.GiveUp, step.giveUp) {
					t.Fatalf("step %d: %+v, want to give up: %q", i, d, step.giveUp)
				}
				if d.GiveUp == "" && (d.Source != step.source || d.Wait < step.least || d.Wait > step.most) {
					t.Fatalf("step %d: %+v, want source %d after %s to %s", i, d, step.source, step.least, step.most)
				}
			}
		})
	}
}

// TestSpread: one break is followed at once; many in a short time by some chance, which costs little.
func TestSpread(t *testing.T) {
	for _, gap := range []time.Duration{100 * ms, time.Second, 5 * time.Second} {
		s := retry.New(retry.Default(), 1, rand.New(rand.NewPCG(1, 2)).Float64)
		now, waited := time.Unix(1000, 0), time.Duration(0)
		for i := range 50 {
			d := s.Failed(now, retry.Failure{Stage: retry.Body, Bytes: 1 << 20})
			if i < 7 && d.Wait != 0 {
				t.Errorf("a break every %s: break %d is followed after %s", gap, i, d.Wait)
			}
			waited += d.Wait
			now = now.Add(gap)
		}
		if share := float64(waited) / float64(50*gap); (gap < 2*time.Second) != (waited > 0) || share > 0.02 {
			t.Errorf("a break every %s: %s of waiting in all", gap, waited)
		}
	}
}

// TestBounded: whatever fails, a download that gets nothing ends.
func TestBounded(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		p := retry.Policy{Tries: random.IntN(10), First: ms, Most: time.Second, Patient: time.Minute, Outages: random.IntN(2) == 0}
		if random.IntN(2) == 0 {
			p.Time = time.Duration(random.IntN(100)) * time.Second
		}
		sources := 1 + random.IntN(4)
		s := retry.New(p, sources, random.Float64)
		now, at := time.Unix(1000, 0), 0
		for n := 0; ; n++ {
			d := s.Failed(now, retry.Failure{Stage: retry.Stage(random.IntN(5)), Source: at, Bytes: int64(random.IntN(100)), After: time.Duration(random.IntN(90)) * time.Second})
			if d.GiveUp != "" {
				break
			}
			if n > p.Tries+2 || d.Source < 0 || d.Source >= sources || d.Wait < 0 || d.Wait > time.Minute {
				t.Fatalf("%+v with %d sources: after %d failures %+v", p, sources, n, d)
			}
			now, at = now.Add(d.Wait), d.Source
			if random.IntN(8) == 0 { // the clock jumps
				now = now.Add(time.Duration(random.IntN(7200)-3600) * time.Second)
			}
		}
	}
}
