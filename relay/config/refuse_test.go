package config

import (
	"errors"
	"strings"
	"testing"

	"baton/document/documenttest"
)

// TestParseRefuses holds each kind of fault against the whole line that a user reads.
func TestParseRefuses(t *testing.T) {
	const (
		trunks = `trunks: {listen: ["192.0.2.1:7000"]}`
		peer   = `{name: there, address: "198.51.100.7:7000"}`
		entry  = `{listen: "192.0.2.1:443", destination: "203.0.113.5:443", via: [there]}`
		allow  = `{prefix: 203.0.113.0/24, ports: [443]}`
		creds  = `tls: {certificate: /c, key: /k, authority: /a}`
		steer  = `intercept: {destinations: [203.0.113.0/24], ports: [443]}, interfaces: [eth1]`
	)
	top := func(s string) string { return s + "\nname:" }
	inPeer := func(s string) string { return `{name: there, address: "198.51.100.7:7000", ` + s + `}` }
	inEntry := func(s string) string { return `{listen: "192.0.2.1:443", ` + s + `}` }
	inTrunks := func(s string) string { return `trunks: {listen: ["192.0.2.1:7000"], ` + s + `}` }
	tests := []struct{ name, old, new, want string }{
		// The file as such.
		{"empty file", minimal, "",
			`f:1:1: is empty (a name, and entries or trunks are needed)`},
		{"a list", minimal, "- a\n",
			`f:1:1: is a list (a mapping with a name, and entries or trunks)`},
		{"unknown key", "entries:", "entires:",
			`f:6:1: entires: is not a key (did you mean entries?)`},
		{"unknown key, nothing near", "name: here", "name: here\nbackends: 1",
			`f:2:1: backends: is not a key (one of name, cloud, workers, control, metrics, limits, timeouts, trunks, peers, entries, choose, return_interfaces, allow, tls, plaintext)`},
		{"no name", "name: here\n", "",
			`f:1:1: name: is missing (name: ...)`},
		{"name in capitals", "here", "Here",
			`f:1:7: name: "Here" is no name here (at most 63 of a-z, 0-9 and, in between, -)`},
		{"name of 64 characters", "here", strings.Repeat("a", 64),
			`f:1:7: name: "` + strings.Repeat("a", 64) + `" is no name here (at most 63 of a-z, 0-9 and, in between, -)`},
		{"name that ends with -", "here", "here-",
			`f:1:7: name: "here-" is no name here (at most 63 of a-z, 0-9 and, in between, -)`},
		{"cloud", "name:", top("cloud: two words"),
			`f:1:8: cloud: "two words" is no name here (at most 63 of a-z, 0-9 and, in between, -)`},
		{"no workers", "name:", top("workers: 0"),
			`f:1:10: workers: "0" is out of range (a whole number from 1 to 1024)`},
		{"nothing comes in", minimal, "name: a\n",
			`f:1:1: entries: and trunks are missing: no flow can come in (one of them, or both)`},
		{"entries that are none", minimal, "name: a\nentries: []\n",
			`f:2:10: entries: and trunks are missing: no flow can come in (one of them, or both)`},

		// metrics, control, limits, timeouts.
		{"metrics without port", "name:", top("metrics: localhost"),
			`f:1:10: metrics: "localhost" is not host:port (such as "127.0.0.1:9465")`},
		{"metrics on port 0", "name:", top(`metrics: ":0"`),
			`f:1:10: metrics: ":0" has no port from 1 to 65535 (such as "127.0.0.1:9465")`},
		{"metrics on port 65536", "name:", top(`metrics: ":65536"`),
			`f:1:10: metrics: ":65536" has no port from 1 to 65535 (such as "127.0.0.1:9465")`},
		{"metrics where trunks are", "name:", top(`metrics: "0.0.0.0:7000"`),
			`f:1:10: metrics: "0.0.0.0:7000" is trunks.listen[0], 192.0.2.1:7000, already (a port of its own)`},
		{"metrics of IPv6 where an entry of IPv4 is", "name:", top(`metrics: ":443"`),
			`f:1:10: metrics: ":443" is entries[0].listen, 192.0.2.1:443, already (a port of its own)`},
		{"relative control", "name:", top("control: x.sock"),
			`f:1:10: control: "x.sock" is not usable as a path (an absolute path of at most 107 bytes)`},
		{"control longer than sun_path", "name:", top("control: /" + strings.Repeat("x", 107)),
			`f:1:10: control: "/` + strings.Repeat("x", 76) + `..." is not usable as a path (an absolute path of at most 107 bytes)`},
		{"no flows", "name:", top("limits: {flows: 0}"),
			`f:1:17: limits.flows: "0" is out of range (a whole number from 1 to 4194304)`},
		{"early above flows", "name:", top("limits: {flows: 10, early: 11}"),
			`f:1:28: limits.early: 11 is above flows, which is 10 (early at most flows)`},
		{"per source above early", "name:", top("limits: {early: 10, per_source: 11}"),
			`f:1:33: limits.per_source: 11 is above early, which is 10 (per_source at most early)`},
		{"pipe without unit", "name:", top("limits: {pipe: 65536}"),
			`f:1:16: limits.pipe: "65536" is not a size (a number with its unit, such as 20GB or 500MiB)`},
		{"pipe that is too small", "name:", top("limits: {pipe: 1KiB}"),
			`f:1:16: limits.pipe: "1KiB" is out of range (from 4KiB to 64MiB)`},
		{"pipe that is too large", "name:", top("limits: {pipe: 1GiB}"),
			`f:1:16: limits.pipe: "1GiB" is out of range (from 4KiB to 64MiB)`},
		{"pipe beyond all numbers", "name:", top("limits: {pipe: 9223372036854775807GiB}"),
			`f:1:16: limits.pipe: "9223372036854775807GiB" is out of range (from 4KiB to 64MiB)`},
		{"timeout without unit", "name:", top("timeouts: {connect: 10}"),
			`f:1:21: timeouts.connect: "10" is not a duration (a number with its unit, such as 500ms, 10s or 1h)`},
		{"timeout of nothing", "name:", top("timeouts: {header: 1ms}"),
			`f:1:20: timeouts.header: "1ms" is out of range (from 10ms to 24h0m0s)`},
		{"timeout of days", "name:", top("timeouts: {unacked: 25h}"),
			`f:1:21: timeouts.unacked: "25h" is out of range (from 10ms to 24h0m0s)`},
		{"idle of zero", "name:", top("timeouts: {idle: 0s}"),
			`f:1:18: timeouts.idle: "0s" is not above zero (none, for no end)`},
		{"no time to be reset", "name:", top("timeouts: {reset: none}"),
			`f:1:19: timeouts.reset: "none" is not a duration (a number with its unit, such as 500ms, 10s or 1h)`},

		// Credentials.
		{"none at all", creds + "\n", "",
			`f:2:10: trunks: has no credentials (tls: {certificate: ..., key: ..., authority: ...}, here or at the top level; for tests plaintext: {secret_file: ...})
f:4:6: peers[0]: has no credentials (tls: {certificate: ..., key: ..., authority: ...}, here or at the top level; for tests plaintext: {secret_file: ...})`},
		{"none for a peer", minimal, "name: a\npeers: [{name: b, address: \"192.0.2.2:1\"}]\nentries: []\n",
			`f:2:10: peers[0]: has no credentials (tls: {certificate: ..., key: ..., authority: ...}, here or at the top level; for tests plaintext: {secret_file: ...})
f:3:10: entries: and trunks are missing: no flow can come in (one of them, or both)`},
		{"without key", "key: /k, ", "",
			`f:2:7: tls.key: is missing (key: /path/to/file)`},
		{"without authority, of a peer alone", peer, inPeer("tls: {certificate: /c, key: /k}"),
			`f:5:55: peers[0].tls.authority: is missing (authority: /path/to/file)`},
		{"relative certificate", "/c,", "c,",
			`f:2:20: tls.certificate: "c" is not usable as a path (an absolute path of at most 4095 bytes)`},
		{"plaintext without secret", creds, "plaintext: {}",
			`f:2:12: plaintext.secret_file: is missing (secret_file: /path/to/file)`},
		{"both kinds", creds, creds + "\nplaintext: {secret_file: /s}",
			`f:3:13: plaintext: is used with tls (one of them)`},
		{"both kinds, of a peer", peer, inPeer("plaintext: {secret_file: /s}, tls: {certificate: /c, key: /k, authority: /a}"),
			`f:5:61: peers[0].plaintext: is used with peers[0].tls (one of them)`},
		{"a secret in tls", "{certificate", "{secret_file: /s, certificate",
			`f:2:7: tls.secret_file: is not a key (one of certificate, key, authority)`},
		{"plaintext of trunks without secret", trunks, inTrunks("plaintext: {}"),
			`f:3:49: trunks.plaintext.secret_file: is missing (secret_file: /path/to/file)`},

		// Trunks and peers.
		{"trunks without listen", trunks, "trunks: {waiting: 1}",
			`f:3:10: trunks.listen: is missing (listen: ["192.0.2.7:443"])`},
		{"trunks that listen nowhere", trunks, "trunks: {listen: []}",
			`f:3:18: trunks.listen: is an empty list (at least one entry)`},
		{"listener that is no list", trunks, `trunks: {listen: "192.0.2.1:7000"}`,
			`f:3:18: trunks.listen: must be a list: [192.0.2.1:7000]`},
		{"listener without address", "192.0.2.1:7000", ":7000",
			`f:3:19: trunks.listen[0]: ":7000" has no address (all of IPv4 is "0.0.0.0:7000", all of IPv6 "[::]:7000")`},
		{"listener at a name", "192.0.2.1:7000", "localhost:7000",
			`f:3:19: trunks.listen[0]: "localhost:7000" has a host name, and names are not looked up (such as "192.0.2.7:443" or "[2001:db8::7]:443")`},
		{"listener on port 0", "192.0.2.1:7000", "192.0.2.1:0",
			`f:3:19: trunks.listen[0]: "192.0.2.1:0" has port 0 (a port from 1 to 65535)`},
		{"listener with a zone", "192.0.2.1:7000", "[fe80::1%eth0]:7000",
			`f:3:19: trunks.listen[0]: "[fe80::1%eth0]:7000" has a zone (an address that is routed)`},
		{"listener of IPv4 in IPv6", "192.0.2.1:7000", "[::ffff:192.0.2.1]:7000",
			`f:3:19: trunks.listen[0]: "[::ffff:192.0.2.1]:7000" is an IPv4 address written as IPv6 (192.0.2.1:7000)`},
		{"listener at a group", "192.0.2.1:7000", "224.0.0.1:7000",
			`f:3:19: trunks.listen[0]: "224.0.0.1:7000" is not the address of one host (such as "192.0.2.7:443" or "[2001:db8::7]:443")`},
		{"listener twice", trunks, `trunks: {listen: ["192.0.2.1:7000", "192.0.2.1:7000"]}`,
			`f:3:37: trunks.listen[1]: 192.0.2.1:7000 is trunks.listen[0] already (an address or a port of its own)`},
		{"no trunk may wait", trunks, inTrunks("waiting: 0"),
			`f:3:47: trunks.waiting: "0" is out of range (a whole number from 1 to 1048576)`},
		{"peer without name", peer, `{address: "198.51.100.7:7000"}`,
			`f:5:6: peers[0].name: is missing (name: ...)`},
		{"peer without address", peer, `{name: there}`,
			`f:5:6: peers[0].address: is missing (address: "192.0.2.7:443")`},
		{"peer everywhere", "198.51.100.7:7000", "0.0.0.0:7000",
			`f:5:28: peers[0].address: "0.0.0.0:7000" is not the address of one host (such as "192.0.2.7:443" or "[2001:db8::7]:443")`},
		{"peer of IPv4 in IPv6", "198.51.100.7:7000", "[::ffff:198.51.100.7]:7000",
			`f:5:28: peers[0].address: "[::ffff:198.51.100.7]:7000" is an IPv4 address written as IPv6 (198.51.100.7:7000)`},
		{"peer's name twice", peer, peer + `
  - {name: there, address: "198.51.100.8:7000"}`,
			`f:6:12: peers[1].name: "there" is the name of peers[0] already (a name of its own)`},
		{"peer's address twice", peer, peer + `
  - {name: elsewhere, address: "198.51.100.7:7000"}`,
			`f:6:32: peers[1].address: 198.51.100.7:7000 is the address of peers[0] already (an address and port of its own)`},
		{"peer by this relay's name", "name: there", "name: here",
			`f:5:12: peers[0].name: "here" is this relay's own name (another relay's)` + "\n" +
				`f:7:69: entries[0].via[0]: "there" is not a peer (did you mean here?)`},
		{"peer at this relay's address", "198.51.100.7:7000", "192.0.2.1:7000",
			`f:5:28: peers[0].address: 192.0.2.1:7000 is trunks.listen[0] of this relay (another relay's address)`},
		{"more ready than at most", peer, inPeer("ready: {min: 300}"),
			`f:5:62: peers[0].ready.min: 300 is above max, which is 256 (min at most max)`},
		{"trunks for no time", peer, inPeer("ready: {age: 1s}"),
			`f:5:62: peers[0].ready.age: "1s" is out of range (from 10s to 24h0m0s)`},
		{"probe of half a second more", peer, inPeer("ready: {probe: 1500ms}"),
			`f:5:64: peers[0].ready.probe: "1500ms" is not whole seconds (as the kernel counts keepalives, tcp(7))`},
		{"window without unit", peer, inPeer("window: 1000000"),
			`f:5:57: peers[0].window: "1000000" is not a size (a number with its unit, such as 20GB or 500MiB)`},
		{"window beyond TCP's", peer, inPeer("window: 1GiB"),
			`f:5:57: peers[0].window: "1GiB" is out of range (from 64KiB to 512MiB)`},
		{"congestion", peer, inPeer("congestion: BBR v3"),
			`f:5:61: peers[0].congestion: "BBR v3" is not the name of an algorithm (such as bbr or cubic, or system)`},
		{"start in words", peer, inPeer("start: fast"),
			`f:5:56: peers[0].start: "fast" is not the start of a trunk (learn, system, or from 1 to 16384 segments)`},
		{"start of nothing", peer, inPeer("start: 0"),
			`f:5:56: peers[0].start: "0" is not the start of a trunk (learn, system, or from 1 to 16384 segments)`},
		{"start with two answers", peer, inPeer("start: {learn: yes}"),
			`f:5:64: peers[0].start.learn: "yes" is not a boolean (true or false)`},
		{"min above max", peer, inPeer("start: {min: 20, max: 10}"),
			`f:5:62: peers[0].start.min: 20 is above max, which is 10 (min at most max)`},
		{"min without learning", peer, inPeer("start: {learn: false, min: 10}"),
			`f:5:76: peers[0].start.min: is not used without learn (max alone)`},
		{"rate without unit", peer, inPeer("start: {rate: 1000}"),
			`f:5:63: peers[0].start.rate: "1000" is not a rate (a number with its unit, such as 500mbit or 1gbit)`},
		{"rate that is no number", peer, inPeer("start: {rate: nangbit}"),
			`f:5:63: peers[0].start.rate: "nangbit" is out of range (from 100kbit to 100gbit)`},
		{"rate of everything", peer, inPeer("start: {rate: infgbit}"),
			`f:5:63: peers[0].start.rate: "infgbit" is out of range (from 100kbit to 100gbit)`},
		{"rate of nothing", peer, inPeer("start: {rate: 1kbit}"),
			`f:5:63: peers[0].start.rate: "1kbit" is out of range (from 100kbit to 100gbit)`},

		// Entries.
		{"entry without listen", entry, `{destination: "203.0.113.5:443"}`,
			`f:7:6: entries[0].listen: is missing (listen: "192.0.2.7:443")`},
		{"entry without destination", entry, inEntry("via: [there]"),
			`f:7:6: entries[0].destination: is missing (destination: "192.0.2.7:443")`},
		{"entry in an odd mode", entry, inEntry("mode: tproxy"),
			`f:7:37: entries[0].mode: "tproxy" is not a mode (did you mean proxy?)`},
		{"name twice", entry, entry + `
  - {listen: "192.0.2.2:443", destination: "203.0.113.5:443", via: [there]}`,
			`f:8:6: entries[1].name: "plain-443" is the name of entries[0] already (a name of its own)`},
		{"listeners of two entries", entry, entry + `
  - {name: b, listen: "192.0.2.1:443", destination: "203.0.113.6:443", via: [there]}`,
			`f:8:23: entries[1].listen: 192.0.2.1:443 is entries[0].listen already (an address or a port of its own)`},
		{"listener of trunks", `"192.0.2.1:443"`, `"192.0.2.1:7000"`,
			`f:7:14: entries[0].listen: 192.0.2.1:7000 is trunks.listen[0] already (an address or a port of its own)`},
		{"destination at a name", "203.0.113.5:443", "example.net:443",
			`f:7:44: entries[0].destination: "example.net:443" has a host name, and names are not looked up (such as "192.0.2.7:443" or "[2001:db8::7]:443")`},
		{"destination of mode transparent", entry, inEntry(`mode: transparent, destination: "203.0.113.5:443"`),
			`f:7:63: entries[0].destination: is for mode plain only (mode: plain)`},
		{"destination is the listener", entry, inEntry(`destination: "192.0.2.1:443", via: [there]`),
			`f:7:44: entries[0].destination: 192.0.2.1:443 is entries[0].listen of this relay (the server's address)`},
		{"destination is trunks", entry, inEntry(`destination: "192.0.2.1:7000", via: [there]`),
			`f:7:44: entries[0].destination: 192.0.2.1:7000 is trunks.listen[0] of this relay (the server's address)`},
		{"destination on loopback is the listener", entry, `{listen: "0.0.0.0:443", destination: "127.0.0.1:443", via: [there]}`,
			`f:7:42: entries[0].destination: 127.0.0.1:443 is entries[0].listen of this relay (the server's address)`},
		{"destination of another family", entry, inEntry(`destination: "[2001:db8::5]:443", client_address: transparent, via: [there]`),
			`f:7:44: entries[0].destination: [2001:db8::5]:443 is IPv6, but its clients are IPv4 and it sees their addresses (a destination and a listener of one family, or another client_address)`},
		{"intercept of mode plain", entry, inEntry(`destination: "203.0.113.5:443", ` + steer),
			`f:7:75: entries[0].intercept: is for mode transparent only (mode: transparent)`},
		{"intercept without interfaces", entry, inEntry(`mode: transparent, intercept: {destinations: [203.0.113.0/24], ports: [443]}`),
			`f:7:6: entries[0].interfaces: is missing (the interfaces towards clients, for intercept and early_syn)`},
		{"intercept without ports", entry, inEntry(`mode: transparent, intercept: {destinations: [203.0.113.0/24]}`),
			`f:7:62: entries[0].intercept.ports: is missing (ports: [...])`},
		{"intercept without destinations", entry, inEntry(`mode: transparent, intercept: {destinations: [], ports: [443]}`),
			`f:7:76: entries[0].intercept.destinations: is an empty list (at least one entry)`},
		{"intercept of another family", entry, inEntry(`mode: transparent, via: [there], interfaces: [eth1], intercept: {destinations: ["2001:db8::/32"], ports: [443]}`),
			`f:7:111: entries[0].intercept.destinations[0]: 2001:db8::/32 is IPv6, but the entry listens on IPv4 (an entry for each family)`},
		{"intercept of a peer", entry, inEntry(`mode: transparent, via: [there], interfaces: [eth1], intercept: {destinations: [198.51.100.0/24], ports: [443, 6000-8000]}`),
			`f:7:111: entries[0].intercept.destinations[0]: 198.51.100.0/24 contains 198.51.100.7:7000, the address of peer there: its trunks would loop (a port for it that is not intercepted)`},
		{"intercept of trunks", entry, inEntry(`mode: transparent, via: [there], interfaces: [eth1], intercept: {destinations: [192.0.2.0/30], ports: [7000]}`),
			`f:7:111: entries[0].intercept.destinations[0]: 192.0.2.0/30 contains 192.0.2.1:7000, which is trunks.listen[0] of this relay: a loop (a port for it that is not intercepted)`},
		{"intercept of the listener", entry, inEntry(`mode: transparent, via: [there], interfaces: [eth1], intercept: {destinations: [192.0.2.0/30], ports: [443]}`),
			`f:7:111: entries[0].intercept.destinations[0]: 192.0.2.0/30 contains 192.0.2.1:443, which is entries[0].listen of this relay: a loop (a port for it that is not intercepted)`},
		{"intercept of all, and of the listener", entry, `{listen: "0.0.0.0:443", mode: transparent, via: [there], interfaces: [eth1], intercept: {destinations: [0.0.0.0/0], ports: [443]}}`,
			`f:7:109: entries[0].intercept.destinations[0]: 0.0.0.0/0 contains 0.0.0.0:443, which is entries[0].listen of this relay: a loop (a port for it that is not intercepted)`},
		{"intercept of what is not allowed", entry, inEntry(`mode: transparent, interfaces: [eth1], intercept: {destinations: [203.0.113.64/26, 10.0.0.0/8], ports: [443]}`),
			`f:7:114: entries[0].intercept.destinations[1]: no address of 10.0.0.0/8 is in allow (via: [...], or allow: [{prefix: 10.0.0.0/8}])`},
		{"intercept twice", entry, inEntry(`mode: transparent, `+steer) + `
  - {name: b, listen: "192.0.2.2:443", mode: transparent, interfaces: [eth0, eth1], intercept: {destinations: [10.0.0.0/8, 203.0.113.0/24], ports: [400-500]}, via: [there]}`,
			`f:8:124: entries[1].intercept.destinations[1]: 203.0.113.0/24 is intercepted by entries[0] already, at the same interface and port (in one of them)`},
		{"prefix without length", "203.0.113.0/24", "203.0.113.5",
			`f:8:18: allow[0].prefix: "203.0.113.5" has no length (203.0.113.5/32)`},
		{"prefix with bits after its length", "203.0.113.0/24", "203.0.113.5/24",
			`f:8:18: allow[0].prefix: "203.0.113.5/24" has bits set after its length (203.0.113.0/24)`},
		{"prefix of IPv4 in IPv6", "203.0.113.0/24", `"::ffff:203.0.113.0/120"`,
			`f:8:18: allow[0].prefix: "::ffff:203.0.113.0/120" is an IPv4 address written as IPv6 (such as 192.0.2.0/24 or 2001:db8::/48)`},
		{"prefix in words", "203.0.113.0/24", "all",
			`f:8:18: allow[0].prefix: "all" is not address/length (such as 192.0.2.0/24 or 2001:db8::/48)`},
		{"port 0", "ports: [443]", "ports: [0]",
			`f:8:42: allow[0].ports[0]: "0" is not a port (such as 443 or 8000-8100, from 1 to 65535)`},
		{"port with a leading zero", "ports: [443]", "ports: [0443]",
			`f:8:42: allow[0].ports[0]: "0443" is not a port (such as 443 or 8000-8100, from 1 to 65535)`},
		{"port 65536", "ports: [443]", "ports: [65536]",
			`f:8:42: allow[0].ports[0]: "65536" is not a port (such as 443 or 8000-8100, from 1 to 65535)`},
		{"ports the wrong way round", "ports: [443]", "ports: [8100-8000]",
			`f:8:42: allow[0].ports[0]: "8100-8000" ends before it begins (8000-8100)`},
		{"ports without end", "ports: [443]", "ports: [8000-]",
			`f:8:42: allow[0].ports[0]: "8000-" is not a port (such as 443 or 8000-8100, from 1 to 65535)`},
		{"port that is no list", "ports: [443]", "ports: 443",
			`f:8:41: allow[0].ports: must be a list: [443]`},
		{"no ports", "ports: [443]", "ports: []",
			`f:8:41: allow[0].ports: is an empty list (at least one entry)`},
		{"more ports than can be told apart", "ports: [443]", "ports: [" + strings.Repeat("1, ", 16) + "1]",
			`f:8:41: allow[0].ports: has 17 entries (at most 16)`},
		{"name of an interface", entry, inEntry("interfaces: [a/b]"),
			`f:7:44: entries[0].interfaces[0]: "a/b" is not the name of an interface (such as eth0)`},
		{"interface twice", entry, inEntry("interfaces: [eth0, eth0]"),
			`f:7:50: entries[0].interfaces[1]: "eth0" is there twice (each value once)`},
		{"early SYN of mode proxy", entry, inEntry("mode: proxy, early_syn: optimistic, interfaces: [eth1], via: [there]"),
			`f:7:55: entries[0].early_syn: needs mode plain or transparent: in mode proxy the SYN does not tell the destination (early_syn: off)`},
		{"early SYN of mode socks5", entry, inEntry("mode: socks5, early_syn: optimistic, interfaces: [eth1], via: [there]"),
			`f:7:56: entries[0].early_syn: needs mode plain or transparent: in mode socks5 the SYN does not tell the destination (early_syn: off)`},
		{"connect-first of mode connect", entry, inEntry("mode: connect, early_syn: connect-first, interfaces: [eth1], via: [there]"),
			`f:7:57: entries[0].early_syn: needs mode plain or transparent: in mode connect the SYN does not tell the destination (early_syn: off)`},
		{"early SYN without intercept", entry, inEntry("mode: transparent, early_syn: optimistic, interfaces: [eth1], via: [there]"),
			`f:7:61: entries[0].early_syn: needs intercept, which selects the SYNs (intercept: {destinations: [...], ports: [...]})`},
		{"early SYN without interfaces", entry, inEntry(`destination: "203.0.113.5:443", early_syn: optimistic, via: [there]`),
			`f:7:6: entries[0].interfaces: is missing (the interfaces towards clients, for intercept and early_syn)`},
		{"early SYN in words", entry, inEntry("early_syn: true"),
			`f:7:42: entries[0].early_syn: "true" is not a kind of early SYN (off, optimistic or connect-first)`},
		{"via nobody", entry, inEntry(`destination: "203.0.113.5:443", via: []`),
			`f:7:68: entries[0].via: is an empty list (at least one entry)`},
		{"via that is no list", "via: [there]", "via: there",
			`f:7:68: entries[0].via: "there" is not a list of relays ([there], or auto)`},
		{"via a stranger", "via: [there]", "via: [mumbai]",
			`f:7:69: entries[0].via[0]: "mumbai" is not a peer (peers: [{name: mumbai, address: ...}])`},
		{"via somebody misspelt", "via: [there]", "via: [theer]",
			`f:7:69: entries[0].via[0]: "theer" is not a peer (did you mean there?)`},
		{"via this relay", "via: [there]", "via: [there, here]",
			`f:7:76: entries[0].via[1]: "here" is this relay itself (the relays after it)`},
		{"via one relay twice", "via: [there]", "via: [there, far, there]",
			`f:7:81: entries[0].via[2]: "there" is there twice (each value once)`},
		{"via too many", "via: [there]", "via: [there, b, c, d, e, f, g, h]",
			`f:7:68: entries[0].via: has 8 entries (at most 7)`},
		{"client address", entry, inEntry("client_address: proxy"),
			`f:7:47: entries[0].client_address: "proxy" is not a client address (relay, transparent or proxy-v2)`},
		{"congestion of an entry", entry, inEntry("congestion: ''"),
			`f:7:43: entries[0].congestion: is empty (at least one character)`},

		// Allow.
		{"allow without prefix", allow, "{ports: [443]}",
			`f:8:10: allow[0].prefix: is missing (prefix: 192.0.2.0/24)`},
		{"trunks that lead nowhere", minimal, "name: a\ntrunks: {listen: [\"192.0.2.1:7000\"], plaintext: {secret_file: /s}}\n",
			`f:2:10: trunks: accept flows that have no destination: allow is empty, and there are no peers (allow: [{prefix: ...}])`},
		{"an entry that leads nowhere", minimal, "name: a\nentries: [{mode: socks5, listen: \"127.0.0.1:1080\"}]\n",
			`f:2:12: entries[0]: has no via, and allow is empty (via: [...], or allow: [{prefix: ...}])`},
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
