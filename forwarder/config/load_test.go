package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// minimal is the least that a useful file can say; tests put their fault into a copy of it.
const minimal = `name: edge
ports: {1: eth1, 2: eth2}
controllers:
  - tcp:127.0.0.1:6653
listen: [unix:/run/edge.mgmt]
`

func TestParseDefaults(t *testing.T) {
	got, err := Parse("/etc/baton/Edge_1.new.yaml", []byte("ports: [eth1, eth2]\ncontrollers: [tcp:192.0.2.1:6653]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		File: "/etc/baton/Edge_1.new.yaml", Name: "edge-1-new", Ports: []Port{{No: 1, Interface: "eth1"}, {No: 2, Interface: "eth2"}},
		Controllers: []Controller{{Connect: Endpoint{"tcp", "192.0.2.1:6653"}, Peers: Peers{Idle: 5 * time.Second, Dead: 15 * time.Second}}},
		FailMode:    Secure, Retry: Retry{100 * time.Millisecond, 8 * time.Second},
		Limits:  Limits{Tables: 254, Entries: 131072, Groups: 4096, Meters: 4096, Cache: 65536, Channels: 64, Upcalls: 4 << 20},
		Control: "/run/baton/forwarder-edge-1-new.sock",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

// everything sets each key that there is, to something else than its default.
const everything = `name: core-7
datapath_id: 0xdeadbeef
ports: {10: bond0, 1: eth1.5, 2: {interface: bal0, side: host}, 3: {interface: eth3, side: network}}
local: sw0
controllers:
  - {connect: "tls:controller.example.net:6653", name: controller.example.net, role: slave, idle: 1s, dead: 2s}
  - {connect: "unix:/run/controller", role: any, dead: 3s}
  - "tcp:[2001:db8::1]:6653"
listen:
  - tcp::6654
  - {at: "tls:[::]:6655", idle: 1m}
  - {at: unix:/run/baton/core.openflow, role: slave}
tls: {certificate: /c.pem, key: /k.pem, authority: /a.pem}
fail_mode: standalone
normal: stack
retry: {min: 1s, max: 2s}
limits: {tables: 2, entries: 3, groups: 4, meters: 5, cache: 6, channels: 7, bindings: 8, upcalls: 1MiB}
metrics: "[::1]:9410"
control: /run/c.sock
state: /var/lib/x
`

func TestParseEveryKey(t *testing.T) {
	got, err := Parse("f", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		File: "f", Name: "core-7", DatapathID: 0xdeadbeef, Local: "sw0",
		Ports: []Port{{No: 1, Interface: "eth1.5"}, {No: 2, Interface: "bal0", HostSide: true}, {No: 3, Interface: "eth3"}, {No: 10, Interface: "bond0"}},
		Controllers: []Controller{
			{
				Connect: Endpoint{"tls", "controller.example.net:6653"}, Name: "controller.example.net",
				Peers: Peers{ReadOnly: true, Idle: time.Second, Dead: 2 * time.Second},
			},
			{Connect: Endpoint{"unix", "/run/controller"}, Peers: Peers{Idle: time.Second, Dead: 3 * time.Second}},
			{Connect: Endpoint{"tcp", "[2001:db8::1]:6653"}, Peers: Peers{Idle: 5 * time.Second, Dead: 15 * time.Second}},
		},
		Listen: []Listener{
			{Listen: Endpoint{"tcp", ":6654"}, Peers: Peers{Idle: 5 * time.Second, Dead: 15 * time.Second}},
			{Listen: Endpoint{"tls", "[::]:6655"}, Peers: Peers{Idle: time.Minute, Dead: 3 * time.Minute}},
			{Listen: Endpoint{"unix", "/run/baton/core.openflow"}, Peers: Peers{ReadOnly: true, Idle: 5 * time.Second, Dead: 15 * time.Second}},
		},
		TLS: &TLS{"/c.pem", "/k.pem", "/a.pem"}, FailMode: Standalone, NormalStack: true, Retry: Retry{time.Second, 2 * time.Second},
		Limits:  Limits{Tables: 2, Entries: 3, Groups: 4, Meters: 5, Cache: 6, Channels: 7, Bindings: 8, Upcalls: 1 << 20},
		Metrics: "[::1]:9410", Control: "/run/c.sock", State: "/var/lib/x",
		Warnings: []string{"f:10:5: listen[0]: anyone who can reach tcp::6654 controls the forwarder: tls requires a certificate"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

func TestParseForms(t *testing.T) {
	tests := []struct {
		name, old, new string
		got            func(*Config) any
		want           any
	}{
		{"decimal datapath id", "name:", "datapath_id: 42\nname:", func(c *Config) any { return c.DatapathID }, uint64(42)},
		{"longest datapath id", "name:", "datapath_id: 0xffffffffffffffff\nname:", func(c *Config) any { return c.DatapathID }, ^uint64(0)},
		{"name of one character", "edge", "e", func(c *Config) any { return c.Name }, "e"},
		{"min above the default of max", "name:", "retry: {min: 9s}\nname:", func(c *Config) any { return c.Retry },
			Retry{9 * time.Second, 9 * time.Second}},
		{"max below the default of min", "name:", "retry: {max: 50ms}\nname:", func(c *Config) any { return c.Retry },
			Retry{50 * time.Millisecond, 50 * time.Millisecond}},
		{"ports in a list of both forms", "{1: eth1, 2: eth2}", "[eth1, {interface: bal0, side: host}]", func(c *Config) any { return c.Ports[1] },
			Port{No: 2, Interface: "bal0", HostSide: true}},
		{"port as a mapping without a side", "{1: eth1, 2: eth2}", "{7: {interface: eth7}}", func(c *Config) any { return c.Ports[0] },
			Port{No: 7, Interface: "eth7"}},
		{"normal as it is", "name:", "normal: bridge\nname:", func(c *Config) any { return c.NormalStack }, false},
		{"no memory of flows", "name:", "limits: {bindings: 0}\nname:", func(c *Config) any { return c.Limits.Bindings }, 0},
		{"no controllers", "  - tcp:127.0.0.1:6653", "  []", func(c *Config) any { return len(c.Controllers) }, 0},
		{"host name", "127.0.0.1", "localhost", func(c *Config) any { return c.Controllers[0].Connect.String() }, "tcp:localhost:6653"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := Parse("f", []byte(strings.Replace(minimal, tt.old, tt.new, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.got(cfg); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestParseWarns(t *testing.T) {
	tests := []struct {
		name, old, new string
		want           []string
	}{
		{"nothing", "", "", nil},
		{"open to everyone", "unix:/run/edge.mgmt", "\"tcp:[::]:6654\"",
			[]string{"f:5:10: listen[0]: anyone who can reach tcp:[::]:6654 controls the forwarder: tls requires a certificate"}},
		{"loopback", "unix:/run/edge.mgmt", "\"tcp:[::1]:6654\"", nil},
		{"nobody to listen to", "  - tcp:127.0.0.1:6653\nlisten: [unix:/run/edge.mgmt]", "  []",
			[]string{"f:1:1: controllers: no controller can configure the forwarder: it drops every packet"}},
		{"retry without controllers", "  - tcp:127.0.0.1:6653", "  []\nretry: {max: 1s}",
			[]string{"f:5:9: retry: is for controllers, and there are none"}},
		{"certificates without use", "name:", "tls: {certificate: /c, key: /k, authority: /a}\nname:",
			[]string{"f:1:7: tls: no controller and no listener uses it"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := Parse("f", []byte(strings.Replace(minimal, tt.old, tt.new, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, cfg.Warnings, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := write("edge.yaml", minimal)
	cfg, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := cfg.File, path; got != want {
		t.Errorf("File = %q, want %q", got, want)
	}
	if _, err := Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load of no file: %v, want os.ErrNotExist", err)
	}
	if _, err := Load(write("large.yaml", strings.Repeat("#", rules.Bytes+1))); err == nil || !strings.Contains(err.Error(), "is too large") {
		t.Errorf("Load of %d bytes: %v, want too large", rules.Bytes+1, err)
	}

	empty := write("empty.pem", "")
	secured := write("tls.yaml", minimal+"tls:\n  certificate: /none/c.pem\n  key: "+empty+"\n  authority: "+empty+"\n")
	want := secured + `:7:16: tls.certificate: "/none/c.pem": no such file or directory (create it, or name another file)
` +
		secured + `:9:14: tls.authority: "` + empty + `": no certificate in it (a PEM file with certificates)`
	if _, err := Load(secured); err == nil || err.Error() != want {
		t.Errorf("Load:\n got %v\nwant %s", err, want)
	}
	secured = write("tls.yaml", minimal+"tls:\n  certificate: "+empty+"\n  key: "+empty+"\n  authority: "+empty+"\n")
	want = secured + `:7:16: tls.certificate: "` + empty + `" with key "` + empty + `": tls: failed to find any PEM data in certificate input`
	if _, err := Load(secured); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("Load:\n got %v\nwant %s", err, want)
	}
}

func TestExamplesParse(t *testing.T) {
	files, err := filepath.Glob("../../examples/forwarder/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 3 {
		t.Fatalf("found %v only", files)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := Parse(f, b) // their certificates are not here
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range cfg.Warnings {
				t.Errorf("warning: %s", w)
			}
		})
	}
}

// several are two forwarders of a process. The first has all that is said of both, the second nothing of it.
const several = `name: line
datapaths:
  - {name: s1, datapath_id: 1, ports: [l1, r1]}
  - {name: s2, ports: [l2, r2], controllers: ["unix:/run/c"], fail_mode: secure, normal: bridge, limits: {entries: 7}, retry: {max: 7s}, state: /s2}
control: /run/line.sock
metrics: 127.0.0.1:9410
fail_mode: standalone
normal: stack
controllers: ["tcp:127.0.0.1:6653"]
limits: {entries: 1024, upcalls: 256KiB}
retry: {min: 1s, max: 2s}
`

func TestParseSeveral(t *testing.T) {
	got, err := Parse("f", []byte(several))
	if err != nil {
		t.Fatal(err)
	}
	limits := Limits{Tables: 254, Entries: 1024, Groups: 4096, Meters: 4096, Cache: 65536, Channels: 64, Upcalls: 256 << 10}
	peers := Peers{Idle: 5 * time.Second, Dead: 15 * time.Second}
	one := &Config{
		File: "f", Name: "s1", DatapathID: 1, Ports: []Port{{No: 1, Interface: "l1"}, {No: 2, Interface: "r1"}},
		Controllers: []Controller{{Connect: Endpoint{"tcp", "127.0.0.1:6653"}, Peers: peers}}, FailMode: Standalone, NormalStack: true,
		Retry: Retry{time.Second, 2 * time.Second}, Limits: limits,
	}
	limits.Entries = 7
	two := &Config{
		File: "f", Name: "s2", Ports: []Port{{No: 1, Interface: "l2"}, {No: 2, Interface: "r2"}}, State: "/s2",
		Controllers: []Controller{{Connect: Endpoint{"unix", "/run/c"}, Peers: peers}}, FailMode: Secure,
		Retry: Retry{time.Second, 7 * time.Second}, Limits: limits,
	}
	if diff := cmp.Diff([]*Config{one, two}, got.Datapaths); diff != "" {
		t.Errorf("datapaths (-want +got):\n%s", diff)
	}
	if got.Name != "line" || got.Control != "/run/line.sock" || got.Metrics != "127.0.0.1:9410" || got.Ports != nil || len(got.Warnings) > 0 {
		t.Errorf("the whole: %+v", got)
	}
	if all := got.All(); len(all) != 2 || all[1].Name != "s2" {
		t.Errorf("all: %v", all)
	}
}

func TestParseSeveralRefuses(t *testing.T) {
	if _, err := Parse("f", []byte("datapaths: []\n")); err == nil || err.Error() != "f:1:12: datapaths: is an empty list (at least one entry)" {
		t.Errorf("no datapaths: %v", err)
	}
	for _, tt := range []struct{ name, old, new, want string }{
		{"ports of all", "metrics:", "ports: [a]\nmetrics:", "f:6:8: ports: is of one forwarder, and there are datapaths (it for each of them, or no datapaths)"},
		{"listen of all", "metrics:", "listen: [unix:/a]\nmetrics:", "f:6:9: listen: is of one forwarder, and there are datapaths (it for each of them, or no datapaths)"},
		{"no name", "name: s1, ", "", "f:3:6: datapaths[0].name: is missing"},
		{"no ports", ", ports: [l1, r1]", "", "f:3:6: datapaths[0].ports: is missing"},
		{"a socket of its own", "name: s1", "control: /x, name: s1", "f:3:6: datapaths[0].control: is not a key (one of name, datapath_id, ports, local, controllers, listen, tls, fail_mode, normal, retry, limits, state)"},
		{"name twice", "name: s2", "name: s1", `f:4:12: datapaths[1].name: "s1" is there already, as datapaths[0].name (each has its own)`},
		{"interface twice", "[l2, r2]", "[l2, r1]", `f:4:23: datapaths[1].ports: "r1" is there already, as datapaths[0].ports (each has its own)`},
		{"id twice", "name: s2,", "name: s2, datapath_id: 1,", `f:4:29: datapaths[1].datapath_id: "0x1" is there already, as datapaths[0].datapath_id (each has its own)`},
		{"upcalls", "256KiB", "300KiB", `f:10:34: limits.upcalls: "300KiB" is not a power of two (such as 1MiB)`},
		{"few upcalls", "256KiB", "4KiB", `f:10:34: limits.upcalls: "4KiB" is out of range`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("f", []byte(strings.Replace(several, tt.old, tt.new, 1)))
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("Parse:\n got %v\nwant %s", err, tt.want)
			}
		})
	}
}
