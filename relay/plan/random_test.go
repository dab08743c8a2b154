package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// world is a random question: relays on a line between the ends or anywhere, some measurements missing, some in one direction or two
// that differ.
func world(random *rand.Rand) Question {
	q := Question{
		Client: "c", Server: "s", RTTs: make(Matrix),
		Margin: 0.01 + random.Float64()/4, Near: time.Duration(1+random.IntN(5)) * time.Millisecond,
		Most: 1 + random.IntN(5), Gain: 1 + random.Float64()/4,
		Size: int64(math.Exp(random.Float64() * 18)), Start: 14600 << random.IntN(3),
	}
	q.Clouds = []Clouds{PreferOne, AnyCloud, OneCloud}[random.IntN(3)]
	names := []string{"c", "s"}
	for i := range 1 + random.IntN(8) {
		name := fmt.Sprintf("r%d", i)
		q.Relays, names = append(q.Relays, Relay{name, string(rune('x' + random.IntN(3)))}), append(names, name)
	}
	random.Shuffle(len(q.Relays), func(i, j int) { q.Relays[i], q.Relays[j] = q.Relays[j], q.Relays[i] })
	steps := 1 + random.IntN(200) // few different values: ties
	rtt := func(int, int) time.Duration { return time.Duration(1+random.IntN(steps)) * time.Millisecond }
	if random.IntN(2) == 0 {
		at := []int{0, 200}
		for range q.Relays {
			at = append(at, random.IntN(200))
		}
		rtt = func(i, j int) time.Duration { return time.Duration(1+max(at[i]-at[j], at[j]-at[i])) * time.Millisecond }
	}
	known := math.Sqrt(random.Float64())
	for i, a := range names {
		for j, b := range names[:i] {
			if random.Float64() < known {
				q.RTTs.Set(a, b, rtt(i, j))
			}
			if random.Float64() < known/4 {
				q.RTTs.Set(b, a, rtt(i, j))
			}
		}
	}
	return q
}

// chain is a way that the reference has looked at.
type chain struct {
	relays  []string
	outside time.Duration
	longest time.Duration // trunk
	trunks  time.Duration // their sum
}

// chains are all ways over at most most of the relays.
func chains(q *Question, relays []string, most int) []chain {
	var out []chain
	var extend func(c chain)
	extend = func(c chain) {
		last := c.relays[len(c.relays)-1]
		if rtt, ok := q.RTTs.RTT(last, q.Server); ok {
			done := c
			done.outside += rtt
			done.relays = slices.Clone(c.relays)
			out = append(out, done)
		}
		for _, next := range relays {
			rtt, ok := q.RTTs.RTT(last, next)
			if !ok || slices.Contains(c.relays, next) || len(c.relays) == most {
				continue
			}
			extend(chain{append(slices.Clone(c.relays), next), c.outside, max(c.longest, rtt), c.trunks + rtt})
		}
	}
	for _, first := range relays {
		if rtt, ok := q.RTTs.RTT(q.Client, first); ok {
			extend(chain{relays: []string{first}, outside: rtt})
		}
	}
	return out
}

// least is the first of the chains that fit by the numbers that key gives, and then by names.
func least(all []chain, fits func(chain) bool, key func(chain) []time.Duration) (chain, bool) {
	all = slices.DeleteFunc(slices.Clone(all), func(c chain) bool { return !fits(c) })
	if len(all) == 0 {
		return chain{}, false
	}
	return slices.MinFunc(all, func(a, b chain) int {
		if c := slices.Compare(key(a), key(b)); c != 0 {
			return c
		}
		return slices.Compare(a.relays, b.relays)
	}), true
}

// ruled is the rules of the package comment, word for word, over all ways among some relays.
func ruled(q *Question, relays []string) (chain, bool) {
	all := chains(q, relays, q.Most)
	two := func(c chain) bool { return len(c.relays) <= 2 }
	nearest, ok := least(all, two, func(c chain) []time.Duration { return []time.Duration{c.outside} })
	if !ok {
		return chain{}, false
	}
	best, _ := least(all, func(c chain) bool { return two(c) && c.outside <= nearest.outside+q.Near },
		func(c chain) []time.Duration {
			return []time.Duration{c.outside + c.trunks, time.Duration(len(c.relays))}
		})
	if len(best.relays) == 1 {
		return best, true
	}
	first, last := best.relays[0], best.relays[1]
	longest := best.longest
	for n := 3; n <= q.Most; n++ {
		c, _ := least(all, func(c chain) bool {
			return len(c.relays) <= n && c.relays[0] == first && c.relays[len(c.relays)-1] == last
		}, func(c chain) []time.Duration {
			return []time.Duration{c.longest, c.trunks, time.Duration(len(c.relays))}
		})
		if c.longest >= longest {
			continue
		}
		longest = c.longest
		gain := float64(best.longest) / float64(c.longest)
		if gain >= math.Pow(q.Gain, float64(len(c.relays)-len(best.relays))) && cost(q, c) <= cost(q, best) {
			best = c
		}
	}
	return best, true
}

// cost is how long Question.Size takes, leg by leg and flight by flight.
func cost(q *Question, c chain) time.Duration {
	nodes := slices.Concat([]string{q.Client}, c.relays, []string{q.Server})
	var sum, slowest, first, last time.Duration
	for i := range nodes[1:] {
		rtt, _ := q.RTTs.RTT(nodes[i], nodes[i+1])
		flight := q.Start
		if i == 0 || i == len(nodes)-2 {
			flight = q.Window
		}
		var took time.Duration
		for left := q.Size - flight; left > 0; left -= flight {
			flight *= 2
			took += rtt
		}
		if i == 0 {
			first = rtt
		}
		last, sum, slowest = rtt, sum+rtt, max(slowest, took)
	}
	return sum + max(first, last) + slowest
}

func TestChooseAgainstAllRoutes(t *testing.T) {
	random := seeded(t)
	kinds := make(map[int]int) // by relays
	for range 2000 {
		q := world(random).withDefaults()
		clouds := make(map[string]string)
		names := make(map[string][]string)
		for _, r := range q.Relays {
			clouds[r.Name] = r.Cloud
			names[r.Cloud] = append(names[r.Cloud], r.Name)
			names["all"] = append(names["all"], r.Name)
		}
		mixed := func(c chain) bool {
			return slices.ContainsFunc(c.relays, func(r string) bool { return clouds[r] != clouds[c.relays[0]] })
		}
		var one, many []chain
		for _, relays := range names {
			c, ok := ruled(&q, relays)
			switch {
			case !ok:
			case mixed(c):
				many = append(many, c)
			default:
				one = append(one, c)
			}
		}
		anyOf := func(chain) bool { return true }
		key := func(c chain) []time.Duration {
			return []time.Duration{cost(&q, c), c.outside + c.trunks, time.Duration(len(c.relays))}
		}
		want, ok := least(one, anyOf, key)
		if m, found := least(many, anyOf, key); found && q.Clouds != OneCloud {
			switch {
			case !ok:
				want, ok = m, true
			case q.Clouds == AnyCloud:
				want, _ = least([]chain{want, m}, anyOf, key)
			case float64(cost(&q, m))*(1+q.Margin) <= float64(cost(&q, want)):
				want = m
			}
		}
		p, err := Choose(q)
		if err != nil {
			t.Fatal(err)
		}
		if via(p) != strings.Join(want.relays, " ") || ok != (p.Route != nil) {
			t.Fatalf("%q, the rules say %q\n%+v\n%s", via(p), want.relays, q, p)
		}
		if ok && p.Route.Times.size != cost(&q, want) {
			t.Fatalf("%s for %d bytes, the reference says %s", p.Route.Times.size, q.Size, cost(&q, want))
		}
		kinds[len(want.relays)]++
	}
	t.Logf("routes by number of relays: %v", kinds)
	for n := range 5 {
		if kinds[n] == 0 {
			t.Errorf("no world had a route of %d relays: the test looks in the wrong place", n)
		}
	}
}

// TestSameAnswer: neither the order of the relays nor of a map decides anything.
func TestSameAnswer(t *testing.T) {
	random := seeded(t)
	for range 300 {
		q := world(random)
		want := choose(t, q)
		q.Relays = slices.Clone(q.Relays)
		random.Shuffle(len(q.Relays), func(i, j int) { q.Relays[i], q.Relays[j] = q.Relays[j], q.Relays[i] })
		if diff := cmp.Diff(want.String(), choose(t, q).String()); diff != "" {
			t.Fatalf("another answer to the same question (-first +second):\n%s", diff)
		}
	}
}

// TestPlanIsWhole: what every plan promises.
func TestPlanIsWhole(t *testing.T) {
	random := seeded(t)
	for range 2000 {
		q := world(random)
		p := choose(t, q)
		routes := slices.Clone(p.Others)
		if p.Route != nil {
			routes = append(routes, Candidate{Route: *p.Route, Not: "-"})
		}
		seen := make(map[string]bool)
		for _, r := range routes {
			name := strings.Join(r.Relays, " ")
			if seen[name] || r.Not == "" || r.Why == "" {
				t.Fatalf("route %q: twice %v, why %q, not %q\n%s", name, seen[name], r.Why, r.Not, p)
			}
			seen[name] = true
			var sum Span
			for _, l := range r.Legs {
				rtt, ok := q.RTTs.RTT(l.From, l.To)
				if !ok || Span(rtt) != l.RTT {
					t.Fatalf("leg %s to %s is %v, known %v", l.From, l.To, rtt, ok)
				}
				sum += l.RTT
			}
			if sum != r.Times.RTT || r.Times.New < r.Times.Warm || len(r.Legs) != len(r.Relays)+1 || !slices.IsSorted(r.Times.Sizes) {
				t.Fatalf("route %q: %+v", name, r)
			}
		}
		for _, m := range p.Missing {
			if _, ok := q.RTTs.RTT(m.From, m.To); ok {
				t.Fatalf("%s to %s is told to be missing", m.From, m.To)
			}
		}
		_, direct := q.RTTs.RTT("c", "s")
		if direct != (p.Direct != nil) || (p.Use == UseNone) != (p.Route == nil && !direct) {
			t.Fatalf("use %s, direct known %v:\n%s", p.Use, direct, p)
		}
	}
}

// TestLasts: slow start, flight by flight, and the closed form of it.
func TestLasts(t *testing.T) {
	random := seeded(t)
	for range 2000 {
		h := hop{rtt: time.Duration(1 + random.IntN(3e8)), start: 1 + int64(random.IntN(1e5))}
		size := int64(math.Exp(random.Float64() * 22))
		rounds := math.Ceil(math.Log2(float64(size)/float64(h.start)+1)) - 1
		if got := float64(h.lasts(size)) / float64(h.rtt); math.Abs(got-max(0, rounds)) > 1e-6 {
			t.Fatalf("%d bytes from %d on last %g round trips, want %g", size, h.start, got, rounds)
		}
		h.rate = math.Exp(random.Float64() * 20)
		slow := h.lasts(size)
		if h.rate *= 2; h.lasts(size) > slow+time.Microsecond {
			t.Fatalf("%d bytes at %g/s last %s, at half the rate %s", size, h.rate, h.lasts(size), slow)
		}
	}
	full := hop{rtt: 100 * time.Millisecond, start: 14600, rate: 1.25e7} // 100 Mbit/s: full after 7 flights, 1,854,200 bytes
	if got, want := full.lasts(1e8), 700*time.Millisecond+seconds((1e8-1854200)/1.25e7); got != want {
		t.Errorf("100 MB last %s, want %s", got, want)
	}
}

func TestManyRelays(t *testing.T) {
	random := seeded(t)
	q := Question{Client: "c", Server: "s", RTTs: make(Matrix), Most: mostHops, Gain: 1}
	var names []string
	for i := range mostRelays {
		names = append(names, fmt.Sprintf("r%03d", i))
		q.Relays = append(q.Relays, Relay{Name: names[i]})
	}
	names = append(names, "c", "s")
	for i, a := range names {
		for _, b := range names[:i] {
			q.RTTs.Set(a, b, time.Duration(1+random.IntN(2e8)))
		}
	}
	if p := choose(t, q); p.Route == nil || len(p.Route.Relays) > mostHops {
		t.Errorf("%d relays:\n%s", mostRelays, p)
	}
}
