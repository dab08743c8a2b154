package policy_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"baton/policy"
	"baton/policy/policytest"
)

func TestAreas(t *testing.T) {
	const sites = "sites:\n  a: {clients: [10.1.0.0/16], surrogates: {a1: , a2: }}\n  b: {clients: [10.1.2.0/24, \"2001:db8::/32\"], surrogates: {b1: }}\ndefault: b\n"
	near := []policy.Measured{policy.Ranked(netip.MustParsePrefix("10.1.3.0/24"), []string{"a2", "b1", "a1"}), policy.Ranked(netip.MustParsePrefix("10.1.0.0/17"), []string{"a1", "a2"})}
	down := map[string]policy.Observed{"a1": {Down: true}}
	for _, tt := range []struct {
		name, policy string
		services     []string
		seen         map[string]policy.Observed
		want         string
	}{
		{"by object where there is a choice", sites, nil, nil, "0.0.0.0/0 b1; 10.1.0.0/16 (spread object of a); 10.1.2.0/24 b1; ::/0 b1"},
		{"one is down", sites, nil, down, "0.0.0.0/0 b1; 10.1.0.0/16 a2; 10.1.2.0/24 b1; ::/0 b1"},
		{"nobody there", sites, nil, map[string]policy.Observed{"a1": {Down: true}, "a2": {Down: true}}, "0.0.0.0/0 b1; ::/0 b1"},
		{"nobody at all", "sites: {a: {surrogates: {s: {weight: 0}}}}", nil, nil, "0.0.0.0/0 (nothing can serve); ::/0 (nothing can serve)"},
		{"refused", strings.Replace(sites, "default: b", "default: none", 1), nil, down, "0.0.0.0/0 (nothing can serve); 10.1.0.0/16 a2; 10.1.2.0/24 b1; ::/0 (nothing can serve); 2001:db8::/32 b1"},
		{"by distance", sites + "locate: [distance]\nspread: nearest\n", nil, nil, "0.0.0.0/0 b1; 10.1.0.0/17 a1; 10.1.3.0/24 a2; ::/0 b1"},
		{"by weight", "sites: {a: {surrogates: {s1: {weight: 3}, s2: }}}\nspread: weight\n", nil, nil, "0.0.0.0/0 s1*3 s2*1; ::/0 s1*3 s2*1"},
		{"services differ", sites + "services: [{hosts: [x.test], sites: [a]}]\n", nil, down, "0.0.0.0/0 (services differ); 10.1.0.0/16 a2; 10.1.2.0/24 (services differ); ::/0 (services differ)"},
		{"one service", sites + "services: [{hosts: [x.test], sites: [a]}]\n", []string{"X.test:80"}, down, "0.0.0.0/0 a2; ::/0 a2"},
		{"steering", sites + "steer: {a: 1, b: 1}\n", nil, nil, "0.0.0.0/0 (the site is by steering); ::/0 (the site is by steering)"},
		{"steering to one", sites + "steer: {a: 0, b: 1}\n", nil, nil, "0.0.0.0/0 b1; ::/0 b1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			measured := near
			if !strings.Contains(tt.policy, "distance") {
				measured = nil
			}
			var got []string
			for _, a := range parse(t, tt.policy).State(nil, tt.seen, measured).Areas(tt.services, 10) {
				text := a.Prefix.String()
				for i, name := range a.Surrogates {
					text += " " + name
					if len(a.Weights) > 0 {
						text += fmt.Sprintf("*%d", a.Weights[i])
					}
				}
				if a.Why != "" {
					text += " (" + a.Why + ")"
				}
				got = append(got, text)
			}
			if strings.Join(got, "; ") != tt.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), tt.want)
			}
		})
	}
	if got := parse(t, sites).State(nil, nil, nil).Areas(nil, 3); got != nil {
		t.Errorf("%d areas, and 3 at most", len(got))
	}
}

// TestAreasDecideAlike: what an area is certain of is what Decide says to each request of its clients, in thousands of random policies.
func TestAreasDecideAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	certain, shared, asked := 0, 0, 0
	for range 2000 {
		p, seen := randomAreas(t, r)
		s := p.State(nil, seen, randomDistances(r, p))
		areas := s.Areas(nil, 1<<16)
		for range 20 {
			q := policy.Query{Client: policy.Whole(policytest.Client(r)), Host: []string{"", "x.test", "a.y.test", "z.test"}[r.IntN(4)], Path: fmt.Sprint("/", r.IntN(50)),
				RawQuery: fmt.Sprint("id=", r.IntN(9)), Random: r.Uint64()}
			if r.IntN(3) == 0 {
				q.Sticky = fmt.Sprint(r.IntN(20))
			}
			var a *policy.Area
			for i := range areas {
				if areas[i].Prefix.Contains(q.Client.Addr()) && (a == nil || areas[i].Prefix.Bits() > a.Prefix.Bits()) {
					a = &areas[i]
				}
			}
			d := s.Explain(&q)
			got := names(&d)
			switch {
			case a == nil:
				t.Fatalf("%v is in no area", q.Client)
			case len(a.Surrogates) == 0:
				asked++
			case len(a.Surrogates) == 1:
				certain++
				if len(got) == 0 || got[0] != a.Surrogates[0] {
					t.Fatalf("area %v has %s, decided is %v: %v", a.Prefix, a.Surrogates, got, d.Because)
				}
			default:
				shared++
				slices.Sort(got)
				if slices.Sort(a.Surrogates); !slices.Equal(got, a.Surrogates) {
					t.Fatalf("area %v has %s, decided are %v: %v", a.Prefix, a.Surrogates, got, d.Because)
				}
			}
		}
	}
	if certain < 5000 || shared < 200 || asked < 5000 {
		t.Errorf("%d certain, %d shared, %d asked: the test sees too little", certain, shared, asked)
	}
}

// randomAreas has policies whose zones overlap, with services, steering and orders of spilling.
func randomAreas(t *testing.T, r *rand.Rand) (*policy.Policy, map[string]policy.Observed) {
	t.Helper()
	p, seen, _ := randomPolicy(t, r)
	cfg := *p.Config()
	used := make(map[netip.Prefix]bool)
	for i := range cfg.Sites {
		s := &cfg.Sites[i]
		s.Clients = nil
		for range r.IntN(4) {
			if z := policytest.Prefix(r); !used[z] {
				used[z] = true
				s.Clients = append(s.Clients, z)
			}
		}
		if r.IntN(3) == 0 {
			s.Spill = []string{cfg.Sites[r.IntN(len(cfg.Sites))].Name}
		}
	}
	if r.IntN(4) == 0 {
		cfg.Default = ""
	}
	switch r.IntN(4) {
	case 0:
		cfg.Locate = []policy.Method{policy.ByDistance, policy.ByZone}
	case 1:
		cfg.Locate = []policy.Method{policy.ByDistance}
	}
	if r.IntN(6) == 0 {
		cfg.Rules.Steer = map[string]int{cfg.Sites[0].Name: r.IntN(3), cfg.Sites[len(cfg.Sites)-1].Name: 1}
	}
	if r.IntN(3) == 0 {
		cfg.Services = []policy.Service{{Hosts: []string{"x.test", "*.y.test"}, Rules: policy.Rules{Spread: policy.ByNearest, Sites: []string{cfg.Sites[r.IntN(len(cfg.Sites))].Name}}}}
	}
	again, err := policy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return again, seen
}

func randomDistances(r *rand.Rand, p *policy.Policy) []policy.Measured {
	var out []policy.Measured
	for range r.IntN(5) {
		m := policy.Measured{Prefix: policytest.Prefix(r), Distances: make(map[string]uint32)}
		for _, site := range p.Config().Sites {
			for _, u := range site.Surrogates {
				if r.IntN(4) > 0 {
					m.Distances[u.Name] = uint32(r.IntN(6))
				}
			}
		}
		out = append(out, m)
	}
	return out
}
