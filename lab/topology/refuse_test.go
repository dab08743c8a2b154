package topology

import (
	"strings"
	"testing"

	"baton/document/documenttest"
)

// TestParseRefuses holds each kind of fault against the whole line that a user reads.
func TestParseRefuses(t *testing.T) {
	host := func(s string) string { return "hosts:\n  h: " + s + "\n" }
	link := func(s string) string { return "hosts: {a: , b: , c: }\nlinks:\n  - " + s + "\n" }
	two := func(a, b string) string {
		return link("{a: {host: a, addresses: [" + a + "]}, b: {host: b, addresses: [" + b + "]}}")
	}
	tests := []struct{ name, text, want string }{
		// The file as such.
		{"empty", "", `f:1:1: is empty (at least hosts)`},
		{"two documents", "hosts: {a: }\n---\nhosts: {b: }\n", `f:3:1: a second document begins here (one document in a file)`},
		{"list", "- a\n", `f:1:1: is a list (a mapping with hosts and links)`},
		{"not YAML", "hosts: [\n", `f:1:8: is not YAML: sequence end token ']' not found`},
		{"key twice", "hosts:\n  a:\n  a:\n", `f:3:3: hosts.a: is given twice, first on line 2 (keep one of them)`},
		{"tag", "hosts: !x {a: }\n", `f:1:8: hosts: tags are not used here (the value without !x)`},
		{"alias of nothing", "hosts: *x\n", `f:1:8: hosts: no anchor &x before this alias`},
		{"too large", strings.Repeat("#", rules.Bytes+1), `f: is too large (at most 1 MiB)`},

		// Keys.
		{"unknown key", "hsts: {a: }\n", `f:1:1: hsts: is not a key (did you mean hosts?)`},
		{"unknown key, nothing near", "hosts: {a: }\nservers: {}\n", `f:2:1: servers: is not a key (one of name, routing, hosts, bridges, switches, links, anycast)`},
		{"unknown key of a host", host("{forwards: true}"), `f:2:7: hosts.h.forwards: is not a key (did you mean forward?)`},
		{"unknown key of a link", link("{a: a, b: b, dealy: 1ms}"), `f:3:18: links[0].dealy: is not a key (did you mean delay?)`},
		{"unknown key of a direction", link("{a: a, b: b, a_to_b: {mtu: 3}}"), `f:3:27: links[0].a_to_b.mtu: is not a key (one of rate, delay, jitter, loss, burst, duplicate, corrupt, reorder, behind, within, seed, queue)`},
		{"no value", host("{addresses: }"), `f:2:7: hosts.h.addresses: has no value (leave the key out for the default)`},
		{"no hosts", "links: []\n", `f:1:1: hosts: is missing (hosts: {NAME: ...})`},
		{"no host", "hosts: {}\n", `f:1:8: hosts: has no host (at least one)`},
		{"hosts as a list", "hosts: [a]\n", `f:1:8: hosts: is a list (a mapping by name)`},
		{"neither true nor false", host("{forward: yes}"), `f:2:16: hosts.h.forward: "yes" is not a boolean (true or false)`},
		{"routing", "routing: ospf\nhosts: {a: }\n", `f:1:10: routing: "ospf" is not known (shortest-path or explicit)`},

		// Names.
		{"lab name", "name: My Lab\nhosts: {a: }\n", `f:1:7: name: "My Lab" is no name here (a letter, then letters, digits and -, all lower case, 32 at most)`},
		{"host name", "hosts:\n  Web_1:\n", `f:2:3: hosts.Web_1: "Web_1" is no name here (a letter, then letters, digits and -, all lower case, 32 at most)`},
		{"long host name", "hosts:\n  " + strings.Repeat("h", 33) + ":\n", `f:2:3: hosts.` + strings.Repeat("h", 33) + `: "` + strings.Repeat("h", 33) + `" is no name here (a letter, then letters, digits and -, all lower case, 32 at most)`},
		{"bridge named as a host", "hosts: {a: }\nbridges: {a: }\n", `f:2:11: bridges.a: is the name of a host too (a name of its own)`},
		{"unknown host", link("{a: a, b: d}"), `f:3:15: links[0].b: there is no host "d"`},
		{"misspelt host", "hosts: {client: , server: }\nlinks:\n- {a: client, b: {host: sever}}\n", `f:3:25: links[0].b.host: there is no host "sever" (did you mean server?)`},
		{"interface name", link("{a: {host: a, interface: sixteen-letters-}, b: b}"), `f:3:30: links[0].a.interface: "sixteen-letters-" is no name here (a letter, then letters, digits and . _ -, 15 at most)`},
		{"loopback's name", link("{a: {host: a, interface: lo}, b: b}"), `f:3:30: links[0].a.interface: "lo" is taken (such as eth0 or wan)`},
		{"interface twice", link("{a: {host: a, interface: x}, b: {host: a, interface: x}}"), `f:3:58: links[0].b.interface: a has "x" at link a-a already (a name of its own)`},
		{"link name twice", "hosts: {a: , b: }\nlinks:\n- {name: x, a: a, b: b}\n- {name: x, a: a, b: b}\n", `f:4:10: links[1].name: "x" is the name of an earlier link (a name of its own)`},
		{"link without an end", link("{a: a}"), `f:3:6: links[0].b: is missing (b: ...)`},
		{"process name", host("{processes: {a/b: x}}"), `f:2:19: hosts.h.processes.a/b: "a/b" is no name here (letters, digits and . _ -, 32 at most)`},

		// Addresses.
		{"no prefix length", two("10.0.0.1", "10.0.0.2/24"), `f:3:31: links[0].a.addresses[0]: "10.0.0.1" is not an address with the length of its prefix (such as 10.1.0.2/24 or "fd01::2/64")`},
		{"network address", two("10.0.0.0/24", "10.0.0.2/24"), `f:3:31: links[0].a.addresses[0]: "10.0.0.0/24" is the network or the broadcast address of its prefix (an address between them)`},
		{"broadcast address", two("10.0.3.255/22", "10.0.0.2/22"), `f:3:31: links[0].a.addresses[0]: "10.0.3.255/22" is the network or the broadcast address of its prefix (an address between them)`},
		{"multicast", two("224.0.0.1/24", "10.0.0.2/24"), `f:3:31: links[0].a.addresses[0]: "224.0.0.1/24" is not a unicast address (the address of one host)`},
		{"no address is left", "hosts: {a: , b: , c: }\nlinks:\n  - {a: {host: a, addresses: [10.0.0.1/8]}, b: {host: b, addresses: [10.0.0.2/8]}}\n  - {a: b, b: c}\n", `f:4:9: links[1].a: gets no addresses, as those of others fill 10.0.0.0/8 or fd00::/48 (addresses of its own)`},
		{"link-local", two(`"fe80::1/64"`, "10.0.0.2/24"), `f:3:31: links[0].a.addresses[0]: "fe80::1/64" is a link-local address, which the kernel gives (the address of one host)`},
		{"the same at both ends", two("10.0.0.1/24", "10.0.0.1/24"), `f:3:71: links[0].b.addresses[0]: 10.0.0.1 is the address of host a already (see anycast for one address on several hosts)`},
		{"two prefixes on a link", two("10.0.0.1/24", "10.0.1.2/24"), `f:3:31: links[0].a.addresses[0]: 10.0.0.1/24 and 10.0.1.2/24 of b are not of one prefix (both ends of a link have the same)`},
		{"two lengths on a link", two("10.0.0.1/24", "10.0.0.2/25"), `f:3:31: links[0].a.addresses[0]: 10.0.0.1/24 and 10.0.0.2/25 of b are not of one prefix (both ends of a link have the same)`},
		{"loopback address with a length", host("{addresses: [10.0.0.1/32]}"), `f:2:19: hosts.h.addresses[0]: "10.0.0.1/32" is not an IP address (such as 10.1.0.2 or "fd01::2")`},
		{"address on two hosts", "hosts:\n  a: {addresses: [10.9.9.9]}\n  b: {addresses: [10.9.9.9]}\n", `f:3:19: hosts.b.addresses[0]: 10.9.9.9 is the address of host a already (see anycast for one address on several hosts)`},
		{"anycast address of a host", "hosts:\n  a: {addresses: [10.9.9.9]}\n  b:\nanycast:\n  10.9.9.9: [b]\n", `f:5:3: anycast."10.9.9.9": 10.9.9.9 is the address of host a already (see anycast for one address on several hosts)`},
		{"one prefix on two links", "hosts: {a: , b: }\nlinks:\n- {a: {host: a, addresses: [10.0.0.1/24]}, b: b}\n- {a: a, b: {host: b, addresses: [10.0.0.2/24]}}\n",
			`f:4:35: links[1].b.addresses[0]: 10.0.0.0/24 overlaps with 10.0.0.0/24 of link a-b (a prefix belongs to one link)`},
		{"a prefix within another", "hosts: {a: , b: }\nlinks:\n- {a: {host: a, addresses: [10.0.8.1/24]}, b: b}\n- {a: a, b: {host: b, addresses: [10.0.0.2/16]}}\n",
			`f:3:29: links[0].a.addresses[0]: 10.0.8.0/24 overlaps with 10.0.0.0/16 of link a-b-2 (a prefix belongs to one link)`},
		{"loopback address on a link", "hosts: {a: {addresses: [10.0.0.7]}, b: }\nlinks:\n- {a: {host: a, addresses: [10.0.0.1/24]}, b: b}\n",
			`f:1:25: hosts.a.addresses[0]: 10.0.0.7/32 overlaps with 10.0.0.0/24 of link a-b (a prefix belongs to one link)`},
		{"anycast on nobody", "hosts: {a: }\nanycast: {10.9.9.9: [x]}\n", `f:2:11: anycast."10.9.9.9": there is no host "x"`},
		{"anycast without hosts", "hosts: {a: }\nanycast: {10.9.9.9: []}\n", `f:2:11: anycast."10.9.9.9": is an empty list (the hosts that have the address)`},
		{"anycast name", "hosts: {a: }\nanycast: {www: [a]}\n", `f:2:11: anycast.www: "www" is not an IP address (such as 10.1.0.2 or "fd01::2")`},
		{"anycast twice on a host", "hosts: {a: }\nanycast: {10.9.9.9: [a, a]}\n", `f:2:11: anycast."10.9.9.9": names a host twice (two hosts)`},
		{"address of a bridge", "hosts: {a: }\nbridges: {lan: }\nlinks:\n- {a: a, b: {host: lan, addresses: [10.0.0.1/24]}}\n",
			`f:4:36: links[0].b.addresses: lan is a bridge, whose ports have no addresses (leave them out)`},
		{"IPv6 in a small MTU", link(`{a: {host: a, addresses: ["fd00::1/64"]}, b: b, mtu: 1000}`), `f:3:31: links[0].a.addresses[0]: the link's mtu, 1000, is too small for IPv6 (1280 at least)`},

		// Links.
		{"rate without unit", link("{a: a, b: b, rate: 100}"), `f:3:24: links[0].rate: "100" is not possible (a number and one of bit, kbit, mbit, gbit, up to 100gbit)`},
		{"rate that is too low", link("{a: a, b: b, rate: 1bit}"), `f:3:24: links[0].rate: 1bit is not possible (1kbit to 100gbit, or 0 for no limit)`},
		{"rate that is too high", link("{a: a, b: b, rate: 101gbit}"), `f:3:24: links[0].rate: "101gbit" is not possible (a number and one of bit, kbit, mbit, gbit, up to 100gbit)`},
		{"delay without unit", link("{a: a, b: b, delay: 20}"), `f:3:25: links[0].delay: "20" is not possible (a number with its unit, such as 20ms)`},
		{"negative delay", link("{a: a, b: b, delay: -20ms}"), `f:3:25: links[0].delay: -20ms is not possible (0 to 1m0s)`},
		{"loss over all", link("{a: a, b: b, loss: 101%}"), `f:3:24: links[0].loss: "101%" is not possible (a number from 0 to 1 or a percentage)`},
		{"jitter over delay", link("{a: a, b: b, delay: 1ms, b_to_a: {jitter: 2ms}}"), `f:3:47: links[0].b_to_a.jitter: 2ms: more than the delay, 1ms`},
		{"queue without rate", link("{a: a, b: b, queue: {packets: 3}}"), `f:3:26: links[0].queue: without a rate nothing ever waits`},
		{"queue discipline", link("{a: a, b: b, rate: 1mbit, queue: {discipline: red}}"), `f:3:39: links[0].queue: discipline "red" is not possible (drop-tail or codel)`},
		{"shape and no emulator", link("{a: a, b: b, rate: 1mbit, emulated: false}"), `f:3:41: links[0].emulated: is false, and the link has a shape (leave it out, or leave out rate, delay, loss, …)`},
		{"mtu", link("{a: a, b: b, mtu: 9}"), `f:3:23: links[0].mtu: "9" is out of range (a whole number from 68 to 65521)`},
		{"loop of bridges", "hosts: {a: }\nbridges: {x: , y: }\nlinks:\n- {a: x, b: y}\n- {a: y, b: x}\n", `f:5:4: links[1]: closes a loop of bridges: y and x are joined already (a tree)`},
		{"bridge to itself", "hosts: {a: }\nbridges: {x: }\nlinks:\n- {a: x, b: x}\n", `f:4:4: links[0]: closes a loop of bridges: x and x are joined already (a tree)`},

		// Routes, settings, processes.
		{"gateway on no link", "hosts: {a: {routes: [{to: default, via: 10.1.0.1}]}, b: }\nlinks: [{a: a, b: b}]\n",
			`f:1:41: hosts.a.routes[0].via: no link of a reaches 10.1.0.1 (a gateway is the far end of a link)`},
		{"gateway is the host", "hosts: {a: {routes: [{to: default, via: 10.0.1.1}]}, b: }\nlinks: [{a: a, b: b}]\n",
			`f:1:41: hosts.a.routes[0].via: no link of a reaches 10.0.1.1 (a gateway is the far end of a link)`},
		{"gateway of the other family", host("{routes: [{to: 10.0.0.0/8, via: \"fd00::1\"}]}"), `f:2:38: hosts.h.routes[0].via: fd00::1 leads to 10.0.0.0/8, which is of the other family (a gateway of the destination's family)`},
		{"two routes", "hosts: {a: {routes: [{to: default, via: 10.0.1.2}, {to: 0.0.0.0/0, via: 10.0.1.2}]}, b: }\nlinks: [{a: a, b: b}]\n",
			`f:1:57: hosts.a.routes[1].to: 0.0.0.0/0 has a route already (one route to each destination)`},
		{"route to a name", host("{routes: [{to: x, via: 10.0.0.1}]}"), `f:2:21: hosts.h.routes[0].to: "x" is not a prefix (default, or such as 10.2.0.0/16)`},
		{"route to a host in a prefix", host("{routes: [{to: 10.2.0.1/16, via: 10.0.0.1}]}"), `f:2:21: hosts.h.routes[0].to: 10.2.0.1/16 has bits beyond its prefix (10.2.0.0/16)`},
		{"route without gateway", host("{routes: [{to: default}]}"), `f:2:17: hosts.h.routes[0].via: is missing (via: ...)`},
		{"sysctl of the machine", host("{sysctls: {kernel.hostname: x}}"), `f:2:17: hosts.h.sysctls."kernel.hostname": is no network setting (such as net.ipv4.tcp_sack)`},
		{"sysctl that climbs", host("{sysctls: {net.../../kernel/hostname: x}}"), `f:2:17: hosts.h.sysctls."net.../../kernel/hostname": is no network setting (such as net.ipv4.tcp_sack)`},
		{"nameservers", host("{resolv: {nameservers: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4]}}"), `f:2:29: hosts.h.resolv.nameservers: has 4 entries (3 at most, as programs ask no more)`},
		{"no command", host("{processes: {p: []}}"), `f:2:22: hosts.h.processes.p: is an empty list (the program and its arguments)`},
		{"process without command", host("{processes: {p: {dir: /}}}"), `f:2:23: hosts.h.processes.p.command: is missing (command: ...)`},
		{"port", host("{processes: {p: {command: x, listens: 0}}}"), `f:2:44: hosts.h.processes.p.listens: "0" is out of range (a whole number from 1 to 65535)`},
		{"relative folder", host("{processes: {p: {command: x, dir: y}}}"), `f:2:40: hosts.h.processes.p.dir: "y" is not an absolute path (such as /srv/www)`},
		{"controller", "hosts: {a: }\nswitches: {s: {controller: 10.0.0.1}}\n", `f:2:28: switches.s.controller: "10.0.0.1" is not where a controller is (such as tcp:10.0.0.1:6653)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse("f", []byte(tt.text))
			if err == nil {
				t.Fatalf("accepted as %+v", got)
			}
			if !documenttest.Reported(err, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", err, tt.want)
			}
		})
	}
}
