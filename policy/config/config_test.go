package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"baton/document"
	"baton/policy"
)

const whole = `sites:
  bratislava:
    location: {latitude: 48.15, longitude: 17.11}
    capacity: 500
    clients: [10.11.0.0/24, "2001:db8::1"]
    spill: [wien]
    surrogates:
      se1: {weight: 2, capacity: 100, addresses: [10.0.0.1, "fd00::1"], host: "se1.example.org:8080"}
      se2: {state: maintenance}
  wien:
    state: maintenance
    spill: none
    surrogates: {se3: }
default: none
locate: [geo, zone]
coverage: /etc/baton/zones.json
geo: /var/lib/places.mmdb
countries: {AT: wien}
resume: 80%
bypass: origin.example.org
spread: client
query: [size, v]
steer: {wien: 3, bratislava: 0}
dispersion: 2
sticky_prefix: {ipv4: 16, ipv6: 56}
services:
  - {hosts: ["*.Example.org"], spread: weight, sites: [wien], query: all}
`

func TestParse(t *testing.T) {
	got, err := Parse("policy.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := &policy.Config{
		Sites: []policy.Site{{
			Name: "bratislava", Location: policy.Coordinates{Latitude: 48.15, Longitude: 17.11}, Capacity: 500,
			Clients: []netip.Prefix{netip.MustParsePrefix("10.11.0.0/24"), netip.MustParsePrefix("2001:db8::1/128")}, Spill: []string{"wien"},
			Surrogates: []policy.Surrogate{
				{Name: "se1", Weight: 2, Capacity: 100, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}, Host: "se1.example.org:8080"},
				{Name: "se2", Weight: 1, Maintenance: true},
			},
		}, {Name: "wien", Maintenance: true, Spill: []string{}, Surrogates: []policy.Surrogate{{Name: "se3", Weight: 1}}}},
		Locate:   []policy.Method{policy.ByGeo, policy.ByZone},
		Coverage: "/etc/baton/zones.json", GeoDatabase: "/var/lib/places.mmdb", Countries: map[string]string{"AT": "wien"},
		Rules:    policy.Rules{Spread: policy.ByClient, Query: []string{"size", "v"}, Steer: map[string]int{"wien": 3, "bratislava": 0}, Dispersion: 2, Prefix4: 16, Prefix6: 56},
		Services: []policy.Service{{Hosts: []string{"*.example.org"}, Rules: policy.Rules{Spread: policy.ByWeight, AllQuery: true, Sites: []string{"wien"}}}},
		Resume:   0.8, Bypass: "origin.example.org",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if _, err := policy.New(*got); err != nil {
		t.Error(err)
	}
	if one, err := Parse("f", []byte("sites: {a: {surrogates: {b: }}}")); err != nil || one.Default != "a" {
		t.Errorf("of one site the default is it: %+v, %v", one, err)
	}
}

// TestRefuse changes one thing of a policy.
func TestRefuse(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"nothing", whole, "", "p.yaml:1:1: is empty (sites are needed)"},
		{"no sites", whole, "default: none\n", "p.yaml:1:1: sites: is missing"},
		{"unknown key", "capacity: 500", "capacty: 500", "sites.bratislava.capacty: is not a key (did you mean capacity?)"},
		{"name of a site", "  wien:", "  Wien!:", `"Wien!" is no name here`},
		{"no default", "default: none\n", "", "p.yaml:1:1: default: is missing"},
		{"default", "default: none", "default: wein", `p.yaml:14:10: default: "wein" is no site (did you mean wien?)`},
		{"spill", "spill: [wien]", "spill: [graz]", `sites.bratislava.spill[0]: "graz" is no site (one of bratislava, wien)`},
		{"country", "AT: wien", "at: wien", `countries.at: "at" is no country (two capital letters of ISO 3166-1, such as AT)`},
		{"site of a country", "AT: wien", "AT: graz", `countries.AT: "graz" is no site`},
		{"site of a service", "sites: [wien]", "sites: [graz]", `services[0].sites[0]: "graz" is no site`},
		{"host of a service", `"*.Example.org"`, `"a.*.org"`, `services[0].hosts[0]: "a.*.org" is no host (such as cdn.example.org or *.example.org)`},
		{"host twice", `["*.Example.org"]`, `["*.Example.org", "*.example.org"]`, `is there twice`},
		{"host in two services", "query: all}", "query: all}\n  - {hosts: ['*.example.org']}", `services[1].hosts[0]: *.example.org is in services[0] already`},
		{"surrogate twice", "{se3: }", "{se1: }", `sites.wien.surrogates.se1: "se1" is a surrogate of bratislava already (a name of its own)`},
		{"zone twice", "spill: none", "spill: none\n    clients: [10.11.0.0/24]", `sites.wien.clients[0]: 10.11.0.0/24 is a zone of bratislava already (one site)`},
		{"zone with host bits", "10.11.0.0/24", "10.11.0.1/24", `"10.11.0.1/24" has bits set after its length (10.11.0.0/24)`},
		{"latitude", "48.15", "91", `sites.bratislava.location.latitude: "91" is out of range (degrees from -90 to 90)`},
		{"longitude", "17.11", "NaN", `sites.bratislava.location.longitude: "NaN" is out of range (degrees from -180 to 180)`},
		{"half a location", ", longitude: 17.11", "", `sites.bratislava.location.longitude: is missing`},
		{"state", "{state: maintenance}", "{state: maintainance}", `"maintainance" is no state (did you mean maintenance?)`},
		{"weight", "weight: 2", "weight: -1", `"-1" is out of range (a whole number from 0 to 65536)`},
		{"method", "[geo, zone]", "[geo, zones]", `locate[1]: "zones" is no way to find a client's site (did you mean zone?)`},
		{"method twice", "[geo, zone]", "[geo, geo]", `locate[1]: "geo" is there twice`},
		{"geo without a database", "geo: /var/lib/places.mmdb\ncountries: {AT: wien}\n", "", `locate: has geo, and there is no database`},
		{"countries without a database", "locate: [geo, zone]\ncoverage: /etc/baton/zones.json\ngeo: /var/lib/places.mmdb\n", "", `countries: are found in a database, and there is none`},
		{"spread", "spread: client", "spread: hash", `spread: "hash" is no way to spread requests (object, client, key, weight, nearest or load)`},
		{"steering to nobody", "wien: 3", "wien: 0", `steer: has no site with a weight above 0 (such as {wien: 3, bratislava: 1})`},
		{"site of steering", "{wien: 3", "{graz: 3", `steer.graz: "graz" is no site`},
		{"site of a service's steering", "query: all}", "query: all, steer: {graz: 1}}", `services[0].steer.graz: "graz" is no site`},
		{"share", "resume: 80%", "resume: 0.8", `"0.8" has no percent sign`},
		{"prefix", "ipv4: 16", "ipv4: 33", `sticky_prefix.ipv4: "33" is out of range`},
		{"relative path", "/etc/baton/zones.json", "zones.json", `"zones.json" is not usable as a path`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(whole, tt.old, tt.new, 1)
			if text == whole {
				t.Fatalf("the policy has no %q", tt.old)
			}
			_, err := Parse("p.yaml", []byte(text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

func TestLoadSection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	for text, want := range map[string]string{
		"sites: {a: {surrogates: {b: }}}":                                  "",
		"control: x\npolicy: {sites: {a: {surrogates: {b: }}}}\nzones: []": "",
		"control: x\npolicy: {sites: {a: {wieght: 1}}}":                    "f.yaml:2:22: policy.sites.a.wieght: is not a key",
		"control: x": "f.yaml:1:1: control: is not a key",
		"policy: {sites: {a: {surrogates: {b: }}}, geo: /no/such}": `f.yaml:1:48: policy.geo: "/no/such": no such file or directory (create it, or name another file)`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := LoadSection(file)
		if want == "" && (err != nil || cfg.Default != "a") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v, want %q", text, cfg, err, want)
		}
	}
}

// TestSection decodes a policy that is a part of another document, with keys of that.
func TestSection(t *testing.T) {
	type outer struct {
		policy policy.Config
		extra  string
	}
	decode := func(d *document.Decoder, root *document.Node) *outer {
		o := &outer{}
		d.Fields("", root, []document.Key{{Name: "policy", Decode: func(path string, n *document.Node) {
			o.policy = Decode(d, path, n, document.Key{Name: "extra", Decode: func(path string, n *document.Node) { o.extra = d.Text(path, n) }})
		}}})
		return o
	}
	o, err := document.ParseAs("f", []byte("policy: {extra: x, sites: {a: {surrogates: {b: }}}}"), rules, decode)
	if err != nil || o.extra != "x" || o.policy.Default != "a" {
		t.Errorf("%+v, %v", o, err)
	}
	_, err = document.ParseAs("f", []byte("policy:\n  sites: {a: {surrogates: {b: {wieght: 1}}}, c: {spill: [d]}}\n  default: e\n"), rules, decode)
	want := []string{"policy.sites.a.surrogates.b.wieght: is not a key (did you mean weight?)", `policy.sites.c.spill[0]: "d" is no site`, `policy.default: "e" is no site`}
	for _, line := range want {
		if err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%v\nwant %s", err, line)
		}
	}
}
