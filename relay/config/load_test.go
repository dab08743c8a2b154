package config

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"baton/document"
	"baton/relay/plan"
)

// minimal has a little of everything; tests put their fault into a copy of it.
const minimal = `name: here
tls: {certificate: /c, key: /k, authority: /a}
trunks: {listen: ["192.0.2.1:7000"]}
peers:
  - {name: there, address: "198.51.100.7:7000"}
entries:
  - {listen: "192.0.2.1:443", destination: "203.0.113.5:443", via: [there]}
allow: [{prefix: 203.0.113.0/24, ports: [443]}]
`

var compareConfigs = []cmp.Option{
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

var (
	certificates = Credentials{Security: TLS, Certificate: "/c", Key: "/k", Authority: "/a"}
	tuning       = Tuning{Congestion: "bbr", Buffer: 32 << 20, Start: Start{Learn: true, Least: 10, Most: 2000}}
	addr         = netip.MustParseAddrPort
)

func TestParseDefaults(t *testing.T) {
	got, err := Parse("relay.yaml", []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		File: "relay.yaml", Name: "here", Control: "/run/baton/relay.sock",
		Limits: Limits{Flows: 65536, Early: 4096, PerSource: 64, Pipe: 1 << 20},
		Timeouts: Timeouts{
			Connect: 10 * time.Second, Header: 5 * time.Second, Early: 3 * time.Second, Unacked: 2 * time.Minute, Reset: 5 * time.Second,
			Stop: 30 * time.Second,
		},
		Trunks: &Trunks{Listen: []netip.AddrPort{addr("192.0.2.1:7000")}, Credentials: certificates, Tuning: tuning, Waiting: 4096},
		Peers: []Peer{{
			Name: "there", Address: addr("198.51.100.7:7000"), Credentials: certificates, Tuning: tuning,
			Ready: Ready{Min: 4, Max: 256, Age: 10 * time.Minute, Probe: 15 * time.Second}, Line: 5,
		}},
		Entries: []Entry{{
			Name: "plain-443", Listen: addr("192.0.2.1:443"), Mode: Plain, Destination: addr("203.0.113.5:443"), EarlySYN: EarlyOff,
			Via: []string{"there"}, ClientAddress: Hidden, Line: 7,
		}},
		Choose: Choose{Clouds: plan.PreferOne, Most: 3, Refresh: 5 * time.Minute, Margin: 0.1, Dwell: 30 * time.Second},
		Allow:  []Allow{{Prefix: netip.MustParsePrefix("203.0.113.0/24"), Ports: []document.Ports{{First: 443, Last: 443}}}},
	}
	if diff := cmp.Diff(want, got, compareConfigs...); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

// everything sets each key that there is, to something else than its default.
const everything = `# comment
name: r1
cloud: east
workers: 3
metrics: "127.0.0.1:9465"
control: /tmp/c.sock
limits: {flows: 1000, early: 100, per_source: 10, pipe: 256KiB}
timeouts: {connect: 1s, header: 2s, early: 3500ms, idle: 4h, unacked: 5s, reset: 6s, stop: 7s}
plaintext: {secret_file: /s}
trunks:
  listen: ["0.0.0.0:7000", "[::]:7000"]
  tls: {certificate: /c, key: /k, authority: /a}
  window: 512MiB
  congestion: cubic
  start: 200
  waiting: 8
peers:
  - name: p1
    address: "[2001:db8::7]:7000"
    cloud: west
    tls:
      certificate: /c
      key: /k
      authority: /a
    window: system
    congestion: system
    start: {learn: true, min: 20, max: 4000, rate: 1.5Gbit}
    ready: {min: 0, max: 9, age: 90s, probe: 30s}
  - {name: p2, address: "198.51.100.8:7000"}
entries:
  - name: web
    listen: "[::1]:8443"
    mode: transparent
    intercept:
      destinations: ["2001:db8:1::/48", "2001:db8:2::/48"]
      ports: [443, 8000-8100]
    interfaces: [eth1, br-lan.7]
    early_syn: connect-first
    via: [p1, p9]
    client_address: transparent
    congestion: reno
  - {name: any, listen: "[::1]:1080", mode: socks5, via: auto}
choose: {clouds: one, max_relays: 2, refresh: 90s, margin: 25%, dwell: 2m}
allow:
  - {prefix: 10.0.0.0/8}
`

func TestParseEveryKey(t *testing.T) {
	got, err := Parse("f", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	plaintext := Credentials{Security: Plaintext, SecretFile: "/s"}
	want := &Config{
		File: "f", Name: "r1", Cloud: "east", Workers: 3, Metrics: "127.0.0.1:9465", Control: "/tmp/c.sock",
		Limits: Limits{Flows: 1000, Early: 100, PerSource: 10, Pipe: 256 << 10},
		Timeouts: Timeouts{
			Connect: time.Second, Header: 2 * time.Second, Early: 3500 * time.Millisecond, Idle: 4 * time.Hour, Unacked: 5 * time.Second,
			Reset: 6 * time.Second, Stop: 7 * time.Second,
		},
		Trunks: &Trunks{
			Listen: []netip.AddrPort{addr("0.0.0.0:7000"), addr("[::]:7000")}, Credentials: certificates,
			Tuning: Tuning{Congestion: "cubic", Buffer: 512 << 20, Start: Start{Most: 200}}, Waiting: 8,
		},
		Peers: []Peer{
			{
				Name: "p1", Address: addr("[2001:db8::7]:7000"), Cloud: "west", Credentials: certificates,
				Tuning: Tuning{Start: Start{Learn: true, Least: 20, Most: 4000, Rate: 187_500_000}},
				Ready:  Ready{Min: 0, Max: 9, Age: 90 * time.Second, Probe: 30 * time.Second}, Line: 18,
			},
			{
				Name: "p2", Address: addr("198.51.100.8:7000"), Credentials: plaintext, Tuning: tuning,
				Ready: Ready{Min: 4, Max: 256, Age: 10 * time.Minute, Probe: 15 * time.Second}, Line: 29,
			},
		},
		Entries: []Entry{{
			Name: "web", Listen: addr("[::1]:8443"), Mode: Transparent,
			Intercept: &Intercept{
				Destinations: []netip.Prefix{netip.MustParsePrefix("2001:db8:1::/48"), netip.MustParsePrefix("2001:db8:2::/48")},
				Ports:        []document.Ports{{First: 443, Last: 443}, {First: 8000, Last: 8100}},
			},
			Interfaces: []string{"eth1", "br-lan.7"}, EarlySYN: ConnectFirst, Via: []string{"p1", "p9"}, ClientAddress: Spoofed,
			Congestion: "reno", Line: 31,
		}, {
			Name: "any", Listen: addr("[::1]:1080"), Mode: SOCKS5, EarlySYN: EarlyOff, Auto: true, ClientAddress: Hidden, Line: 42,
		}},
		Choose:   Choose{Clouds: plan.OneCloud, Most: 2, Refresh: 90 * time.Second, Margin: 0.25, Dwell: 2 * time.Minute},
		Allow:    []Allow{{Prefix: netip.MustParsePrefix("10.0.0.0/8")}},
		Warnings: []string{"f:40:21: entries[0].client_address: servers answer to the clients' addresses: their route there must lead through p9, by its return_interfaces"},
	}
	if diff := cmp.Diff(want, got, compareConfigs...); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

func TestParseForms(t *testing.T) {
	const peer = `"198.51.100.7:7000"`
	start := func(c *Config) any { return c.Peers[0].Tuning.Start }
	tests := []struct {
		name, old, new string
		got            func(*Config) any
		want           any
	}{
		{"name of 63 characters", "here", strings.Repeat("a", 63), func(c *Config) any { return len(c.Name) }, 63},
		{"start by the system", peer, peer + ", start: system", start, Start{}},
		{"start to be learnt", peer, peer + ", start: learn", start, Start{Learn: true, Least: 10, Most: 2000}},
		{"start that is paced alone", peer, peer + ", start: {learn: false, rate: 8mbit}", start, Start{Rate: 1_000_000}},
		{"start that is fixed and paced", peer, peer + ", start: {learn: false, max: 30, rate: 100kbit}", start, Start{Most: 30, Rate: 12_500}},
		{"max below the default of min", peer, peer + ", start: {max: 5}", start, Start{Learn: true, Least: 5, Most: 5}},
		{"max below the default of min", peer, peer + ", ready: {max: 3}", func(c *Config) any { return c.Peers[0].Ready.Min }, 3},
		{"flows below the defaults of what is early", "name:", "limits: {flows: 20}\nname:", func(c *Config) any { return c.Limits },
			Limits{Flows: 20, Early: 20, PerSource: 20, Pipe: 1 << 20}},
		{"no end of silence", "name:", "timeouts: {idle: none}\nname:", func(c *Config) any { return c.Timeouts.Idle }, time.Duration(0)},
		{"shortest pipe", "name:", "limits: {pipe: 4KiB}\nname:", func(c *Config) any { return c.Limits.Pipe }, 4096},
		{"pipe in thousands", "name:", "limits: {pipe: 64kB}\nname:", func(c *Config) any { return c.Limits.Pipe }, 64000},
		{"longest pipe", "name:", "limits: {pipe: 64 MiB}\nname:", func(c *Config) any { return c.Limits.Pipe }, 64 << 20},
		{"last port", "ports: [443]", "ports: [1-65535]", func(c *Config) any { return c.Allow[0].Ports[0] }, document.Ports{First: 1, Last: 65535}},
		{"relays behind the first are no peers", "via: [there]", "via: [there, b, c, d, e, f, g]",
			func(c *Config) any { return len(c.Entries[0].Via) }, 7},
		{"metrics beside a listener", "name:", "metrics: \"192.0.2.2:443\"\nname:", func(c *Config) any { return c.Metrics }, "192.0.2.2:443"},
		{"metrics at a name", "name:", "metrics: \"localhost:443\"\nname:", func(c *Config) any { return c.Metrics }, "localhost:443"},
		{"one address beside all", `["192.0.2.1:7000"]`, `["192.0.2.1:7000", "0.0.0.0:7000"]`, func(c *Config) any { return len(c.Trunks.Listen) }, 2},
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
	const entry = `{listen: "192.0.2.1:443", destination: "203.0.113.5:443", via: [there]}`
	tests := []struct {
		name, old, new string
		want           []string
	}{
		{"nothing", "", "", nil},
		{"interfaces without use", "via: [there]", "via: [there], interfaces: [eth1]",
			[]string{"f:7:89: entries[0].interfaces: is unused without intercept and early_syn: clients may come in anywhere"}},
		{"clients' addresses, here", "via: [there]", "client_address: transparent",
			[]string{"f:7:79: entries[0].client_address: servers answer to the clients' addresses: their route there must lead through this relay, by its return_interfaces"}},
		{"PROXY header", "via: [there]", "via: [there], client_address: proxy-v2", nil},
		{"PROXY header that servers do not know of", entry, `{listen: "192.0.2.1:443", mode: transparent, via: [there], client_address: proxy-v2}`,
			[]string{"f:7:80: entries[0].client_address: servers must expect a PROXY header, which direct clients do not send"}},
		{"everybody may say who the client is", entry, `{listen: "192.0.2.1:443", mode: proxy, via: [there]}`,
			[]string{"f:7:14: entries[0].listen: anyone who can reach 192.0.2.1:443 chooses destinations and client addresses"}},
		{"everybody may go everywhere", entry, `{listen: "0.0.0.0:1080", mode: socks5, via: [there]}`,
			[]string{"f:7:14: entries[0].listen: anyone who can reach 0.0.0.0:1080 can reach everything that the last relay allows"}},
		{"one's own machine", entry, `{listen: "127.0.0.1:1080", mode: connect, via: [there]}`, nil},
		{"allow where nothing leaves", "trunks: {listen: [\"192.0.2.1:7000\"]}\n", "",
			[]string{"f:7:8: allow: is unused: there are no trunks, and all entries have a via or a destination"}},
		{"peer without use", minimal, `name: a
tls: {certificate: /c, key: /k, authority: /a}
peers: [{name: b, address: "192.0.2.2:1"}, {name: c, address: "192.0.2.3:1"}]
entries: [{listen: "192.0.2.1:443", destination: "203.0.113.5:443", via: [b, c]}]
`,
			[]string{"f:3:45: peers[1]: no entry goes via c: its trunks are kept ready for nothing"}},
		{"credentials without use", "/a}\ntrunks: {listen: [\"192.0.2.1:7000\"]}\npeers:\n  - {name: there,",
			"/a}\npeers:\n  - {tls: {certificate: /c, key: /k, authority: /a}, name: there,",
			[]string{
				"f:7:8: allow: is unused: there are no trunks, and all entries have a via or a destination",
				"f:2:7: tls: is unused: all trunks and peers have their own",
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(minimal, tt.old) {
				t.Fatalf("%q is not in the file", tt.old)
			}
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

// TestParseAccepts what is near to something that is refused.
func TestParseAccepts(t *testing.T) {
	const creds = "tls: {certificate: /c, key: /k, authority: /a}\n"
	tests := []struct{ name, text string }{
		{"from one family to the other", "name: a\nentries: [{listen: \"[::]:80\", destination: \"192.0.2.5:80\"}]\n"},
		{"trunks that are passed on alone", creds + "name: a\ntrunks: {listen: [\"[::]:7000\"]}\npeers: [{name: b, address: \"192.0.2.2:7000\"}]\n"},
		{"intercept of a peer's other ports", creds + `name: a
peers: [{name: b, address: "192.0.2.2:7000"}]
entries:
  - {listen: "127.0.0.1:8443", mode: transparent, intercept: {destinations: [0.0.0.0/0], ports: [1-6999, 7001-8000]}, interfaces: [eth1], via: [b]}
`},
		{"intercept of one prefix at two interfaces, at two ports, and of one within another", creds + `name: a
peers: [{name: b, address: "192.0.2.2:7000"}]
entries:
  - {name: one, listen: "127.0.0.1:1", mode: transparent, intercept: {destinations: [10.0.0.0/8], ports: [443]}, interfaces: [eth1], via: [b]}
  - {name: two, listen: "127.0.0.1:2", mode: transparent, intercept: {destinations: [10.0.0.0/8], ports: [443]}, interfaces: [eth2], via: [b]}
  - {name: three, listen: "127.0.0.1:3", mode: transparent, intercept: {destinations: [10.0.0.0/8], ports: [444]}, interfaces: [eth1], via: [b]}
  - {name: four, listen: "127.0.0.1:4", mode: transparent, intercept: {destinations: [10.1.0.0/16], ports: [443]}, interfaces: [eth1], via: [b]}
`},
		{"intercept of a part of what is allowed, and of what a part is allowed of", `name: a
entries:
  - {listen: "127.0.0.1:1", mode: transparent, intercept: {destinations: [10.1.0.0/16, 192.0.0.0/8], ports: [443]}, interfaces: [eth1]}
allow: [{prefix: 10.0.0.0/8}, {prefix: 192.0.2.0/24}]
`},
		{"early SYN", `name: a
entries:
  - {listen: "192.0.2.1:443", destination: "192.0.2.5:443", early_syn: connect-first, interfaces: [eth1]}
  - {listen: "127.0.0.1:1", mode: transparent, intercept: {destinations: [10.0.0.0/8], ports: [443]}, early_syn: optimistic, interfaces: [eth1]}
allow: [{prefix: 10.0.0.0/8}]
`},
		{"destination at the port of another's address", "name: a\nentries: [{listen: \"0.0.0.0:80\", destination: \"192.0.2.5:80\"}]\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := Parse("f", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range cfg.Warnings {
				t.Errorf("warning: %s", w)
			}
		})
	}
}

func TestLoadRefusesFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load of no file: %v, want os.ErrNotExist", err)
	}
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, []byte(strings.Repeat("#", rules.Bytes+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(large); err == nil || !strings.Contains(err.Error(), "is too large") {
		t.Errorf("Load of %d bytes: %v, want too large", rules.Bytes+1, err)
	}
}
