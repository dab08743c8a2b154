package config

import (
	"errors"
	"strings"
	"testing"

	"baton/document/documenttest"
)

// TestParseRefuses holds each kind of fault against the whole line that a user reads.
func TestParseRefuses(t *testing.T) {
	const ports, controller, listener = "{1: eth1, 2: eth2}", "tcp:127.0.0.1:6653", "unix:/run/edge.mgmt"
	top := func(s string) string { return s + "\nname:" }
	tests := []struct {
		name, old, new, want string
	}{
		// The file as such.
		{"empty file", minimal, "", `f:1:1: is empty (at least ports)`},
		{"a list", minimal, "- a\n", `f:1:1: is a list (a mapping with ports)`},
		{"two documents", minimal, "ports: [a]\n---\nb: 2\n", `f:3:1: a second document begins here (one document in a file)`},
		{"unknown key", "ports:", "port:", `f:2:1: port: is not a key (did you mean ports?)`},
		{"unknown key, nothing near", "name:", "bridge: x\nname:", `f:1:1: bridge: is not a key (one of name, datapath_id, ports, local, controllers, listen, tls, fail_mode, normal, retry, limits, state, metrics, control, datapaths)`},
		{"no ports", "ports: " + ports + "\n", "", `f:1:1: ports: is missing (ports: {NAME: eth0})`},
		{"key twice", "name:", "name: a\nname:", `f:2:1: name: is given twice, first on line 1 (keep one of them)`},

		// What the forwarder is.
		{"name in capitals", "edge", "Edge", `f:1:7: name: "Edge" is no name here (at most 10 of a-z, 0-9 and, in between, -)`},
		{"name that is too long", "edge", "edge-switch", `f:1:7: name: "edge-switch" is no name here (at most 10 of a-z, 0-9 and, in between, -)`},
		{"name that begins with -", "edge", "-edge", `f:1:7: name: "-edge" is no name here (at most 10 of a-z, 0-9 and, in between, -)`},
		{"datapath id 0", "name:", top("datapath_id: 0x0"), `f:1:14: datapath_id: "0x0" is not a datapath id (from 1 to 0xffffffffffffffff)`},
		{"datapath id in words", "name:", top("datapath_id: one"), `f:1:14: datapath_id: "one" is not a datapath id (from 1 to 0xffffffffffffffff)`},
		{"datapath id of 65 bits", "name:", top("datapath_id: 0x1ffffffffffffffff"), `f:1:14: datapath_id: "0x1ffffffffffffffff" is not a datapath id (from 1 to 0xffffffffffffffff)`},
		{"datapath id as Open vSwitch shows it", "name:", top("datapath_id: 0000000000000010"), `f:1:14: datapath_id: "0000000000000010" may be decimal or not (0x before what is hexadecimal, no 0 before what is not)`},
		{"metrics without port", "name:", top("metrics: localhost"), `f:1:10: metrics: "localhost" is not host:port (such as "127.0.0.1:9410")`},
		{"metrics on port 0", "name:", top(`metrics: ":0"`), `f:1:10: metrics: ":0" has no port from 1 to 65535 (such as "127.0.0.1:9410")`},
		{"relative state", "name:", top("state: x"), `f:1:8: state: "x" is not usable as a path (an absolute path of at most 4095 bytes)`},
		{"control longer than sun_path", "name:", top("control: /" + strings.Repeat("x", 107)),
			`f:1:10: control: "/` + strings.Repeat("x", 76) + `..." is not usable as a path (an absolute path of at most 107 bytes)`},
		{"fail mode", "name:", top("fail_mode: open"), `f:1:12: fail_mode: "open" is not a mode (secure or standalone)`},

		// Ports.
		{"no port", ports, "[]", `f:2:8: ports: is an empty list (at least one entry)`},
		{"no port by number", ports, "{}", `f:2:8: ports: is an empty mapping (at least one port)`},
		{"one port as a value", ports, "eth1", `f:2:8: ports: is a single value (interfaces by number, or a list of interfaces)`},
		{"port 0", ports, "{0: eth1}", `f:2:9: ports.0: "0" is not the number of a port (from 1 to 65279)`},
		{"port in words", ports, "{one: eth1}", `f:2:9: ports.one: "one" is not the number of a port (from 1 to 65279)`},
		{"port with a leading zero", ports, "{01: eth1}", `f:2:9: ports.01: "01" is not the number of a port (from 1 to 65279)`},
		{"port that is reserved", ports, "{65280: eth1}", `f:2:9: ports.65280: "65280" is not the number of a port (from 1 to 65279)`},
		{"port without interface", ports, "{1: }", `f:2:9: ports.1: has no value (the name of an interface)`},
		{"port twice", ports, "{1: eth1, 1: eth2}", `f:2:18: ports.1: is given twice, first on line 2 (keep one of them)`},
		{"interface twice", ports, "{1: eth1, 2: eth1}", `f:2:21: ports.2: "eth1" is port 1 already (an interface is one port)`},
		{"interface twice in a list", ports, "[eth1, eth1]", `f:2:15: ports[1]: "eth1" is port 1 already (an interface is one port)`},
		{"name of an interface", ports, "[a/b]", `f:2:9: ports[0]: "a/b" is not the name of an interface (such as eth0)`},
		{"name of an interface that is too long", ports, "[abcdefghijklmnop]", `f:2:9: ports[0]: "abcdefghijklmnop" is not the name of an interface (such as eth0)`},
		{"local is a port", "name:", top("local: eth2"), `f:1:8: local: "eth2" is port 2 already (a name of its own: the forwarder makes it)`},

		{"port without interface in a mapping", ports, "{1: {side: host}}", `f:2:13: ports.1.interface: is missing (interface: eth0)`},
		{"side", ports, "{1: {interface: bal0, side: inside}}", `f:2:36: ports.1.side: "inside" is not a side (network or host)`},
		{"key of a port", ports, "{1: {interface: bal0, mtu: 1400}}", `f:2:30: ports.1.mtu: is not a key (one of interface, side)`},
		{"normal", "name:", top("normal: host"), `f:1:9: normal: "host" is not what NORMAL can be (bridge or stack)`},

		// Endpoints.
		{"no method", controller, "127.0.0.1:6653", `f:4:5: controllers[0]: "127.0.0.1:6653" is not an endpoint (tcp:HOST:PORT, tls:HOST:PORT or unix:PATH)`},
		{"as Open vSwitch has TLS", controller, "ssl:127.0.0.1:6653", `f:4:5: controllers[0]: "ssl:127.0.0.1:6653" is not an endpoint (tls:HOST:PORT)`},
		{"as Open vSwitch listens", listener, "ptcp:6654:127.0.0.1", `f:5:10: listen[0]: "ptcp:6654:127.0.0.1" is not an endpoint (tcp:HOST:PORT)`},
		{"as Open vSwitch listens on a path", listener, "punix:/run/x", `f:5:10: listen[0]: "punix:/run/x" is not an endpoint (unix:PATH)`},
		{"no port number", controller, "tcp:127.0.0.1", `f:4:5: controllers[0]: "tcp:127.0.0.1" is not host:port (such as tcp:127.0.0.1:6653; an IPv6 address in [brackets])`},
		{"port number 0", controller, "tcp:127.0.0.1:0", `f:4:5: controllers[0]: "tcp:127.0.0.1:0" has no port from 1 to 65535 (such as tcp:127.0.0.1:6653; an IPv6 address in [brackets])`},
		{"IPv6 without brackets", controller, "tcp:::1:6653", `f:4:5: controllers[0]: "tcp:::1:6653" is not host:port (such as tcp:127.0.0.1:6653; an IPv6 address in [brackets])`},
		{"no host", controller, "tcp::6653", `f:4:5: controllers[0]: "tcp::6653" names no host (such as tcp:127.0.0.1:6653)`},
		{"odd host", controller, "tcp:a b:6653", `f:4:5: controllers[0]: "tcp:a b:6653" names no host (such as tcp:127.0.0.1:6653)`},
		{"listen at a name", listener, "tcp:localhost:6654", `f:5:10: listen[0]: "tcp:localhost:6654" listens at no address (such as tcp:127.0.0.1:6654, or tcp::6654 for all addresses)`},
		{"relative path", listener, "unix:edge", `f:5:10: listen[0]: "unix:edge" has no usable path (unix: and an absolute path of at most 107 bytes)`},
		{"controller twice", "- " + controller, "- " + controller + "\n  - " + controller, `f:5:5: controllers[1]: "tcp:127.0.0.1:6653" is there twice (each endpoint once)`},
		{"listener is the control socket", listener, "unix:/run/baton/forwarder-edge.sock", `f:5:10: listen[0]: "/run/baton/forwarder-edge.sock" is the control socket already (a path of its own)`},
		{"controller without connect", controller, "{role: any}", `f:4:6: controllers[0].connect: is missing (connect: ...)`},
		{"listener without at", listener, "{role: any}", `f:5:11: listen[0].at: is missing (at: ...)`},
		{"controllers as a value", "\n  - " + controller, " " + controller, `f:3:14: controllers: must be a list: [tcp:127.0.0.1:6653]`},
		{"role", controller, "{connect: unix:/x, role: master}", `f:4:30: controllers[0].role: "master" is not a role here (any or slave)`},
		{"idle of nothing", controller, "{connect: unix:/x, idle: 1ms}", `f:4:30: controllers[0].idle: "1ms" is out of range (from 100ms to 1h0m0s)`},
		{"dead before idle", controller, "{connect: unix:/x, idle: 5s, dead: 5s}", `f:4:40: controllers[0].dead: 5s is not above idle, which is 5s (time for an answer to the echo)`},
		{"name without TLS", controller, "{connect: unix:/x, name: x}", `f:4:30: controllers[0].name: is for tls alone (connect: tls:HOST:PORT)`},
		{"odd name", controller, "{connect: unix:/x, name: x/y}", `f:4:30: controllers[0].name: "x/y" is not the name of a host (such as controller.example.net)`},

		// TLS, retry, limits.
		{"TLS without certificates", controller, "tls:127.0.0.1:6653", `f:4:5: controllers[0]: "tls:127.0.0.1:6653" needs certificates (tls: {certificate: ..., key: ..., authority: ...})`},
		{"TLS listener without certificates", listener, "tls:127.0.0.1:6653", `f:5:10: listen[0]: "tls:127.0.0.1:6653" needs certificates (tls: {certificate: ..., key: ..., authority: ...})`},
		{"no authority", "name:", top("tls: {certificate: /c, key: /k}"), `f:1:7: tls.authority: is missing (authority: /path/to/file)`},
		{"relative certificate", "name:", top("tls: {certificate: c}"), `f:1:20: tls.certificate: "c" is not usable as a path (an absolute path of at most 4095 bytes)`},
		{"max below min", "name:", top("retry: {min: 2s, max: 1s}"), `f:1:23: retry.max: 1s is below min, which is 2s (min at most max)`},
		{"retry at once", "name:", top("retry: {min: 1ms}"), `f:1:14: retry.min: "1ms" is out of range (from 10ms to 1h0m0s)`},
		{"retry without unit", "name:", top("retry: {min: 1}"), `f:1:14: retry.min: "1" is not a duration (a number with its unit, such as 500ms, 10s or 1h)`},
		{"no tables", "name:", top("limits: {tables: 0}"), `f:1:18: limits.tables: "0" is out of range (a whole number from 1 to 255)`},
		{"too many entries", "name:", top("limits: {entries: 4194305}"), `f:1:19: limits.entries: "4194305" is out of range (a whole number from 1 to 4194304)`},
		{"less than no bindings", "name:", top("limits: {bindings: -1}"), `f:1:20: limits.bindings: "-1" is out of range (a whole number from 0 to 4194304)`},
		{"too many bindings", "name:", top("limits: {bindings: 4194305}"), `f:1:20: limits.bindings: "4194305" is out of range (a whole number from 0 to 4194304)`},
		{"no channels", "name:", top("limits: {channels: 0}"), `f:1:20: limits.channels: "0" is out of range (a whole number from 1 to 1024)`},
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
