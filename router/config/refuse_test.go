package config

import (
	"errors"
	"strings"
	"testing"

	"baton/document/documenttest"
)

// TestParseRefuses compares the whole message for each kind of mistake.
func TestParseRefuses(t *testing.T) {
	const eth, pool, surrogate = "interfaces: [eth0]", "- pool: default", `{name: s1, address: "10.2.1.2:80"}`
	top := func(s string) string { return s + "\nvips:" }
	limits := func(s string) string { return "limits: " + s + "\nvips:" }
	timeouts := func(s string) string { return "timeouts: " + s + "\nvips:" }
	match := func(s string) string { return "- match: " + s + "\n        pool: default" }
	inPool := func(s string) string { return s + "\n    surrogates:" }
	tests := []struct {
		name, old, new, want string
	}{
		// The file as such.
		{"empty file", minimal, "", `f:1:1: is empty (vips and pools are needed)`},
		{"comments alone", minimal, "# nothing\n", `f:1:1: is empty (vips and pools are needed)`},
		{"two documents", minimal, "a: 1\n---\nb: 2\n", `f:3:1: a second document begins here (one document in a file)`},
		{"a list", minimal, "- a\n", `f:1:1: is a list (a mapping with vips and pools)`},
		{"not YAML", minimal, "vips: [\n", `f:1:7: is not YAML: sequence end token ']' not found`},
		{"tab", "  - address", "\t- address", `f:2:1: is not YAML: found character '	' that cannot start any token (indent with spaces)`},
		{"key twice", "pools:", "vips: []\npools:", `f:6:1: vips: is given twice, first on line 1 (keep one of them)`},
		{"alias without anchor", pool, "- *none", `f:5:9: vips[0].routes[0]: no anchor &none before this alias`},
		{"alias of itself", eth, "interfaces: &i [*i]", `f:3:21: vips[0].interfaces[0]: no anchor &i before this alias`},
		{"tag", eth, "interfaces: !x [eth0]", `f:3:17: vips[0].interfaces: tags are not used here (the value without !x)`},
		{"merge of a list", pool, "- {<<: [[1]], pool: default}", `f:5:10: vips[0].routes[0].<<: is a list (a mapping)`},
		{"key that is a list", pool, "- {? [a] : b}", `f:5:16: is not YAML: found an invalid key for this map`},

		// Keys.
		{"unknown key", "vips:", "vip:", `f:1:1: vip: is not a key (did you mean vips?)`},
		{"unknown key in a VIP", eth, "interface: [eth0]", `f:3:5: vips[0].interface: is not a key (did you mean interfaces?)`},
		{"unknown key, nothing near", "vips:", "frontends:", `f:1:1: frontends: is not a key (one of control, metrics, state, saved, limits, timeouts, log, vips, pools)`},
		{"unknown key in a match", pool, match("{path: /}"), `f:5:17: vips[0].routes[0].match.path: is not a key (one of host, path_prefix, path_regex, methods, headers, sni, alpn, no_sni)`},
		{"unknown key in a surrogate", surrogate, `{nmae: s1}`, `f:9:10: pools.default.surrogates[0].nmae: is not a key (did you mean name?)`},
		{"key in the wrong case", "pools:", "Pools:", `f:6:1: Pools: is not a key (did you mean pools?)`},
		{"odd key is quoted", "vips:", "\"a b\\n\": 1\nvips:", `f:1:1: "a b\n": is not a key (one of control, metrics, state, saved, limits, timeouts, log, vips, pools)`},
		{"key without value", eth, "interfaces:", `f:3:5: vips[0].interfaces: has no value (interfaces: [eth0])`},
		{"no vips", minimal, "pools: {p: {surrogates: [{name: a, address: \"10.0.0.1:80\"}]}}", `f:1:1: vips: is missing (vips: [{address: ..., routes: ...}])`},
		{"no pools", minimal, minimal[:strings.Index(minimal, "pools:")], `f:1:1: pools: is missing (pools: {NAME: {surrogates: ...}})`},
		{"empty vips", minimal, "vips: []\n", `f:1:7: vips: is an empty list (at least one entry)`},
		{"empty entry", minimal, "vips:\n  -\n", `f:2:3: vips[0]: has no value (leave the dash out)`},

		{"pipelining that is none", eth, eth + "\n    pipelining: queue", `f:4:17: vips[0].pipelining: "queue" is not a kind of pipelining (hold or pass)`},
		{"pipelining of a proxy", eth, eth + "\n    mode: proxy\n    pipelining: hold", `f:2:5: vips[0].pipelining: is for mode handoff alone (no pipelining: the proxy routes each request)`},
		{"reuse that is none", "    surrogates:", inPool("    reuse: often"), `f:8:12: pools.default.reuse: "often" is not a kind of reuse (always, safe or never)`},

		// control, metrics, state, limits, timeouts.
		{"keys of before", "vips:", top("listen: {control: /a}"), `f:1:1: listen: is not a key (did you mean control, metrics or state?)`},
		{"metrics without port", "vips:", top("metrics: 127.0.0.1"), `f:1:10: metrics: "127.0.0.1" is not host:port (such as "127.0.0.1:9464")`},
		{"metrics on port 0", "vips:", top(`metrics: ":0"`), `f:1:10: metrics: ":0" has no port from 1 to 65535 (such as "127.0.0.1:9464")`},
		{"metrics on port 65536", "vips:", top(`metrics: ":65536"`), `f:1:10: metrics: ":65536" has no port from 1 to 65535 (such as "127.0.0.1:9464")`},
		{"relative control", "vips:", top("control: x.sock"), `f:1:10: control: "x.sock" is not usable as a path (an absolute path of at most 107 bytes)`},
		{"control longer than sun_path", "vips:", top("control: /" + strings.Repeat("x", 107)),
			`f:1:10: control: "/` + strings.Repeat("x", 76) + `..." is not usable as a path (an absolute path of at most 107 bytes)`},
		{"relative state", "vips:", top("state: x"), `f:1:8: state: "x" is not usable as a path (an absolute path of at most 4095 bytes)`},
		{"no sessions", "vips:", limits("{sessions: 0}"), `f:1:20: limits.sessions: "0" is out of range (a whole number from 1 to 16777216)`},
		{"sessions in words", "vips:", limits("{sessions: many}"), `f:1:20: limits.sessions: "many" is out of range (a whole number from 1 to 16777216)`},
		{"negative pending", "vips:", limits("{pending: -1}"), `f:1:19: limits.pending: "-1" is out of range (a whole number from 1 to 4194304)`},
		{"fewer sessions than idle legs", "vips:", limits("{sessions: 15}"), `f:1:20: limits.sessions: 15 is below the 16 idle legs that the pools keep ready (a higher limit, or smaller legs.min)`},
		{"timeout without unit", "vips:", timeouts("{idle: 60}"), `f:1:18: timeouts.idle: "60" is not a duration (a number with its unit, such as 500ms, 10s or 1h)`},
		{"timeout of zero", "vips:", timeouts("{closing: 0s}"), `f:1:21: timeouts.closing: "0s" is not above zero (such as 500ms, 10s or 1h)`},
		{"negative timeout", "vips:", timeouts("{handshake: -1s}"), `f:1:23: timeouts.handshake: "-1s" is not above zero (such as 500ms, 10s or 1h)`},

		// VIPs.
		{"no address", "address: \"10.9.9.9:80\"\n    ", "", `f:2:5: vips[0].address: is missing (address: "192.0.2.7:443")`},
		{"no interfaces for handoff", "    " + eth + "\n", "", `f:2:5: vips[0].interfaces: is missing (interfaces: [eth0])`},
		{"address without port", "10.9.9.9:80", "10.9.9.9", `f:2:14: vips[0].address: "10.9.9.9" has no port (such as "10.9.9.9:443")`},
		{"address with a name", "10.9.9.9:80", "localhost:80", `f:2:14: vips[0].address: "localhost:80" has a host name, and names are not looked up (such as "192.0.2.7:443" or "[2001:db8::7]:443")`},
		{"address unquoted", `"10.9.9.9:80"`, "[2001:db8::9]", `f:2:14: vips[0].address: is a list (a single value; quote it when it begins with [ or {)`},
		{"port 0", "10.9.9.9:80", "10.9.9.9:0", `f:2:14: vips[0].address: "10.9.9.9:0" has port 0 (a port from 1 to 65535)`},
		{"port too high", "10.9.9.9:80", "10.9.9.9:65536", `f:2:14: vips[0].address: "10.9.9.9:65536" is not address:port (such as "192.0.2.7:443" or "[2001:db8::7]:443")`},
		{"zone", "10.9.9.9:80", "[fe80::1%eth0]:80", `f:2:14: vips[0].address: "[fe80::1%eth0]:80" has a zone (an address that is routed)`},
		{"mapped", "10.9.9.9:80", "[::ffff:10.9.9.9]:80", `f:2:14: vips[0].address: "[::ffff:10.9.9.9]:80" is an IPv4 address written as IPv6 (10.9.9.9:80)`},
		{"any address", "10.9.9.9:80", "0.0.0.0:80", `f:2:14: vips[0].address: "0.0.0.0:80" is not the address of one host (such as "192.0.2.7:443" or "[2001:db8::7]:443")`},
		{"multicast", "10.9.9.9:80", "[ff02::1]:80", `f:2:14: vips[0].address: "[ff02::1]:80" is not the address of one host (such as "192.0.2.7:443" or "[2001:db8::7]:443")`},
		{"mode", eth, "mode: nat", `f:3:11: vips[0].mode: "nat" is not a mode (handoff, redirect, proxy or reactive)`},
		{"interface name", eth, "interfaces: [averyveryverylongname]", `f:3:18: vips[0].interfaces[0]: "averyveryverylongname" is not the name of an interface (such as eth0)`},
		{"interface twice", eth, "interfaces: [eth0, eth0]", `f:3:24: vips[0].interfaces[1]: "eth0" is there twice (each value once)`},
		{"interfaces as one value", eth, "interfaces: eth0", `f:3:17: vips[0].interfaces: must be a list: [eth0]`},
		{"VIP twice", "pools:", "  - address: \"10.9.9.9:80\"\n    interfaces: [eth1]\n    routes: [{pool: default}]\npools:",
			`f:6:5: vips[1].address: 10.9.9.9:80 is the address of vips[0] already (an address and port of its own)`},

		// Routes.
		{"route without pool", pool, "- match: {host: a}", `f:5:9: vips[0].routes[0].pool: is missing (pool: ...)`},
		{"unknown pool", pool, "- pool: defualt", `f:5:15: vips[0].routes[0].pool: "defualt" is not a pool (did you mean default?)`},
		{"after a catch-all", pool, "- pool: default\n      - match: {host: a}\n        pool: default",
			`f:6:9: vips[0].routes[1]: is never reached: the route on line 5 matches all that this one does (the more special route first)`},
		{"after a wider prefix", pool, "- {match: {path_prefix: /a}, pool: default}\n      - {match: {path_prefix: /a/b, methods: [GET]}, pool: default}",
			`f:6:10: vips[0].routes[1]: is never reached: the route on line 5 matches all that this one does (the more special route first)`},
		{"after a wider host", pool, "- {match: {host: '*.a.b'}, pool: default}\n      - {match: {host: x.y.a.b}, pool: default}",
			`f:6:10: vips[0].routes[1]: is never reached: the route on line 5 matches all that this one does (the more special route first)`},
		{"empty match", pool, match(""), `f:5:9: vips[0].routes[0].match: has no value (leave the key out for the default)`},
		{"host with port", pool, match("{host: 'a.b:80'}"), `f:5:23: vips[0].routes[0].match.host: "a.b:80" has a port or is a bare IPv6 address (the name alone: the port is the VIP's)`},
		{"every host", pool, match("{host: '*'}"), `f:5:23: vips[0].routes[0].match.host: "*" is every host (leave host out)`},
		{"star inside", pool, match("{host: 'a.*.b'}"), `f:5:23: vips[0].routes[0].match.host: "a.*.b" has a * elsewhere than as its first label (such as *.example.net)`},
		{"two final dots", pool, match("{host: a.b..}"), `f:5:23: vips[0].routes[0].match.host: "a.b." is not a host name (such as cdn.example.net)`},
		{"host in another script", pool, match("{host: ä.net}"), `f:5:23: vips[0].routes[0].match.host: "ä.net" holds 'Ã' (letters, digits, - and .; other scripts as xn--)`},
		{"bad IPv6 host", pool, match("{host: '[::g]'}"), `f:5:23: vips[0].routes[0].match.host: "[::g]" is not an IPv6 address in brackets (such as [2001:db8::9])`},
		{"prefix without slash", pool, match("{path_prefix: video}"), `f:5:30: vips[0].routes[0].match.path_prefix: "video" does not begin with / (such as /video/)`},
		{"prefix with query", pool, match("{path_prefix: '/a?b'}"), `f:5:30: vips[0].routes[0].match.path_prefix: "/a?b" holds '?', which is never part of a path (the path alone: a query is not matched)`},
		{"prefix with space", pool, match("{path_prefix: '/a b'}"), `f:5:30: vips[0].routes[0].match.path_prefix: "/a b" holds ' ', which a request sends percent-encoded (such as /a%20b/)`},
		{"regex", pool, match("{path_regex: '('}"), "f:5:29: vips[0].routes[0].match.path_regex: missing closing ): `(` (an RE2 expression)"},
		{"method in lower case", pool, match("{methods: [get]}"), `f:5:26: vips[0].routes[0].match.methods: "get" is not upper case, and methods are case-sensitive (GET)`},
		{"method that is none", pool, match("{methods: ['G T']}"), `f:5:26: vips[0].routes[0].match.methods: "G T" is not a method (such as GET)`},
		{"method CONNECT", pool, match("{methods: [CONNECT]}"), `f:5:26: vips[0].routes[0].match.methods: CONNECT is never routed (the router refuses it)`},
		{"header without name", pool, match("{headers: [{value: x}]}"), `f:5:28: vips[0].routes[0].match.headers[0].name: is missing (name: ...)`},
		{"header name", pool, match("{headers: [{name: 'a b'}]}"), `f:5:34: vips[0].routes[0].match.headers[0].name: "a b" is not the name of a header (such as X-Device)`},
		{"header Host", pool, match("{headers: [{name: host}]}"), `f:5:34: vips[0].routes[0].match.headers[0].name: Host is matched by its own key (match: {host: ...})`},
		{"header value and regex", pool, match("{headers: [{name: a, value: b, regex: c}]}"), `f:5:28: vips[0].routes[0].match.headers[0]: has both value and regex (one of them, or neither for a header that is present)`},
		{"header value in spaces", pool, match("{headers: [{name: a, value: ' b'}]}"), `f:5:44: vips[0].routes[0].match.headers[0].value: " b" has spaces around it, which a request's value never has (without them)`},
		{"header regex", pool, match("{headers: [{name: a, regex: '*'}]}"), "f:5:44: vips[0].routes[0].match.headers[0].regex: missing argument to repetition operator: `*` (an RE2 expression)"},

		// Pools.
		{"pools as a list", minimal, "pools: [a]\n", `f:1:8: pools: is a list (a mapping from the name of a pool to the pool)`},
		{"pool twice", "pools:", "pools:\n  default: {}", `f:8:3: pools.default: is given twice, first on line 7 (keep one of them)`},
		{"empty pool", "pools:", "pools:\n  p:", `f:7:3: pools.p: has no value (a pool with its surrogates)`},
		{"pool without surrogates", "pools:", "pools:\n  p: {policy: hash}", `f:7:7: pools.p.surrogates: is missing (surrogates: [{name: ..., address: ...}])`},
		{"policy", "    surrogates:", inPool("    policy: random"), `f:8:13: pools.default.policy: "random" is not a policy (round-robin, weighted, least-sessions, hash or nearest)`},
		{"hash_query elsewhere", "    surrogates:", inPool("    hash_query: [id]"), `f:8:5: pools.default.hash_query: is for policy hash alone (policy: hash)`},
		{"nearest elsewhere", "    surrogates:", inPool("    nearest: [{prefix: 10.0.0.0/8, surrogates: [s1]}]"), `f:8:5: pools.default.nearest: is for policy nearest, or one of a file (policy: nearest)`},
		{"nearest without zones", "    surrogates:", inPool("    policy: nearest"), `f:8:5: pools.default.nearest: is missing (policy nearest needs its list of {prefix, surrogates}, or discover: {controller: ...})`},
		{"prefix with host bits", "    surrogates:", inPool("    policy: nearest\n    nearest: [{prefix: 10.1.2.3/8, surrogates: [s1]}]"), `f:9:24: pools.default.nearest[0].prefix: "10.1.2.3/8" has bits set after its length (10.0.0.0/8)`},
		{"prefix without length", "    surrogates:", inPool("    policy: nearest\n    nearest: [{prefix: 10.1.2.3, surrogates: [s1]}]"), `f:9:24: pools.default.nearest[0].prefix: "10.1.2.3" has no length (10.1.2.3/32)`},
		{"zone of a stranger", "    surrogates:", inPool("    policy: nearest\n    nearest: [{prefix: 10.0.0.0/8, surrogates: [s2]}]"), `f:9:49: pools.default.nearest[0].surrogates[0]: "s2" is not a surrogate of this pool (did you mean s1?)`},
		{"zone twice", "    surrogates:", inPool("    policy: nearest\n    nearest: [{prefix: 10.0.0.0/8, surrogates: [s1]}, {prefix: 10.0.0.0/8, surrogates: [s1]}]"), `f:9:64: pools.default.nearest[1].prefix: 10.0.0.0/8 is there twice (a zone for each prefix)`},
		{"min above max", "    surrogates:", inPool("    legs: {min: 9, max: 8}"), `f:8:12: pools.default.legs.min: 9 is above max, which is 8 (min at most max)`},
		{"no legs", "    surrogates:", inPool("    legs: {max: 0}"), `f:8:17: pools.default.legs.max: "0" is out of range (a whole number from 1 to 960000)`},
		{"more legs than ports", "    surrogates:", inPool("    legs: {max: 60001}"), `f:8:17: pools.default.legs.max: 60001 is above the 60000 ports of 1 source addresses (more sources, which are addresses of this host)`},
		{"more legs than ports of two", "    surrogates:", inPool("    legs: {max: 120001, sources: [10.2.0.1, 10.2.0.2]}"), `f:8:17: pools.default.legs.max: 120001 is above the 120000 ports of 2 source addresses (more sources, which are addresses of this host)`},
		{"source twice", "    surrogates:", inPool("    legs: {sources: [10.2.0.1, 10.2.0.1]}"), `f:8:32: pools.default.legs.sources[1]: "10.2.0.1" is there twice (each value once)`},
		{"source on loopback", "    surrogates:", inPool("    legs: {sources: [127.0.0.1]}"), `f:8:22: pools.default.legs.sources[0]: "127.0.0.1" is no address that another host can answer (such as 192.0.2.1 or 2001:db8::1)`},
		{"source of the other family", "    surrogates:", inPool("    legs: {sources: [\"fd02::1\"]}"), `f:8:21: pools.default.legs.sources: none is of IPv4, which s1 at 10.2.1.2:80 needs (addresses of each family, or two pools)`},
		{"source of no surrogate's family", "    surrogates:", inPool("    legs: {sources: [10.2.0.1, \"fd02::1\"]}"), `f:8:32: pools.default.legs.sources[1]: fd02::1 is of IPv6, and no surrogate of the pool is (addresses of the surrogates' family)`},
		{"source that is a VIP", "    surrogates:", inPool("    legs: {sources: [10.9.9.9]}"), `f:8:22: pools.default.legs.sources[0]: 10.9.9.9 is the address of a VIP (another address of this host)`},
		{"mode of legs", "    surrogates:", inPool("    legs: {mode: ondemand}"), `f:8:18: pools.default.legs.mode: "ondemand" is not a mode of legs (did you mean on-demand?)`},
		{"min on demand", "    surrogates:", inPool("    legs: {mode: on-demand, min: 4}"), `f:8:34: pools.default.legs.min: is for mode ready: on-demand keeps no legs (mode: ready, or no min)`},
		{"idle of zero", "    surrogates:", inPool("    legs: {idle: 0s}"), `f:8:18: pools.default.legs.idle: "0s" is not above zero (such as 500ms, 10s or 1h)`},
		{"handshake that is too late", "    surrogates:", inPool("    legs: {handshake: 2s}"), `f:8:23: pools.default.legs.handshake: "2s" is not a duration from 0 to 500ms (a number with its unit, such as 100ms)`},
		{"negative requests", "    surrogates:", inPool("    legs: {requests: -1}"), `f:8:22: pools.default.legs.requests: "-1" is out of range (a whole number from 0 to 2147483647)`},
		{"health path", "    surrogates:", inPool("    health: {path: healthz}"), `f:8:20: pools.default.health.path: "healthz" is not the path of a request (such as /healthz)`},
		{"health host", "    surrogates:", inPool("    health: {host: a/b}"), `f:8:20: pools.default.health.host: "a/b" is not a host (such as cdn.example.net)`},
		{"health timeout above interval", "    surrogates:", inPool("    health: {interval: 1s, timeout: 2s}"), `f:8:14: pools.default.health.timeout: 2s is above interval, which is 1s (timeout at most interval)`},
		{"rise of zero", "    surrogates:", inPool("    health: {rise: 0}"), `f:8:20: pools.default.health.rise: "0" is out of range (a whole number from 1 to 1000)`},

		// Surrogates.
		{"surrogate without name", surrogate, `{address: "10.2.1.2:80"}`, `f:9:10: pools.default.surrogates[0].name: is missing (name: ...)`},
		{"surrogate without address", surrogate, `{name: s1}`, `f:9:10: pools.default.surrogates[0].address: is missing (address: "192.0.2.7:443")`},
		{"surrogate with control character", surrogate, `{name: "a\tb"}`, `f:9:16: pools.default.surrogates[0].name: "a\tb" holds a control character (printable text on one line)`},
		{"surrogate on port 0", "10.2.1.2:80", "10.2.1.2:0", `f:9:29: pools.default.surrogates[0].address: "10.2.1.2:0" has port 0 (a port from 1 to 65535)`},
		{"surrogate name twice", surrogate, surrogate + "\n      - " + surrogate, `f:10:10: pools.default.surrogates[1].name: "s1" is the name of pools.default.surrogates[0] already (a server in two pools has a name in each)`},
		{"surrogate is the VIP", "10.2.1.2:80", "10.9.9.9:80", `f:9:10: pools.default.surrogates[0].address: 10.9.9.9:80 is the router's own, of vips[0] (the server's address)`},
		{"negative weight", surrogate, `{name: a, weight: -1}`, `f:9:27: pools.default.surrogates[0].weight: "-1" is out of range (a whole number from 0 to 256)`},
		{"weight above 256", surrogate, `{name: a, weight: 257}`, `f:9:27: pools.default.surrogates[0].weight: "257" is out of range (a whole number from 0 to 256)`},
		{"no weight at all", `80"}`, `80", weight: 0}`, `f:7:3: pools.default.surrogates: have no weight above 0, so none can be chosen (a weight from 1 to 256)`},
		{"public with path", surrogate, `{name: a, public: "http://a/b"}`, `f:9:27: pools.default.surrogates[0].public: "http://a/b" is not scheme://host[:port] (such as https://s1.example.net)`},
		{"public without scheme", surrogate, `{name: a, public: "a.example.net"}`, `f:9:27: pools.default.surrogates[0].public: "a.example.net" is not scheme://host[:port] (such as https://s1.example.net)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := strings.Replace(minimal, tt.old, tt.new, 1)
			if file == minimal {
				t.Fatalf("%q is not in the file", tt.old)
			}
			cfg, err := Parse("f", []byte(file))
			if cfg != nil || err == nil {
				t.Fatalf("Parse = %v, %v, want nil and an error for:\n%s", cfg, err, file)
			}
			var e *Error
			if !errors.As(err, &e) {
				t.Errorf("error is a %T, want *Error", err)
			}
			if !documenttest.Reported(err, tt.want) {
				t.Errorf("Parse:\n got %s\nwant %s", err, tt.want)
			}
		})
	}
}

// TestParseRefusesAliasBomb: a file that expands to a billion values in nine lines.
func TestParseRefusesAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := byte('1'); i <= '9'; i++ {
		below := "*a" + string(i-1)
		b.WriteString("a" + string(i) + ": &a" + string(i) + " [" + strings.Repeat(below+",", 9) + below + "]\n")
	}
	_, err := Parse("f", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), "holds too many values") {
		t.Errorf("Parse = %v, want too many values", err)
	}
}
