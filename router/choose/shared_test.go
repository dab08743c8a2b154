package choose

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"baton/packet/hello"
	"baton/policy"
	"baton/policy/policytest"
	"baton/router/config"
	"baton/router/head"
)

// sharedPool is a pool of surrogates of a policy, under names of its own.
func sharedPool(t *testing.T, cfg policy.Config) *config.Pool {
	t.Helper()
	p, err := policy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pool := &config.Pool{Name: "p", Policy: config.FromFile, Shared: &config.Shared{Policy: p}}
	for _, site := range cfg.Sites {
		for _, u := range site.Surrogates {
			pool.Surrogates = append(pool.Surrogates, config.Surrogate{Name: "near/" + u.Name, Weight: 1})
		}
	}
	return pool
}

func site(name string, surrogates ...string) policy.Site {
	s := policy.Site{Name: name}
	for _, u := range surrogates {
		s.Surrogates = append(s.Surrogates, policy.Surrogate{Name: u, Weight: 1})
	}
	return s
}

func TestSharedTables(t *testing.T) {
	two := policy.Config{Sites: []policy.Site{site("a", "a1", "a2"), site("b", "b1")}, Default: "b"}
	two.Sites[0].Clients = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	weights := policy.Config{Sites: []policy.Site{site("a", "s1", "s2")}, Default: "a", Rules: policy.Rules{Spread: policy.ByWeight}}
	weights.Sites[0].Surrogates[0].Weight = 3
	uneven := policy.Config{Sites: []policy.Site{site("a", "s1", "s2")}, Default: "a", Rules: policy.Rules{Spread: policy.ByWeight}}
	uneven.Sites[0].Surrogates[0].Weight = 65535
	up := func(string) Seen { return Seen{Up: true} }
	for _, tt := range []struct {
		name   string
		cfg    policy.Config
		change func(*config.Pool)
		seen   func(name string) Seen
		want   string
	}{
		{"by object where there is a choice", two, nil, up, "0.0.0.0/0 [2]; 10.1.0.0/16 []; ::/0 [2]; spread object of a"},
		{"one is down", two, nil, func(name string) Seen { return Seen{Up: name != "near/a1"} }, "0.0.0.0/0 [2]; 10.1.0.0/16 [1]; ::/0 [2]"},
		{"one is drained", two, nil, func(name string) Seen { return Seen{Up: true, Draining: name == "near/a2"} }, "0.0.0.0/0 [2]; 10.1.0.0/16 [0]; ::/0 [2]"},
		{"one has weight 0 in the pool", two, func(p *config.Pool) { p.Surrogates[0].Weight = 0 }, up, "0.0.0.0/0 [2]; 10.1.0.0/16 [1]; ::/0 [2]"},
		{"one is not in the pool", two, func(p *config.Pool) { p.Surrogates = p.Surrogates[1:] }, up, "0.0.0.0/0 [1]; 10.1.0.0/16 [0]; ::/0 [1]"},
		{"all are down", two, nil, func(string) Seen { return Seen{} }, "nothing can serve"},
		{"by weight", weights, nil, up, "[0 0 1 0]"},
		{"by weight, by command", weights, func(p *config.Pool) { p.Surrogates[0].Weighed = true }, up, "[0 1]"},
		{"the file's weight is not the policy's", weights, func(p *config.Pool) { p.Surrogates[0].Weight = 2 }, up, "[0 0 1 0]"},
		{"weights that do not fit", uneven, nil, up, "spread weight among some of the clients, or with weights that the kernel's tables do not hold exactly"},
		{"distances", two, func(p *config.Pool) {
			p.Shared.Policy, _ = policy.New(policy.Config{Sites: two.Sites, Default: "b", Rules: policy.Rules{Spread: policy.ByNearest}, Locate: []policy.Method{policy.ByDistance}})
			p.Nearest = []config.Zone{{Prefix: netip.MustParsePrefix("10.2.0.0/16"), Surrogates: []string{"near/a2", "near/a1"}}}
		}, up, "0.0.0.0/0 [2]; 10.2.0.0/16 [1]; ::/0 [2]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := sharedPool(t, tt.cfg)
			if tt.change != nil {
				tt.change(pool)
			}
			tables := NewShared(pool, pool.Shared.Policy, nil, tt.seen).Tables()
			var got []string
			for _, z := range tables.Zones {
				got = append(got, fmt.Sprint(z.Prefix, " ", z.Table))
			}
			if len(tables.Turns) > 0 {
				got = append(got, fmt.Sprint(tables.Turns))
			}
			if _, why := tables.Of(netip.MustParseAddr("10.1.0.1")); why != "" {
				got = append(got, why)
			}
			if strings.Join(got, "; ") != tt.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), tt.want)
			}
		})
	}
}

func TestQuestion(t *testing.T) {
	req, _, err := head.Parse([]byte("GET /a%20b?id=1&x HTTP/1.1\r\nHost: CDN.test:80\r\nCookie: a=1; sidx=2\r\ncookie: b=3;sid=4=5; sid=6\r\n\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	q := Question(&config.Shared{Cookie: "sid"}, &req, netip.MustParseAddr("::ffff:10.0.0.1"))
	if q.Host != "cdn.test" || q.Path != "/a%20b" || q.RawQuery != "id=1&x" || q.Sticky != "4=5" || q.Client.String() != "10.0.0.1/32" {
		t.Errorf("%+v", q)
	}
	if q := Question(&config.Shared{Service: "one.test", Cookie: "id"}, &req, netip.Addr{}); q.Host != "one.test" || q.Sticky != "" || q.Client.IsValid() {
		t.Errorf("of one service: %+v", q)
	}
	if q := QuestionOfHello(&config.Shared{}, &hello.Hello{ServerName: "a.test"}, netip.MustParseAddr("10.0.0.1")); q.Host != "a.test" || q.Path != "" {
		t.Errorf("of a hello: %+v", q)
	}
}

func TestSharedExcluded(t *testing.T) {
	pool := sharedPool(t, policy.Config{Sites: []policy.Site{site("a", "s1", "s2")}, Default: "a"})
	pool.Surrogates = append(pool.Surrogates, config.Surrogate{Name: "far/s1", Weight: 1}, config.Surrogate{Name: "s9", Weight: 1})
	s := NewShared(pool, pool.Shared.Policy, nil, func(name string) Seen { return Seen{Up: name != "near/s2", Why: "refused"} })
	if got, want := s.Excluded(), []string{"", "s2 is down: refused", "near/s1 is s1 of the policy, too", "s9 is not in the policy"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSharedFills: what is full takes clients again below resume of its capacity only, so that a snapshot needs the one before.
func TestSharedFills(t *testing.T) {
	cfg := policy.Config{Sites: []policy.Site{site("a", "a1"), site("b", "b1")}, Default: "a"}
	cfg.Sites[0].Capacity = 10
	pool := sharedPool(t, cfg)
	var before *policy.State
	for _, step := range []struct{ sessions, want int }{{9, 0}, {10, 1}, {9, 1}, {8, 0}} {
		s := NewShared(pool, pool.Shared.Policy, before, func(name string) Seen {
			return Seen{Up: true, Sessions: map[string]int{"near/a1": step.sessions}[name]}
		})
		before = s.State
		d := s.Decide(policy.Query{Client: policy.Whole(netip.MustParseAddr("10.0.0.1"))}, 0)
		if got, ok := s.First(&d, nil); !ok || got != step.want {
			t.Errorf("with %d of 10 sessions: surrogate %d, want %d", step.sessions, got, step.want)
		}
	}
}

// TestSharedIsThePolicy: for thousands of random policies, states and requests, kernel and user space choose what the policy decides.
func TestSharedIsThePolicy(t *testing.T) {
	r := seeded(t)
	kernel, turns, user := 0, 0, 0
	for range 1500 {
		pool := sharedPool(t, randomShared(r))
		for range r.IntN(4) {
			z := config.Zone{Prefix: policytest.Prefix(r)}
			for _, i := range r.Perm(len(pool.Surrogates)) {
				z.Surrogates = append(z.Surrogates, pool.Surrogates[i].Name)
			}
			pool.Nearest = append(pool.Nearest, z)
		}
		states := make(map[string]Seen)
		for i := range pool.Surrogates {
			sg := &pool.Surrogates[i]
			states[sg.Name] = Seen{Up: r.IntN(4) > 0, Draining: r.IntN(8) == 0, Sessions: r.IntN(8)}
			sg.Weight, sg.Weighed = r.IntN(4), r.IntN(3) == 0
		}
		s := NewShared(pool, pool.Shared.Policy, nil, func(name string) Seen { return states[name] })
		tables := s.Tables()
		for range 20 {
			q := policy.Query{Client: policy.Whole(policytest.Client(r)), Host: []string{"x.test", "z.test"}[r.IntN(2)], Path: fmt.Sprint("/", r.IntN(99)), RawQuery: fmt.Sprint("id=", r.IntN(9)), Random: r.Uint64()}
			d := s.State.Explain(&q)
			want, ok := s.First(&d, nil)
			if ok != (len(d.Choices) > 0) || ok && "near/"+d.Choices[0].Surrogate.Name != pool.Surrogates[want].Name {
				t.Fatalf("surrogate %d is not %v", want, d.Choices)
			}
			if ok {
				tried := []string{pool.Surrogates[want].Name}
				again := s.Decide(q, len(tried))
				two := q
				two.Want = 2
				next := s.State.Explain(&two)
				other, more := s.First(&again, tried)
				if again.Choices[0] != d.Choices[0] || more != (len(next.Choices) > 1) || more && "near/"+next.Choices[1].Surrogate.Name != pool.Surrogates[other].Name {
					t.Fatalf("surrogate %d has failed: %d, %v is next, the policy has %v", want, other, more, next.Choices)
				}
			}
			switch table, why := tables.Of(q.Client.Addr()); {
			case len(table) == 0:
				if user++; why == "" {
					t.Fatalf("user space chooses for %v, and nothing says why", q.Client)
				}
			case len(tables.Turns) > 0:
				turns++
				if !ok || !slices.Contains(table, uint16(want)) || len(slices.Compact(slices.Sorted(slices.Values(table)))) != len(d.Choices) {
					t.Fatalf("the kernel takes turns by %v, the policy has %v", table, d.Choices)
				}
			default:
				kernel++
				if !ok || len(table) != 1 || int(table[0]) != want {
					t.Fatalf("the kernel chooses %v for %v, the policy %d, %v: %v", table, q.Client, want, ok, d.Because)
				}
			}
		}
	}
	if kernel < 3000 || turns < 100 || user < 3000 {
		t.Errorf("%d by the kernel, %d in turn, %d by user space: the test sees too little", kernel, turns, user)
	}
}

func randomShared(r *rand.Rand) policy.Config {
	spreads := []policy.Spread{policy.ByObject, policy.ByClient, policy.ByKey, policy.ByWeight, policy.ByNearest, policy.ByLoad}
	cfg := policy.Config{Rules: policy.Rules{Spread: spreads[r.IntN(len(spreads))], Query: []string{"id"}, Dispersion: r.IntN(3)}}
	used := make(map[netip.Prefix]bool)
	for i := range 1 + r.IntN(3) {
		s := policy.Site{Name: fmt.Sprint("site", i), Capacity: r.IntN(3) * 8, Maintenance: r.IntN(6) == 0}
		for j := range 1 + r.IntN(3) {
			s.Surrogates = append(s.Surrogates, policy.Surrogate{Name: fmt.Sprintf("s%d-%d", i, j), Weight: 1 + r.IntN(4), Capacity: r.IntN(2) * 8})
		}
		for range r.IntN(3) {
			if z := policytest.Prefix(r); !used[z] {
				used[z] = true
				s.Clients = append(s.Clients, z)
			}
		}
		cfg.Sites = append(cfg.Sites, s)
	}
	if r.IntN(5) > 0 {
		cfg.Default = "site0"
	}
	if r.IntN(4) == 0 {
		cfg.Services = []policy.Service{{Hosts: []string{"x.test"}, Rules: policy.Rules{Spread: policy.ByNearest, Sites: []string{"site0"}}}}
	}
	if r.IntN(8) == 0 {
		cfg.Rules.Steer = map[string]int{"site0": 1, cfg.Sites[len(cfg.Sites)-1].Name: 2}
	}
	return cfg
}
