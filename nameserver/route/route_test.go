package route

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"baton/api"
	"baton/nameserver/answer"
	"baton/nameserver/config"
	"baton/nameserver/follow"
	"baton/nameserver/zone"
)

const start = `listen: ["127.0.0.1:53"]
zones: [{name: test, file: z, routed: {cdn: one, two: two, none: none, "*.img": one}}]
health: {}
services:
  one: {ttl: 20s, https: {alpn: [h2], port: 8443}}
  two: {answers: 2, fallback: [192.0.2.99, "2001:db8::99"]}
  none: {fallback: none}
policy:
  default: west
  sites:
    west:
      clients: [198.51.100.0/24]
      surrogates:
        a: {addresses: [192.0.2.1, "2001:db8::1"], weight: 3}
        b: {addresses: [192.0.2.2]}
    east:
      clients: [203.0.113.0/25]
      surrogates:
        c: {addresses: ["2001:db8::3"]}
`

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("n.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func table(t *testing.T, text string) *Table {
	t.Helper()
	r, err := New(load(t, text), (*follow.Follower)(nil).View, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// choose asks a table as a resolver with a client subnet does.
func choose(t *testing.T, r *Table, rule, name, client string, kind uint16) (c answer.Choice) {
	t.Helper()
	key, err := zone.KeyOf(name)
	if err != nil {
		t.Fatal(err)
	}
	p := netip.MustParsePrefix(client)
	r.Routes()[rule].Choose(answer.Asked{Client: p.Addr(), Bits: p.Bits(), Subnet: true, Resolver: netip.MustParseAddr("192.0.2.53"), Kind: kind, Name: []byte(key)}, &c)
	return c
}

func text(all []netip.Addr) string {
	var out []string
	for _, a := range all {
		out = append(out, a.String())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestChoose(t *testing.T) {
	r := table(t, start)
	for _, tt := range []struct {
		rule, client string
		kind         uint16
		v4, v6       string
		scope        int
	}{
		{"two.test.", "198.51.100.0/24", dns.TypeA, "192.0.2.1 192.0.2.2", "2001:db8::1", 24},
		{"two.test.", "198.51.100.7/32", dns.TypeAAAA, "192.0.2.1", "2001:db8::1", 24}, // of b there is no address of that family
		{"two.test.", "203.0.113.0/26", dns.TypeA, "", "", 25},                         // the site has none: the client takes the other family
		{"two.test.", "203.0.113.0/26", dns.TypeAAAA, "", "2001:db8::3", 25},
		{"none.test.", "203.0.113.0/26", dns.TypeHTTPS, "", "2001:db8::3", 25},
	} {
		c := choose(t, r, tt.rule, tt.rule, tt.client, tt.kind)
		if text(c.V4) != tt.v4 || text(c.V6) != tt.v6 || c.Scope != tt.scope || c.TTL != 20 || c.Fail {
			t.Errorf("%s for %s: %s; %s; /%d", tt.rule, tt.client, text(c.V4), text(c.V6), c.Scope)
		}
	}
	if c := choose(t, r, "*.img.test.", "7.img.test.", "203.0.113.0/26", dns.TypeAAAA); text(c.V6) != "2001:db8::3" || string(c.Params) != "\x00\x01\x00\x03\x02h2\x00\x03\x00\x02\x20\xfb" {
		t.Errorf("%+v", c)
	}
}

// TestWeights: clients are drawn by weight.
func TestWeights(t *testing.T) {
	r := table(t, start)
	got := make(map[string]int)
	const draws = 4000
	for range draws {
		got[text(choose(t, r, "cdn.test.", "cdn.test.", "198.51.100.0/24", dns.TypeA).V4)]++
	}
	if a := got["192.0.2.1"]; a < draws*70/100 || a > draws*80/100 || a+got["192.0.2.2"] != draws { // five standard deviations are 3.4 %
		t.Errorf("%v", got)
	}
	s := r.Status()
	if i := slices.IndexFunc(s, func(s api.NameserverService) bool { return s.Name == "one" }); s[i].Decisions != draws || s[i].Fallbacks != 0 {
		t.Errorf("%+v", s)
	}
	if u := r.Surrogates(); u[0].Chosen+u[1].Chosen != draws || u[0].Chosen != uint64(got["192.0.2.1"]) {
		t.Errorf("%+v", u)
	}
	if n := len(r.Decisions()); n < journalRate || n > journalRate*20 {
		t.Errorf("%d decisions are kept", n)
	}
}

// TestSticky: a client's network has the same surrogate each time, and the answer is for that network.
func TestSticky(t *testing.T) {
	r := table(t, strings.Replace(start, "policy:\n", "policy:\n  spread: client\n", 1))
	seen := make(map[string]bool)
	for i := range 64 {
		client := fmt.Sprintf("10.0.%d.0/24", i)
		first := choose(t, r, "cdn.test.", "cdn.test.", client, dns.TypeA)
		seen[text(first.V4)] = true
		for range 5 {
			if c := choose(t, r, "cdn.test.", "cdn.test.", client, dns.TypeA); text(c.V4) != text(first.V4) || c.Scope != 24 {
				t.Fatalf("%s: %+v, and before %+v", client, c, first)
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("all clients have %v", seen)
	}
}

// TestHealth: an address that is down is not answered, a surrogate without one that is up neither; then come other sites, and the fallback.
func TestHealth(t *testing.T) {
	r := table(t, start)
	sick := errors.New("no answer")
	report := func(name, a string, err error) { r.report(name, netip.MustParseAddr(a), err) }
	check := func(what, rule string, kind uint16, v4, v6 string, fails bool) {
		t.Helper()
		if c := choose(t, r, rule, rule, "198.51.100.0/24", kind); text(c.V4) != v4 || text(c.V6) != v6 || c.Fail != fails {
			t.Errorf("%s: %s; %s; fails %v", what, text(c.V4), text(c.V6), c.Fail)
		}
	}
	report("b", "192.0.2.2", nil) // the first answer
	report("a", "192.0.2.1", sick)
	check("one family is down", "two.test.", dns.TypeA, "192.0.2.2", "", false)
	check("the other is up", "two.test.", dns.TypeAAAA, "", "2001:db8::1", false)
	report("a", "2001:db8::1", sick)
	report("b", "192.0.2.2", sick)
	check("the site is down", "two.test.", dns.TypeAAAA, "", "2001:db8::3", false)
	report("c", "2001:db8::3", sick)
	check("all is down: addresses", "two.test.", dns.TypeA, "192.0.2.99", "2001:db8::99", false)
	check("all is down: nothing", "none.test.", dns.TypeA, "", "", true)
	check("all is down: all", "cdn.test.", dns.TypeA, "192.0.2.1 192.0.2.2", "2001:db8::1", false)
	check("all is down: all", "cdn.test.", dns.TypeAAAA, "192.0.2.1", "2001:db8::1 2001:db8::3", false)
	if u := r.Surrogates(); u[0].Up || u[0].Error != "no answer" {
		t.Errorf("%+v", u)
	}
	if _, err := r.Reload(load(t, strings.Replace(start, "20s", "1m", 1))); err != nil {
		t.Fatal(err)
	}
	check("after a reload", "none.test.", dns.TypeA, "", "", true)
	report("b", "192.0.2.2", nil)
	check("one is up again", "two.test.", dns.TypeA, "192.0.2.2", "", false)
}

// TestPolicyFiles: a coverage file that changes is in force without a reload; a broken one keeps what was there.
func TestPolicyFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "coverage.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"coverageZones": {"east": {"network": ["10.0.0.0/8"]}}}`)
	r := table(t, strings.Replace(start, "policy:\n", "policy:\n  coverage: "+file+"\n", 1))
	site := func(want string) {
		t.Helper()
		r.files()
		if c := choose(t, r, "cdn.test.", "cdn.test.", "10.1.0.0/16", dns.TypeAAAA); text(c.V6) != want {
			t.Errorf("%+v, want %s", c, want)
		}
	}
	site("2001:db8::3")
	write(`{"coverageZones": {"west": {"network": ["10.0.0.0/8", "10.128.0.0/9"]}}, "revision": "two"}`)
	site("2001:db8::1")
	write("nonsense")
	site("2001:db8::1")
}
