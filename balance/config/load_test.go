package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const minimal = "links: [eth0, wlan0]\n"

// everything sets each key that there is, to something else than its default.
const everything = `name: home
datapath: ovs
method: controller
links:
  - name: fibre
    interface: eth0
    weight: 300
    gateways: [192.0.2.1, "fe80::1"]
    resolvers: [192.0.2.53, "2001:db8::53"]
    probe: off
  - interface: wwan0.4
    weight: measured
    tier: 1
    cap: {bytes: 20GB, every: month, day: 5, hard: true}
    probe: {url: "http://probe.example/204", dead: 1m}
rules:
  - name: video
    to: [203.0.113.0/24, 2001:db8::7]
    services: [tcp/443, udp/8000-8100, tcp]
    links: [fibre]
    otherwise: drop
    method: hash
    affinity: none
  - application: {user: backup}
    links: [wwan0.4]
  - application: {cgroup: /system.slice/x.service}
    affinity: 2m
affinity: 1m
weights: {every: 1s, least: 10%, most: 200%}
internal: {interface: in0, ipv4: 10.99.0.1/24, ipv6: fd00::1/64, priority: 100, table: 1000}
probe: {url: "http://other.example/", every: 20s, dead: 50s}
limits: {flows: 1024}
control: /tmp/b.sock
metrics: "127.0.0.1:9469"
state: /tmp/b
`

var (
	samePrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	sameAddr   = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
)

func parse(t *testing.T, text string) *Config {
	t.Helper()
	cfg, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestParse(t *testing.T) {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	tests := []struct {
		name, text string
		want       *Config
	}{
		{"minimal", minimal, &Config{
			File: "f", Name: "f", Datapath: Baton, Method: Even,
			Links:    []Link{{Name: "eth0", Interface: "eth0", Line: 1}, {Name: "wlan0", Interface: "wlan0", Line: 1}},
			Weights:  Weights{5 * time.Second, 1, 10000},
			Internal: Internal{"bal0", prefix("192.0.0.2/29"), prefix("64:ff9b:1::2/64"), 32765, 30000},
			Probe:    Probe{Every: 5 * time.Second, Dead: 15 * time.Second}, Limits: Limits{131072},
			Control: "/run/baton/balance-f.sock", State: "/var/lib/baton/balance-f",
		}},
		{"everything", everything, &Config{
			File: "f", Name: "home", Datapath: OpenVSwitch, Method: Controller,
			Links: []Link{
				{
					Name: "fibre", Interface: "eth0", Weight: 300, Gateways: []netip.Addr{addr("192.0.2.1"), addr("fe80::1")},
					Resolvers: []netip.Addr{addr("192.0.2.53"), addr("2001:db8::53")}, Line: 5,
					Probe: &Probe{Off: true, URL: "http://other.example/", Every: 20 * time.Second, Dead: 50 * time.Second},
				},
				{
					Name: "wwan0.4", Interface: "wwan0.4", Tier: 1, Line: 11, Cap: &Cap{20_000_000_000, Month, 5, true},
					Probe: &Probe{URL: "http://probe.example/204", Every: 20 * time.Second, Dead: time.Minute},
				},
			},
			Rules: []Rule{
				{
					Name: "video", To: []netip.Prefix{prefix("203.0.113.0/24"), prefix("2001:db8::7/128")},
					Services: []Service{{6, 443, 443}, {17, 8000, 8100}, {6, 0, 65535}},
					Links:    []string{"fibre"}, Otherwise: Drop, Method: Hash, Line: 17,
				},
				{Name: "rule-2", Application: &Application{User: "backup"}, Links: []string{"wwan0.4"}, Otherwise: Any, Affinity: time.Minute, Line: 24},
				{Name: "rule-3", Application: &Application{Cgroup: "/system.slice/x.service"}, Otherwise: Any, Affinity: 2 * time.Minute, Line: 26},
			},
			Affinity: time.Minute, Weights: Weights{time.Second, 10, 200},
			Internal: Internal{"in0", prefix("10.99.0.1/24"), prefix("fd00::1/64"), 100, 1000},
			Probe:    Probe{URL: "http://other.example/", Every: 20 * time.Second, Dead: 50 * time.Second}, Limits: Limits{1024},
			Control: "/tmp/b.sock", Metrics: "127.0.0.1:9469", State: "/tmp/b",
		}},
		{"of Open vSwitch", "datapath: ovs\nlinks: [a, b]\n", &Config{
			File: "f", Name: "f", Datapath: OpenVSwitch, Method: Hash,
			Links:   []Link{{Name: "a", Interface: "a", Line: 2}, {Name: "b", Interface: "b", Line: 2}},
			Weights: defaultWeights, Internal: defaultInternal, Probe: defaultProbe, Limits: Limits{131072},
			Control: "/run/baton/balance-f.sock", State: "/var/lib/baton/balance-f",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := parse(t, tt.text)
			if diff := cmp.Diff(tt.want, got, samePrefix, sameAddr, cmpopts.IgnoreFields(Config{}, "Warnings", "Places")); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
		})
	}
}

func TestName(t *testing.T) {
	for file, want := range map[string]string{
		"/etc/baton/balance.yaml": "balance", "My Links.yml": "my-links", "a-very-long-name.yaml": "a-very-lon", "/x/.yaml": "balance", "ä": "balance",
		"two-links--three.yaml": "two-links",
	} {
		cfg, err := Parse(file, []byte(minimal))
		if err != nil || cfg.Name != want || cfg.Control != "/run/baton/balance-"+want+".sock" {
			t.Errorf("%s: %+v, %v, want name %s", file, cfg, err, want)
		}
	}
}

func TestApplications(t *testing.T) {
	cfg := parse(t, `links: [a, b]
rules:
  - {application: {user: x}, links: [a]}
  - {to: [192.0.2.1], links: [a]}
  - {application: {cgroup: /y}, links: [b]}
  - {application: {user: x}, links: [b]}
`)
	if diff := cmp.Diff([]Application{{User: "x"}, {Cgroup: "/y"}}, cfg.Applications()); diff != "" {
		t.Errorf("Applications (-want +got):\n%s", diff)
	}
}

func TestGateways(t *testing.T) {
	tests := []struct {
		v4, v6 string
		want   [][2]string // from class 0 on
	}{
		{"192.0.0.2/29", "64:ff9b:1::2/64", [][2]string{
			{"192.0.0.1", "64:ff9b:1::1"}, {"192.0.0.3", "64:ff9b:1::3"}, {"192.0.0.4", "64:ff9b:1::4"}, {"192.0.0.5", "64:ff9b:1::5"},
			{"192.0.0.6", "64:ff9b:1::6"}, {"invalid IP", "64:ff9b:1::7"}}},
		{"10.0.0.1/30", "fd00::1/126", [][2]string{{"10.0.0.2", "fd00::2"}, {"invalid IP", "fd00::3"}, {"invalid IP", "invalid IP"}}},
		{"10.1.2.3/8", "fd00:1::/64", [][2]string{{"10.0.0.1", "fd00:1::1"}}},
	}
	for _, tt := range tests {
		in := Internal{IPv4: netip.MustParsePrefix(tt.v4), IPv6: netip.MustParsePrefix(tt.v6)}
		for class, want := range tt.want {
			if got := [2]string{in.Gateway4(class).String(), in.Gateway6(class).String()}; got != want {
				t.Errorf("class %d of %s and %s: %v, want %v", class, tt.v4, tt.v6, got, want)
			}
		}
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "balance.yaml")
	if _, err := Load(file); err == nil || !strings.HasPrefix(err.Error(), "read configuration: ") {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(file, []byte(minimal), 0o600); err != nil {
		t.Fatal(err)
	}
	if cfg, err := Load(file); err != nil || cfg.File != file || cfg.Name != "balance" {
		t.Errorf("%+v, %v", cfg, err)
	}
}

func TestChanged(t *testing.T) {
	old := parse(t, everything)
	for _, tt := range []struct {
		old, new string
		want     []string
	}{
		{"name: home", "name: flat", []string{"name"}},
		{"datapath: ovs", "datapath: baton", []string{"datapath"}},
		{"in0", "in1", []string{"internal"}},
		{"1024", "1025", []string{"limits.flows"}},
		{"/tmp/b.sock", "/tmp/c.sock", []string{"control"}},
		{"9469", "9470", []string{"metrics"}},
		{"state: /tmp/b", "state: /tmp/c", []string{"state"}},
		{"interface: eth0", "interface: eth1", nil},
		{"weight: 300", "weight: 301", nil},
		{"links: [fibre]", "links: [wwan0.4]", nil},
	} {
		next := parse(t, strings.Replace(everything, tt.old, tt.new, 1))
		if diff := cmp.Diff(tt.want, Changed(old, next), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s to %s (-want +got):\n%s", tt.old, tt.new, diff)
		}
	}
}
