package config

import (
	"strings"
	"testing"
)

// TestRefuse changes one thing of a configuration that is right.
func TestRefuse(t *testing.T) {
	tests := []struct{ name, file, old, new, want string }{
		{"nothing", least, least, "", "anycast.yaml:1:1: is empty (a name, and site or planner are needed)"},
		{"no name", least, "name: london\n", "", "anycast.yaml:1:1: name: is missing"},
		{"name", least, "name: london", "name: London!", `anycast.yaml:1:7: name: "London!" is no name here`},
		{"unknown key", least, "  checks:", "  nonsense: 1\n  checks:", "site.nonsense: is not a key"},
		{"neither site nor planner", least, least, "name: x\n", "has neither site nor planner"},
		{"no checks", least, "  checks:\n    - {name: web, tcp: \"127.0.0.1:80\"}\n", "", "site.checks: is missing"},
		{"prefix with host bits", least, "192.0.2.0/24", "192.0.2.1/24", `"192.0.2.1/24" has bits set after its length (192.0.2.0/24)`},
		{"default route", least, "192.0.2.0/24", "0.0.0.0/0", "is the default route"},
		{"prefix twice", least, "[192.0.2.0/24]", "[192.0.2.0/24, 192.0.2.0/24]", "site.prefixes[1]: 192.0.2.0/24 is there twice"},
		{"BGP without prefixes", least, "  prefixes: [192.0.2.0/24]\n", "", "has one of prefixes and bgp"},
		{"AS", least, "as: 64512", "as: 0", "site.bgp.as"},
		{"AS of 23456 digits", least, "as: 64512", "as: 4294967295", "is not the number of an autonomous system"},
		{"router id of IPv6", least, "router_id: 10.0.0.2", "router_id: \"fd00::1\"", "is of the other family"},
		{"no peers", least, "      - {name: r1, address: 10.0.0.1, as: 65000}", "      []", "site.bgp.peers: is an empty list"},
		{"peer twice", least, "as: 65000}", "as: 65000}\n      - {name: r1, address: 10.0.0.9, as: 65000}", "site.bgp.peers[1].name: r1 is that of site.bgp.peers[0] already"},
		{"address twice", least, "as: 65000}", "as: 65000}\n      - {name: r2, address: 10.0.0.1, as: 65000}", "site.bgp.peers[1].address: 10.0.0.1 is that of site.bgp.peers[0]"},
		{"peer's address", least, "address: 10.0.0.1", "address: 10.0.0.256", `"10.0.0.256" is not an address`},
		{"peer of another family", least, "address: 10.0.0.1", `address: "fd00::1"`, "gets none of the prefixes"},
		{"family without a next hop", least, "[192.0.2.0/24]", "[192.0.2.0/24, 2001:db8::/48]", ""},
		{"IPv6 over IPv4 without a next hop", strings.Replace(least, "[192.0.2.0/24]", "[\"2001:db8::/48\"]", 1), "as: 65000}", "as: 65000, families: [ipv6]}",
			"site.bgp.next_hop: has no ipv6"},
		{"hold below RFC 4271", least, "as: 65000}", "as: 65000, hold: 2s}", "out of range"},
		{"hold of half a second", least, "as: 65000}", "as: 65000, hold: 3500ms}", "is not a whole number of seconds"},
		{"keepalive too rare", least, "as: 65000}", "as: 65000, hold: 3s, keepalive: 2s}", "is more than half of hold"},
		{"GTSM and multihop", least, "as: 65000}", "as: 65000, gtsm: true, multihop: 2}", "cannot be with gtsm"},
		{"multihop to an own router", least, "as: 65000}", "as: 64512, multihop: 2}", "is for peers of another AS"},
		{"prepend to an own router", least, "as: 65000}\n", "as: 64512}\n  levels: [{name: a}, {name: b, prepend: 1}]\n", "r1 would see a loop (local_preference)"},
		{"preference to another's router", least, "as: 65000}\n", "as: 65000}\n  levels: [{name: a}, {name: b, local_preference: 1}]\n", "is for peers of one's own AS"},
		{"one level", least, "  checks:", "  levels: [{name: a}]\n  checks:", "has one level"},
		{"level twice", least, "  checks:", "  levels: [{name: a}, {name: a}]\n  checks:", `site.levels[1].name: "a" is the name of site.levels[0] already`},
		{"withdraw by name", least, "  checks:", "  levels: [{name: a}, {name: withdraw}]\n  checks:", "is that of the last level"},
		{"leave above enter", least, "  checks:", "  levels: [{name: a}, {name: b, enter: 50%, leave: 60%}]\n  checks:", "60% is not below enter, 50%: the level would swing"},
		{"enter alone", least, "  checks:", "  levels: [{name: a}, {name: b, enter: 50%}]\n  checks:", "has one of enter and leave"},
		{"loads that fall", least, "  checks:", "  levels: [{name: a}, {name: b, enter: 90%, leave: 50%}, {name: c, enter: 80%, leave: 40%}]\n  checks:", "is below that of a level before it"},
		{"load at the first level", least, "  checks:", "  levels: [{name: a, enter: 90%, leave: 50%}, {name: b}]\n  checks:", "the first level is where a site is without load"},
		{"community", least, "  checks:", "  levels: [{name: a}, {name: b, communities: [blackhole]}]\n  checks:", `"blackhole" is not a community`},
		{"budget too small for a death", least, "  checks:", "  flaps: {share: 60%}\n  checks:", "leaves less than a withdrawal's 1000 of 2000 (at most 50%)"},
		{"budget too small for a change", least, "  checks:", "  flaps: {share: 10%}\n  checks:", "allows no change at all"},
		{"check of nothing", least, `{name: web, tcp: "127.0.0.1:80"}`, "{name: web}", "site.checks[0]: has none of"},
		{"check of two things", least, `tcp: "127.0.0.1:80"`, `tcp: "127.0.0.1:80", http: "http://127.0.0.1/"`, "site.checks[0].tcp: cannot be with http"},
		{"check with a user", least, `tcp: "127.0.0.1:80"`, `http: "http://user:secret@127.0.0.1/"`, "holds a user's name"},
		{"command by name", least, `tcp: "127.0.0.1:80"`, `command: [check]`, `"check" is not an absolute path`},
		{"a port that is none", least, `127.0.0.1:80`, `127.0.0.1:0`, "has no port from 1 to 65535"},
		{"load without a metric", least, "  checks:", "  loads: [{name: l, prometheus: \"http://127.0.0.1/\", capacity: 1}]\n  checks:", "site.loads[0].metric: is missing"},
		{"load of an interface without a rate", least, "  checks:", "  loads: [{name: l, interface: eth0, capacity: 5}]\n  checks:", `"5" is not a rate`},
		{"load too rare", least, "  checks:", "  loads: [{name: l, interface: eth0, capacity: 1gbit, interval: 15s}]\n  checks:", "there would never be a load"},
		{"others without an identity", least, "  checks:", "  others: [{name: p, url: \"https://p\"}]\n  checks:", "tls: is missing"},
		{"others in the clear", least, "  checks:", "  others: [{name: p, url: \"http://p\"}]\n  checks:", `"http://p" is not https`},
		{"itself among others", everything, "{name: paris,", "{name: london,", `site.others[0].name: "london" is this site's own name`},
		{"others asked too rarely", everything, "poll: 5s", "poll: 20s", "no other site would be known to be up"},
		{"planner that cannot reach the site", strings.Replace(everything, "listen: {sites: \"10.0.0.2:8443\"}\n", "", 1), "name: london", "name: london", "site.planner: cannot send its proposals"},
		{"address of another service", everything, "192.0.2.1/32", "198.51.100.1/32", "198.51.100.1 is in none of the prefixes"},
		{"a check that takes too long", everything, "interval: 2s, timeout: 1s", "interval: 10ms, timeout: 11s", "a death would be seen late"},

		{"site without a port", plans, `, ports: [{forwarder: 0x1, port: 3}]`, "", "planner.sites[1]: has no port on forwarder 0000000000000001, where ingress west is"},
		{"two ports on one forwarder", plans, `[{forwarder: 0x1, port: 3}]`, `[{forwarder: 0x1, port: 3}, {forwarder: 0x1, port: 4}]`, "is the second port to this site"},
		{"cost of a site that is not", plans, "paris: 2.5", "rome: 2.5", `planner.map.ingresses[0].costs.rome: "rome" is not a site`},
		{"datapath", plans, `forwarder: "0000000000000001", port: 1`, `forwarder: "1", port: 1`, `"1" is not a datapath id`},
		{"MAC of many", plans, "02:00:00:00:00:01", "03:00:00:00:00:01", "is not the address of one interface"},
		{"stale before the next report", plans, "stale: 20s", "stale: 5s", "reports are stale before the next"},
		{"no map and no url", plans[:strings.Index(plans, "  map:")], "      ports", "      ports", "planner.sites[0].ports: is for a map, and there is none"},
		{"ingress twice", plans, "      - {name: west", "      - {name: east, forwarder: 0x1, port: 1}\n      - {name: west", "planner.map.ingresses[1].port: is that of planner.map.ingresses[0] already"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(tt.file, tt.old) {
				t.Fatalf("%q is not in the file", tt.old)
			}
			cfg, err := Parse("anycast.yaml", []byte(strings.Replace(tt.file, tt.old, tt.new, 1)))
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case tt.want != "" && (err == nil || cfg != nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// FuzzParse holds that a file gives a configuration or an error, never both, and that what it gives can be walked.
func FuzzParse(f *testing.F) {
	for _, text := range []string{least, everything, plans, "name: x\nsite: {bgp: {peers: [{}]}}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, err := Parse("anycast.yaml", text)
		if (cfg == nil) == (err == nil) {
			t.Fatalf("%v and %v", cfg, err)
		}
		if err != nil || cfg.Site == nil {
			return
		}
		r := cfg.Site.Control
		if len(r.Ladder) < 3 || !r.Ladder[r.Withdrawn()].Announcement.Withdrawn || r.Ladder[r.Drain()].Announcement.Withdrawn {
			t.Errorf("ladder %+v", r.Ladder)
		}
	})
}
