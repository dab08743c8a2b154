package kernels

import (
	"strings"
	"time"
)

// labs are tests of each part in networks, that judge by results and bear a machine that is 20 times slower: at most 25.
var labs = []struct{ part, pkg, tests, shows string }{
	{"router", "router/test", "^TestTLS$", "TLS sessions go to surrogates by name and ALPN, spliced, IPv4 and IPv6"},
	{"router", "router/test", "^TestQUIC$", "QUIC connections (v1, v2) go to surrogates by name, IPv4 and IPv6"},
	{"router", "router/test", "^TestQUICRestart$", "QUIC connections outlive a restart of the router"},
	{"router", "router/test", "^TestHTTP3$", "HTTP/3 by name with a real server"},
	{"router", "router/test", "^TestReload$", "reload with live sessions: routes, pools, VIPs come and go; a bad file changes nothing"},
	{"router", "router/test", "^TestKill$", "kill -9 and restart, twice, with live sessions (50 with -test.short, else 1000)"},
	{"router", "router/test", "^TestUpgrade$", "end, and start of another version (baton-upgraded) with 50 live sessions"},
	{"router", "router/test", "^TestCleanup$", "end and kill -9: cleanup ends what is left"},
	{"router", "router/test", "^TestFirstClients$", "clients that connect while the router starts are spliced; control socket reload"},
	{"get", "resume", "^TestSurrogates$", "downloads resume at other real servers"},
	{"router", "router/test", "^TestUnitsPrivileges$", "the capabilities of the unit suffice"},
	{"relay", "relay", "^TestEarlyFaults$/in_time_false", "early SYN, optimistic and connect-first, and each fault before SYN-ACK; flows work afterwards"},
	{"relay", "relay", "^TestTwice$", "relays with plain and intercepting entries; a second one changes nothing"},
	{"forwarder", "forwarder", "^TestStandalone$", "entries by ovs-ofctl; standalone without a controller"},
	{"forwarder", "forwarder", "^TestKilled$", "kill -9 and restart with ovs-ofctl: packets pass, rules are kept"},
	{"forwarder", "forwarder", "^TestPacketOut$", "packet-out by OpenFlow"},
	{"balance", "balance", "^TestSpread$", "flows are spread over links, each datapath"},
	{"balance", "balance", "^TestKilled$", "kill -9 of a balance with live flows"},
	{"purge", "purge", "^TestMoved$/^IPv[46]$", "stalled connections of a client that has moved are purged"},
	{"get", "cmd/baton", "^TestGet$", "a download that breaks continues"},
	{"controller", "controller/network", "^TestLine$", "topology and paths over forwarders and Open vSwitch"},
	{"name server", "cmd/baton-cdn", "^TestNameserverInLab$", "the name server as its unit runs it: answers by health"},
	{"controller", "examples/handoff-openflow", "^TestHandoff$", "the controller hands a session over in Open vSwitch and the forwarder; also with 1 % loss"},
	{"anycast", "anycast", "^TestDrainMovesTheRoute$", "a drain moves the route"},
}

// servers are the packages of Debian that the labs run.
var servers = []string{
	"apache2-bin", "bind9-dnsutils", "bird2", "caddy", "haproxy", "iperf3", "nginx", "openssl", "openvswitch-switch", "python3-minimal", "varnish",
}

// demoServers are those of the demo.
var demoServers = []string{"caddy", "haproxy", "nginx", "openssl", "python3-minimal"}

// labSteps are the labs as steps, without what holds only where thousands of connections fit (-short).
func labSteps() []step {
	var all []step
	for _, l := range labs {
		name := strings.TrimSuffix(l.pkg, "/test") + " " + l.tests
		all = append(all, step{name: name, part: l.part, shows: l.shows, pkg: l.pkg, tests: l.tests, bound: 10 * time.Minute})
	}
	return all
}
