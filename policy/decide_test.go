package policy_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"baton/policy"
	"baton/policy/config"
)

const two = `
sites:
  bratislava:
    location: {latitude: 48.15, longitude: 17.11}
    capacity: 500
    clients: [10.11.0.0/24, "2001:db8:11::/48"]
    surrogates: {se1: , se2: , se3: }
  wien:
    location: {latitude: 48.21, longitude: 16.37}
    clients: [10.12.0.0/16]
    surrogates: {se4: {weight: 3}, se5: {capacity: 10}}
  praha:
    location: {latitude: 50.08, longitude: 14.44}
    surrogates: {se6: }
default: praha
bypass: origin.example.org
`

func parse(t testing.TB, text string) *policy.Policy {
	t.Helper()
	cfg, err := config.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.New(*cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func client(s string) netip.Prefix { return policy.Whole(netip.MustParseAddr(s)) }

func names(d *policy.Decision) (out []string) {
	for _, c := range d.Choices {
		out = append(out, c.Surrogate.Name)
	}
	return out
}

const zone = "coverage zone 10.11.0.0/24 -> site bratislava"

type seen = map[string]policy.Observed

// decisions have FIRST in their reasons for the surrogate that was chosen.
var decisions = []struct {
	name  string
	text  string // instead of two
	query policy.Query
	seen  seen
	near  []policy.Measured
	site  string
	first string // "": any
	why   []string
}{
	{name: "zone", query: policy.Query{Client: client("10.11.0.7"), Path: "/a.jpg"}, site: "bratislava",
		why: []string{zone, "hash of /a.jpg -> FIRST"}},
	{name: "zone of IPv6", query: policy.Query{Client: client("2001:db8:11::7")}, site: "bratislava",
		why: []string{"coverage zone 2001:db8:11::/48 -> site bratislava", "hash of / -> FIRST"}},
	{name: "address of IPv4 written as IPv6", query: policy.Query{Client: netip.MustParsePrefix("::ffff:10.11.0.7/128")}, site: "bratislava",
		why: []string{zone, "hash of / -> FIRST"}},
	{name: "default", query: policy.Query{Client: client("192.0.2.1"), Path: "/a"}, site: "praha", first: "se6",
		why: []string{"no coverage zone has 192.0.2.1", "default site praha", "only se6 can serve"}},
	{name: "no client", query: policy.Query{Path: "/a"}, site: "praha", first: "se6", why: []string{"default site praha", "only se6 can serve"}},
	{name: "states of surrogates", query: policy.Query{Client: client("10.11.0.7")}, site: "bratislava", first: "se3",
		seen: seen{"se1": {Maintenance: new(true)}, "se2": {Down: true, Error: "connection refused"}},
		why:  []string{zone, "se1 is in maintenance", "se2 is down: connection refused", "only se3 can serve"}},
	{name: "weight 0", query: policy.Query{Client: client("10.11.0.7")}, site: "wien",
		seen: seen{"se1": {Weight: new(0)}, "se2": {Weight: new(0)}, "se3": {Down: true}},
		why: []string{zone, "se1 has weight 0", "se2 has weight 0", "se3 is down", "bratislava has no surrogate that can serve: spills to wien",
			"hash of / -> FIRST"}},
	{name: "maintenance of the configuration that an operator has ended", text: strings.Replace(two, "{se6: }", "{se6: {state: maintenance}}", 1),
		query: policy.Query{Client: client("192.0.2.1")}, site: "praha", first: "se6", seen: seen{"se6": {Maintenance: new(false)}},
		why: []string{"no coverage zone has 192.0.2.1", "default site praha", "only se6 can serve"}},
	{name: "full site", query: policy.Query{Client: client("10.11.0.7")}, site: "wien", first: "se4",
		seen: seen{"se1": {Sessions: 400}, "se2": {Sessions: 110}, "se5": {Sessions: 10}},
		why:  []string{zone, "bratislava is at 102 % of 500 sessions: spills to wien", "se5 is at 100 % of 10 sessions", "only se4 can serve"}},
	{name: "two full sites", query: policy.Query{Client: client("10.11.0.7")}, site: "praha", first: "se6",
		seen: seen{"se1": {Sessions: 500}, "se4": {Down: true}, "se5": {Sessions: 10}},
		why: []string{zone, "bratislava is at 100 % of 500 sessions: spills to wien", "se4 is down", "se5 is at 100 % of 10 sessions",
			"wien has no surrogate that can serve: spills to praha", "only se6 can serve"}},
	{name: "nothing left", query: policy.Query{Client: client("192.0.2.1")}, seen: seen{"se1": {Sessions: 500}, "se4": {Down: true}, "se5": {Down: true}, "se6": {Down: true}},
		why: []string{"no coverage zone has 192.0.2.1", "default site praha", "se6 is down", "praha has no surrogate that can serve: spills to wien",
			"se4 is down", "se5 is down", "wien has no surrogate that can serve: spills to bratislava", "bratislava is at 100 % of 500 sessions: no site is left",
			"nothing can serve: bypass to origin.example.org"}},
	{name: "no spill", text: strings.Replace(two, "    capacity: 500\n", "    spill: none\n    state: maintenance\n", 1),
		query: policy.Query{Client: client("10.11.0.7")},
		why:   []string{zone, "bratislava is in maintenance: no site is left", "nothing can serve: bypass to origin.example.org"}},
	{name: "spill as it is written", text: strings.Replace(two, "    capacity: 500\n", "    spill: [praha]\n    state: maintenance\n", 1),
		query: policy.Query{Client: client("10.11.0.7")}, site: "praha", first: "se6",
		why: []string{zone, "bratislava is in maintenance: spills to praha", "only se6 can serve"}},
	{name: "no default", text: strings.Replace(two, "default: praha\nbypass: origin.example.org", "default: none", 1), query: policy.Query{Client: client("192.0.2.1")},
		why: []string{"no coverage zone has 192.0.2.1", "there is no default site", "nothing can serve: refused"}},
	{name: "measured", query: policy.Query{Client: client("192.0.2.1")}, site: "wien",
		near: []policy.Measured{{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Distances: map[string]uint32{"se1": 5, "se5": 3, "se6": 4}}},
		why:  []string{"no coverage zone has 192.0.2.1", "client 192.0.2.1 is nearest to site wien: measured distance 3", "hash of / -> FIRST"}},
	{name: "measured, and the nearest is down", query: policy.Query{Client: client("192.0.2.1")}, site: "praha", first: "se6", seen: seen{"se5": {Down: true}},
		near: []policy.Measured{{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Distances: map[string]uint32{"se1": 5, "se5": 3, "se6": 4}}},
		why:  []string{"no coverage zone has 192.0.2.1", "client 192.0.2.1 is nearest to site praha: measured distance 4", "only se6 can serve"}},
	{name: "measured by the caller, nearest", text: two + "spread: nearest\nlocate: [distance, zone]\n",
		query: policy.Query{Client: client("10.12.0.1"), Distances: []uint32{5, 2, 3, policy.Far, policy.Far, 9}}, site: "bratislava", first: "se2",
		why: []string{"client 10.12.0.1 is nearest to site bratislava: measured distance 2", "measured distance 2 -> se2"}},
	{name: "load", text: two + "spread: load\n", query: policy.Query{Client: client("10.12.0.1")}, site: "wien", first: "se4",
		seen: seen{"se4": {Sessions: 14}, "se5": {Sessions: 5}}, why: []string{"coverage zone 10.12.0.0/16 -> site wien", "fewest sessions for its weight, 14 for 3 -> se4"}},
	{name: "service", text: two + "services: [{hosts: ['*.example.org'], sites: [wien], spread: client}]\n",
		query: policy.Query{Client: client("10.11.0.7"), Host: "IMG.Example.org.:8080"}, site: "wien",
		why: []string{zone, "bratislava does not have this service: spills to wien", "client 10.11.0.0/24 -> FIRST"}},
	{name: "service as the policy", text: two + "query: [size]\nspread: object\nservices: [{hosts: [a.org]}, {hosts: [b.org], query: none}]\n", site: "bratislava",
		query: policy.Query{Client: client("10.11.0.7"), Host: "a.org", RawQuery: "size=1"}, why: []string{zone, "hash of /?size=1 -> FIRST"}},
	{name: "service without a query", text: two + "query: [size]\nservices: [{hosts: [a.org]}, {hosts: [b.org], query: none}]\n", site: "bratislava",
		query: policy.Query{Client: client("10.11.0.7"), Host: "b.org", RawQuery: "size=1"}, why: []string{zone, "hash of / -> FIRST"}},
	{name: "nearer name above", text: two + "services: [{hosts: ['*.org'], sites: [praha]}, {hosts: ['*.a.org'], sites: [wien]}]\n", site: "wien",
		query: policy.Query{Client: client("10.11.0.7"), Host: "x.y.a.org"},
		why:   []string{zone, "bratislava does not have this service: spills to wien", "hash of / -> FIRST"}},
	{name: "client of which nothing is known", text: two + "spread: client\n", query: policy.Query{Client: netip.MustParsePrefix("10.11.0.0/0")}, site: "wien",
		seen: seen{"se6": {Down: true}}, why: []string{"default site praha", "se6 is down", "praha has no surrogate that can serve: spills to wien",
			"client whose address is not known -> FIRST"}},
	{name: "network of a client", query: policy.Query{Client: netip.MustParsePrefix("10.12.64.0/20")}, site: "wien",
		why: []string{"coverage zone 10.12.0.0/16 -> site wien", "hash of / -> FIRST"}},
	{name: "network written as IPv6", query: policy.Query{Client: netip.MustParsePrefix("::ffff:10.12.64.0/116")}, site: "wien",
		why: []string{"coverage zone 10.12.0.0/16 -> site wien", "hash of / -> FIRST"}},
	{name: "steering", text: two + "steer: {praha: 1, wien: 0}\n", query: policy.Query{Client: client("10.11.0.7")}, site: "praha", first: "se6",
		why: []string{"steering of client 10.11.0.0/24: weight 1 of 1 -> site praha", "only se6 can serve"}},
	{name: "steering of a service, by key, to a site that is down", text: two + "services: [{hosts: [a.org], steer: {praha: 65536, wien: 1}}]\n",
		query: policy.Query{Client: client("10.11.0.7"), Host: "a.org", Sticky: "x"}, site: "wien", seen: seen{"se6": {Down: true}},
		why: []string{"steering of key x: weight 65536 of 65537 -> site praha", "se6 is down", "praha has no surrogate that can serve: spills to wien", "hash of / -> FIRST"}},
	{name: "steering, and nothing is left", text: two + "steer: {praha: 1}\n", query: policy.Query{Client: client("10.11.0.7")}, seen: seen{"se6": {Down: true}},
		why: []string{"steering of client 10.11.0.0/24: weight 1 of 1 -> site praha", "se6 is down", "praha has no surrogate that can serve: no site is left",
			"nothing can serve: bypass to origin.example.org"}},
	{name: "steering of the policy, for a service", text: two + "steer: {praha: 1}\nservices: [{hosts: [a.org], spread: client}]\n", query: policy.Query{Client: client("10.11.0.7"), Host: "a.org"},
		site: "praha", first: "se6", why: []string{"steering of client 10.11.0.0/24: weight 1 of 1 -> site praha", "only se6 can serve"}},
	{name: "host that is no name", text: two + "services: [{hosts: ['*.org'], sites: [praha]}]\n", site: "bratislava",
		query: policy.Query{Client: client("10.11.0.7"), Host: strings.Repeat("a.", 126) + "org"}, why: []string{zone, "hash of / -> FIRST"}},
	{name: "key", text: two + "spread: key\n", query: policy.Query{Client: client("10.11.0.7"), Sticky: "session-1"}, site: "bratislava",
		why: []string{zone, "key session-1 -> FIRST"}},
	{name: "random", text: two + "spread: weight\n", query: policy.Query{Client: client("10.12.0.1"), Random: 1}, site: "wien", first: "se4",
		why: []string{"coverage zone 10.12.0.0/16 -> site wien", "weight 3 of 4 -> se4"}},
	{name: "dispersion and query", text: two + "dispersion: 3\nquery: [size]\n", site: "bratislava",
		query: policy.Query{Client: client("10.11.0.7"), Path: "/a.jpg", RawQuery: "t=1&size=2"},
		why:   []string{zone, "hash of /a.jpg?size=2 -> se1, se2, se3", "of these, client 10.11.0.0/24 -> FIRST"}},
}

func TestDecide(t *testing.T) {
	for _, tt := range decisions {
		t.Run(tt.name, func(t *testing.T) {
			if tt.text == "" {
				tt.text = two
			}
			s := parse(t, tt.text).State(nil, tt.seen, tt.near)
			d := s.Explain(&tt.query)
			site, first := "", ""
			if len(d.Choices) > 0 {
				site, first = d.Site.Name, d.Choices[0].Surrogate.Name
			}
			if site != tt.site || tt.first != "" && first != tt.first {
				t.Errorf("%s at %q, want %s at %q", first, site, tt.first, tt.site)
			}
			for i := range tt.why {
				tt.why[i] = strings.Replace(tt.why[i], "FIRST", first, 1)
			}
			if !slices.Equal(d.Because, tt.why) {
				t.Errorf("because\n%s\nwant\n%s", strings.Join(d.Because, "\n"), strings.Join(tt.why, "\n"))
			}
			var quiet policy.Decision
			s.Decide(&tt.query, &quiet)
			if !slices.Equal(names(&quiet), names(&d)) || quiet.Scope != d.Scope || quiet.Method != d.Method || quiet.Bypass != d.Bypass || quiet.Spills != d.Spills {
				t.Errorf("without reasons: %v, with them: %v", names(&quiet), names(&d))
			}
			if len(quiet.Because) > 0 {
				t.Errorf("reasons that nobody wants: %v", quiet.Because)
			}
		})
	}
}

// TestWant: more surrogates come from more sites, but not from those that cannot serve.
func TestWant(t *testing.T) {
	s := parse(t, two).State(nil, map[string]policy.Observed{"se4": {Down: true}}, nil)
	for want, count := range []int{3, 1, 2, 3, 4, 5, 5} {
		d := s.Explain(&policy.Query{Client: client("10.11.0.7"), Want: want})
		if len(d.Choices) != count || d.Site.Name != "bratislava" || d.Spills != 0 {
			t.Errorf("%d wanted: %v", want, names(&d))
		}
		if slices.Contains(names(&d), "se4") {
			t.Errorf("%d wanted: %v, and se4 is down", want, names(&d))
		}
	}
}

// TestWantWithoutReasons: sites that are only looked at for more surrogates are no spill, and no reason.
func TestWantWithoutReasons(t *testing.T) {
	down := seen{"se4": {Down: true}, "se5": {Down: true}}
	d := parse(t, two).State(nil, down, nil).Explain(&policy.Query{Client: client("10.11.0.7"), Want: 4})
	if len(d.Choices) != 4 || names(&d)[3] != "se6" || d.Spills != 0 || len(d.Because) != 2 {
		t.Errorf("%v, %d spills, because %q", names(&d), d.Spills, d.Because)
	}
}

// TestMeasuredOrder: by distance the other sites follow by distance, too, unless the site lists who takes its clients.
func TestMeasuredOrder(t *testing.T) {
	for text, want := range map[string]string{two: "[se2 se3 se1 se6 se4 se5]", strings.Replace(two, "    capacity: 500\n", "    spill: [wien, praha]\n", 1): "[se2 se3 se1 se4 se5 se6]"} {
		s := parse(t, text+"spread: nearest\n").State(nil, nil, []policy.Measured{policy.Ranked(netip.MustParsePrefix("192.0.2.0/24"), []string{"se2", "se3", "se1", "se6", "se4", "se5"})})
		if d := s.Explain(&policy.Query{Client: client("192.0.2.1"), Want: 6}); fmt.Sprint(names(&d)) != want {
			t.Errorf("%v, want %s", names(&d), want)
		}
	}
}

// TestScope: a client's prefix that chooses the surrogate is a part of the scope.
func TestScope(t *testing.T) {
	for more, want := range map[string]int{"": 13, "spread: client\n": 24, "dispersion: 2\nsticky_prefix: {ipv4: 20}\n": 20, "spread: key\n": 24, "spread: nearest\n": 13} {
		s := parse(t, two+more).State(nil, nil, nil)
		if d := s.Explain(&policy.Query{Client: client("10.3.0.1")}); d.Scope != want {
			t.Errorf("%q: scope %d, want %d", more, d.Scope, want)
		}
	}
	s := parse(t, two+"spread: key\n").State(nil, nil, nil)
	if d := s.Explain(&policy.Query{Client: client("10.3.0.1"), Sticky: "x"}); d.Scope != 13 {
		t.Errorf("by key: scope %d", d.Scope)
	}
}

// TestResume: a full site takes clients again when it is clearly below its capacity.
func TestResume(t *testing.T) {
	p := parse(t, two)
	var s *policy.State
	for _, step := range []struct {
		sessions int
		full     bool
	}{{499, false}, {500, true}, {499, true}, {450, true}, {449, false}, {460, false}, {499, false}, {600, true}} {
		s = p.State(s, map[string]policy.Observed{"se1": {Sessions: step.sessions}}, nil)
		d := s.Explain(&policy.Query{Client: client("10.11.0.7")})
		if full := d.Site.Name != "bratislava"; full != step.full {
			t.Errorf("%d sessions: full %v, want %v: %v", step.sessions, full, step.full, d.Because)
		}
		if again := p.State(s, map[string]policy.Observed{"se1": {Sessions: step.sessions}}, nil); again.Sites()[0] != s.Sites()[0] {
			t.Errorf("the same observation again: %+v, before %+v", again.Sites()[0], s.Sites()[0])
		}
	}
	d := p.State(s, map[string]policy.Observed{"se1": {Sessions: 480}}, nil).Explain(&policy.Query{Client: client("10.11.0.7")})
	if want := "bratislava is at 96 % of 500 sessions, was full and resumes below 90 %: spills to wien"; !slices.Contains(d.Because, want) {
		t.Errorf("because %q, want %q", d.Because, want)
	}
	// A policy that is loaded anew goes on from the state of the one before.
	if d := parse(t, two).State(s, map[string]policy.Observed{"se1": {Sessions: 480}}, nil).Explain(&policy.Query{Client: client("10.11.0.7")}); d.Site.Name != "wien" {
		t.Errorf("after a reload: %v", d.Because)
	}
}
