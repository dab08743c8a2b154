package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"baton/policy"
)

// one has a site with so many surrogates, and more keys of the policy.
func one(t testing.TB, surrogates int, more string) *policy.Policy {
	t.Helper()
	var b strings.Builder
	for i := range surrogates {
		fmt.Fprintf(&b, "s%d: {weight: %d}, ", i, 1+i%3)
	}
	return parse(t, "sites: {a: {surrogates: {"+b.String()+"}}}\n"+more)
}

const objects = 6000

// placed returns the surrogates of many objects, for one client.
func placed(s *policy.State) []string {
	out := make([]string, objects)
	var d policy.Decision
	for i := range out {
		q := policy.Query{Client: client("10.0.0.1"), Host: "cdn.example.org", Path: fmt.Sprintf("/gallery/%d.jpg", i)}
		if s.Decide(&q, &d); len(d.Choices) > 0 {
			out[i] = d.Choices[0].Surrogate.Name
		}
	}
	return out
}

// TestDisruption: when a surrogate goes, its objects alone move, and they spread over all others; when it is back they are, too.
func TestDisruption(t *testing.T) {
	p := one(t, 10, "")
	before := placed(p.State(nil, nil, nil))
	for gone := range 10 {
		name := fmt.Sprintf("s%d", gone)
		after := placed(p.State(nil, map[string]policy.Observed{name: {Down: true}}, nil))
		took := make(map[string]int)
		for i := range before {
			switch {
			case before[i] == name:
				took[after[i]]++
			case before[i] != after[i]:
				t.Fatalf("without %s object %d moves from %s to %s", name, i, before[i], after[i])
			}
		}
		if took[name] > 0 || len(took) != 9 {
			t.Errorf("the objects of %s went to %v", name, took)
		}
	}
	half := 1
	less := placed(p.State(nil, map[string]policy.Observed{"s2": {Weight: &half}}, nil)) // of 3
	for i := range before {
		if before[i] != less[i] && before[i] != "s2" {
			t.Fatalf("with less weight of s2 object %d moves from %s to %s", i, before[i], less[i])
		}
	}
}

// TestWeights: each spread holds the weights.
func TestWeights(t *testing.T) {
	for _, spread := range []string{"object", "client", "key", "weight", "object\ndispersion: 3"} {
		t.Run(spread, func(t *testing.T) {
			s := one(t, 10, "spread: "+spread).State(nil, nil, nil)
			r := rand.New(rand.NewPCG(3, 4))
			count, sum := make(map[string]int), 19
			var d policy.Decision
			for i := range objects {
				q := policy.Query{Client: policy.Whole(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1})), Path: fmt.Sprintf("/%d", i),
					Sticky: fmt.Sprintf("key %d", i), Random: r.Uint64()}
				s.Decide(&q, &d)
				count[d.Choices[0].Surrogate.Name]++
			}
			for i := range 10 {
				name, want := fmt.Sprintf("s%d", i), float64(objects*(1+i%3))/float64(sum)
				bound := 5 * math.Sqrt(want) // five standard deviations
				if strings.Contains(spread, "dispersion") {
					bound = 0.35 * want // sharing brings the shares closer to each other
				}
				if got := float64(count[name]); math.Abs(got-want) > bound {
					t.Errorf("%s has %.0f, want %.0f", name, got, want)
				}
			}
		})
	}
}

// TestSticky: what is the key of a spread decides alone.
func TestSticky(t *testing.T) {
	tests := []struct {
		name, more string
		a, b       policy.Query
	}{
		{"object, from anywhere", "", policy.Query{Client: client("10.0.0.1"), Path: "/a"}, policy.Query{Client: client("192.0.2.1"), Path: "/a", Random: 7, Sticky: "x"}},
		{"host in another form", "", policy.Query{Host: "CDN.example.org:80", Path: "/a"}, policy.Query{Host: "cdn.example.org.", Path: "/a"}},
		{"query in another order", "query: [v, size]", policy.Query{Path: "/a", RawQuery: "size=1&v=2"}, policy.Query{Path: "/a", RawQuery: "t=9&v=2&size=%31"}},
		{"query that does not count", "", policy.Query{Path: "/a", RawQuery: "size=1"}, policy.Query{Path: "/a", RawQuery: "size=2"}},
		{"clients of a network", "spread: client", policy.Query{Client: client("10.0.0.1"), Path: "/a"}, policy.Query{Client: client("10.0.0.200"), Path: "/b"}},
		{"clients of a wider network", "spread: client\nsticky_prefix: {ipv4: 8}", policy.Query{Client: client("10.0.0.1")}, policy.Query{Client: client("10.200.0.200")}},
		{"clients of an IPv6 network", "spread: client", policy.Query{Client: client("2001:db8::1")}, policy.Query{Client: client("2001:db8::ffff:0:1")}},
		{"key", "spread: key", policy.Query{Client: client("10.0.0.1"), Sticky: "k"}, policy.Query{Client: client("192.0.2.1"), Sticky: "k"}},
		{"client for want of a key", "spread: key", policy.Query{Client: client("10.0.0.1")}, policy.Query{Client: client("10.0.0.2")}},
		{"shared object, same client", "dispersion: 4", policy.Query{Client: client("10.0.0.1"), Path: "/a"}, policy.Query{Client: client("10.0.0.2"), Path: "/a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := one(t, 50, tt.more).State(nil, nil, nil)
			a, b := s.Explain(&tt.a), s.Explain(&tt.b)
			if !slices.Equal(names(&a), names(&b)) {
				t.Errorf("%v and %v", names(&a)[:3], names(&b)[:3])
			}
		})
	}
}

// TestSpreadOut: what is a part of an object's name, or of a client's, spreads requests.
func TestSpreadOut(t *testing.T) {
	for name, tt := range map[string]struct {
		more  string
		query func(i int) policy.Query
	}{
		"query":  {"query: [size]", func(i int) policy.Query { return policy.Query{Path: "/a", RawQuery: fmt.Sprintf("size=%d", i)} }},
		"path":   {"", func(i int) policy.Query { return policy.Query{Path: fmt.Sprint("/", i)} }},
		"host":   {"", func(i int) policy.Query { return policy.Query{Host: fmt.Sprintf("h%d.example.org", i), Path: "/a"} }},
		"client": {"spread: client", func(i int) policy.Query { return policy.Query{Client: client(fmt.Sprintf("10.0.%d.1", i))} }},
		"key":    {"spread: key", func(i int) policy.Query { return policy.Query{Sticky: fmt.Sprint(i)} }},
	} {
		s := one(t, 50, tt.more).State(nil, nil, nil)
		seen := make(map[string]bool)
		for i := range 50 {
			q := tt.query(i)
			seen[names(new(s.Explain(&q)))[0]] = true
		}
		if len(seen) < 20 {
			t.Errorf("%s: 50 requests are at %d surrogates", name, len(seen))
		}
	}
}

// TestDispersion: an object is at so many surrogates, and all of them serve it.
func TestDispersion(t *testing.T) {
	s := one(t, 20, "dispersion: 4").State(nil, nil, nil)
	for object := range 20 {
		seen := make(map[string]bool)
		for i := range 200 {
			q := policy.Query{Client: policy.Whole(netip.AddrFrom4([4]byte{10, 0, byte(i), 1})), Path: fmt.Sprintf("/%d", object)}
			seen[names(new(s.Explain(&q)))[0]] = true
		}
		if len(seen) != 4 {
			t.Errorf("object %d is at %d surrogates, want 4", object, len(seen))
		}
	}
}

// TestNeverWhatCannotServe decides for random policies and states, and looks at each choice.
func TestNeverWhatCannotServe(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	refused, spilt := 0, 0
	for range 300 {
		p, seen, full := randomPolicy(t, r)
		s := p.State(nil, seen, nil)
		for i := range 20 {
			q := policy.Query{Client: policy.Whole(netip.AddrFrom4([4]byte{10, byte(r.IntN(6)), 0, 1})), Path: fmt.Sprint("/", i), Want: r.IntN(4), Random: r.Uint64()}
			d := s.Explain(&q)
			if again := s.Explain(&q); !slices.Equal(names(&d), names(&again)) || !slices.Equal(d.Because, again.Because) {
				t.Fatalf("one question, two answers: %v, %v", names(&d), names(&again))
			}
			spilt += min(d.Spills, 1)
			if len(d.Choices) == 0 {
				refused++
			}
			for _, c := range d.Choices {
				if !can(c.Site, c.Surrogate, seen, full) {
					t.Fatalf("%s of %s cannot serve, and shall: %v", c.Surrogate.Name, c.Site.Name, d.Because)
				}
			}
			if len(d.Choices) == 0 && anyCan(p, seen, full) {
				t.Fatalf("somebody can serve, and nobody shall: %v", d.Because)
			}
		}
	}
	if refused == 0 || spilt == 0 {
		t.Errorf("%d refused, %d spilt: the test sees too little", refused, spilt)
	}
}

func anyCan(p *policy.Policy, seen map[string]policy.Observed, full map[string]bool) bool {
	for _, site := range p.Config().Sites {
		for i := range site.Surrogates {
			if can(&site, &site.Surrogates[i], seen, full) {
				return true
			}
		}
	}
	return false
}

func can(site *policy.Site, u *policy.Surrogate, seen map[string]policy.Observed, full map[string]bool) bool {
	o, weight, maintenance := seen[u.Name], u.Weight, u.Maintenance
	if o.Maintenance != nil {
		maintenance = *o.Maintenance
	}
	if o.Weight != nil {
		weight = *o.Weight
	}
	return !site.Maintenance && !full[site.Name] && !maintenance && !o.Down && weight > 0
}

func randomPolicy(t *testing.T, r *rand.Rand) (*policy.Policy, map[string]policy.Observed, map[string]bool) {
	t.Helper()
	spreads := []policy.Spread{policy.ByObject, policy.ByClient, policy.ByKey, policy.ByWeight, policy.ByNearest, policy.ByLoad}
	cfg := policy.Config{Default: "site0", Rules: policy.Rules{Spread: spreads[r.IntN(len(spreads))], Dispersion: r.IntN(4)}}
	seen, full := make(map[string]policy.Observed), make(map[string]bool)
	for i := range 1 + r.IntN(4) {
		site := policy.Site{Name: fmt.Sprint("site", i), Capacity: r.IntN(3) * 10, Maintenance: r.IntN(6) == 0,
			Clients: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16)}}
		sessions := 0
		for j := range r.IntN(4) {
			u := policy.Surrogate{Name: fmt.Sprintf("s%d-%d", i, j), Weight: r.IntN(4), Maintenance: r.IntN(6) == 0}
			o := policy.Observed{Down: r.IntN(3) == 0, Sessions: r.IntN(10)}
			if r.IntN(3) == 0 {
				o.Maintenance = new(r.IntN(2) == 0)
			}
			if r.IntN(3) == 0 {
				o.Weight = new(r.IntN(3))
			}
			site.Surrogates, seen[u.Name] = append(site.Surrogates, u), o
			sessions += o.Sessions
		}
		full[site.Name] = site.Capacity > 0 && sessions >= site.Capacity
		cfg.Sites = append(cfg.Sites, site)
	}
	p, err := policy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p, seen, full
}

// TestSteering: sites get the share of their weight; a client stays at its site when another one's weight shrinks, and objects do not matter.
func TestSteering(t *testing.T) {
	steered := func(b int) *policy.State {
		return parse(t, fmt.Sprintf("sites: {a: {surrogates: {s1: , s2: }}, b: {surrogates: {s3: }}, c: {surrogates: {s4: }}}\ndefault: c\nsteer: {a: 3, b: %d}", b)).State(nil, nil, nil)
	}
	more, less := steered(3), steered(1)
	count := make(map[string]int)
	for i := range objects {
		q := policy.Query{Client: policy.Whole(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1})), Path: fmt.Sprint("/", i)}
		before, after := more.Explain(&q), less.Explain(&q)
		count[after.Site.Name]++
		if before.Site.Name != after.Site.Name && before.Site.Name != "b" {
			t.Fatalf("%v moves from %s to %s", q.Client, before.Site.Name, after.Site.Name)
		}
		if after.Scope < 24 || after.Method != policy.BySteering {
			t.Fatalf("scope %d by %s", after.Scope, after.Method)
		}
		q.Path = "/another"
		if other := less.Explain(&q); other.Site != after.Site {
			t.Fatalf("another object is at %s", other.Site.Name)
		}
	}
	if want := objects / 4.0; math.Abs(float64(count["b"])-want) > 5*math.Sqrt(want) || count["c"] > 0 {
		t.Errorf("%v, want %.0f at b", count, want)
	}
}

// TestOrderOfConfiguration: hosts whose configurations list surrogates in another order decide alike.
func TestOrderOfConfiguration(t *testing.T) {
	a := parse(t, "sites: {x: {surrogates: {s1: , s2: , s3: }}}").State(nil, nil, nil)
	b := parse(t, "sites: {x: {surrogates: {s3: , s1: , s2: }}}").State(nil, nil, nil)
	if !reflect.DeepEqual(placed(a), placed(b)) {
		t.Error("they differ")
	}
}

// TestRanked: a controller that tells an order only.
func TestRanked(t *testing.T) {
	prefix := netip.MustParsePrefix("10.0.0.0/24")
	order := []string{"s2", "s0", "s1"}
	s := one(t, 4, "spread: nearest").State(nil, nil, []policy.Measured{policy.Ranked(prefix, order)})
	if d := s.Explain(&policy.Query{Client: client("10.0.0.1")}); !slices.Equal(names(&d), append(order, "s3")) || d.Scope < 24 {
		t.Errorf("%v, scope %d", names(&d), d.Scope)
	}
}

func TestDecideAllocates(t *testing.T) {
	s := one(t, 16, "query: [size]\nservices: [{hosts: ['*.example.org'], dispersion: 2, query: [size]}]").State(nil, nil, nil)
	q := policy.Query{Client: client("10.0.0.1"), Host: "cdn.example.org", Path: "/a.jpg", RawQuery: "t=1&size=2"}
	var d policy.Decision
	s.Decide(&q, &d)
	if n := testing.AllocsPerRun(100, func() { s.Decide(&q, &d) }); n > 0 {
		t.Errorf("a decision allocates %v times", n)
	}
	q.Client = netip.MustParsePrefix("::ffff:10.0.0.1/128")
	if n := testing.AllocsPerRun(100, func() { s.Decide(&q, &d) }); n > 1 {
		t.Errorf("a decision for an address in another form allocates %v times", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	s := parse(b, two+"query: [size]").State(nil, nil, nil)
	q := policy.Query{Client: client("10.11.0.7"), Host: "cdn.example.org", Path: "/gallery/a.jpg", RawQuery: "size=2"}
	b.Run("decide", func(b *testing.B) {
		var d policy.Decision
		b.ReportAllocs()
		for b.Loop() {
			s.Decide(&q, &d)
		}
	})
	b.Run("explain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Explain(&q)
		}
	})
}
