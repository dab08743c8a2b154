package config

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// minimal is the smallest valid file; tests add their mistake to a copy.
const minimal = `vips:
  - address: "10.9.9.9:80"
    interfaces: [eth0]
    routes:
      - pool: default
pools:
  default:
    surrogates:
      - {name: s1, address: "10.2.1.2:80"}
`

var compareConfigs = []cmp.Option{
	cmp.Comparer(func(a, b *regexp.Regexp) bool { return a == b || a != nil && b != nil && a.String() == b.String() }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmpopts.IgnoreFields(Config{}, "Places"),
	cmpopts.EquateEmpty(),
}

func TestParseDefaults(t *testing.T) {
	got, err := Parse("router.yaml", []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		File:     "router.yaml",
		Listen:   Listen{Control: "/run/baton/router.sock", State: "/sys/fs/bpf/baton", Saved: "/var/lib/baton-router"},
		Limits:   Limits{Sessions: 131072, Pending: 65536},
		Timeouts: Timeouts{Handshake: 10 * time.Second, Idle: time.Hour, Closing: time.Minute, QUICIdle: 5 * time.Minute},
		VIPs: []VIP{{
			Address: netip.MustParseAddrPort("10.9.9.9:80"), Mode: Handoff, Protocol: HTTP, Interfaces: []string{"eth0"}, Pipelining: PipeliningPass, Line: 2,
			Routes: []Route{{Pool: "default", Line: 5}},
		}},
		Pools: []Pool{{
			Name: "default", Policy: RoundRobin, Reuse: ReuseAlways, Source: SourceRouter, Legs: Legs{Mode: LegsReady, Min: 16, Max: 4096, Idle: 45 * time.Second, Handshake: 150 * time.Millisecond}, Line: 7,
			Surrogates: []Surrogate{{Name: "s1", Address: netip.MustParseAddrPort("10.2.1.2:80"), Weight: 1, Line: 9}},
		}},
	}
	if diff := cmp.Diff(want, got, compareConfigs...); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

// everything sets each key to something else than its default.
const everything = `# comment
metrics: "127.0.0.1:9464"
control: /tmp/c.sock
state: /sys/fs/bpf/x
limits: {sessions: 1000, pending: 10}
timeouts: {handshake: 5s, idle: 2h, closing: 30s}
vips:
  - address: "[2001:db8::9]:8080"
    mode: redirect
    interfaces: [eth0, br-lan.7]
    routes:
      - match:
          host: CDN.example.net
          path_prefix: /video/
          path_regex: '\.mp4$'
          methods: [GET, HEAD]
          headers:
            - {name: x-device, value: tv}
            - {name: cookie, regex: 'beta=1'}
            - name: accept
        pool: video
      - match: {host: "*.example.net"}
        pool: zoned
pools:
  zoned:
    policy: nearest
    nearest:
      - {prefix: 10.0.0.0/8, surrogates: [z2, z1]}
      - {prefix: 10.1.0.0/16, surrogates: [z1]}
      - {prefix: "2001:db8::/32", surrogates: [z2]}
    surrogates:
      - &z {name: z1, address: "[2001:db8::1]:80"}
      - {<<: *z, name: z2, weight: 0}
  video:
    policy: hash
    hash_query: [id, v]
    reuse: safe
    legs: {min: 2, max: 8, idle: 20s, requests: 900, mode: ready, sources: ["2001:db8::fe", "2001:db8::ff"]}
    health: {path: "/healthz?x=1", host: cdn.example.net, interval: 3s, timeout: 500ms, rise: 4, fall: 5}
    surrogates:
      - {name: v1, address: "[2001:db8::2]:80", weight: 256, public: "https://v1.example.net:8443/"}
`

func TestParseEveryKey(t *testing.T) {
	got, err := Parse("router.yaml", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	z := Surrogate{Name: "z1", Address: netip.MustParseAddrPort("[2001:db8::1]:80"), Weight: 1, Line: 32}
	z2 := Surrogate{Name: "z2", Address: z.Address, Weight: 0, Line: 33}
	want := &Config{
		File:     "router.yaml",
		Listen:   Listen{Metrics: "127.0.0.1:9464", Control: "/tmp/c.sock", State: "/sys/fs/bpf/x"},
		Limits:   Limits{Sessions: 1000, Pending: 10},
		Timeouts: Timeouts{Handshake: 5 * time.Second, Idle: 2 * time.Hour, Closing: 30 * time.Second, QUICIdle: 5 * time.Minute},
		VIPs: []VIP{{
			Address: netip.MustParseAddrPort("[2001:db8::9]:8080"), Mode: Redirect, Protocol: HTTP, Interfaces: []string{"eth0", "br-lan.7"}, Line: 8,
			Routes: []Route{
				{Pool: "video", Line: 12, Match: Match{
					Host: "cdn.example.net", PathPrefix: "/video/", PathRegex: regexp.MustCompile(`\.mp4$`), Methods: []string{"GET", "HEAD"},
					Headers: []HeaderMatch{{Name: "X-Device", Value: "tv"}, {Name: "Cookie", Regex: regexp.MustCompile("beta=1")}, {Name: "Accept"}},
				}},
				{Pool: "zoned", Line: 22, Match: Match{Host: "*.example.net"}},
			},
		}},
		Pools: []Pool{
			{
				Name: "zoned", Policy: Nearest, Reuse: ReuseAlways, Source: SourceRouter, Legs: Legs{Mode: LegsReady, Min: 16, Max: 4096, Idle: 45 * time.Second, Handshake: 150 * time.Millisecond}, Line: 25,
				Nearest: []Zone{
					{Prefix: netip.MustParsePrefix("2001:db8::/32"), Surrogates: []string{"z2"}},
					{Prefix: netip.MustParsePrefix("10.1.0.0/16"), Surrogates: []string{"z1"}},
					{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Surrogates: []string{"z2", "z1"}},
				},
				Surrogates: []Surrogate{z, z2},
			},
			{
				Name: "video", Policy: Hash, HashQuery: []string{"id", "v"}, Reuse: ReuseSafe, Source: SourceRouter, Legs: Legs{
					Mode: LegsReady, Min: 2, Max: 8, Idle: 20 * time.Second, Requests: 900, Handshake: 150 * time.Millisecond,
					Sources: []netip.Addr{netip.MustParseAddr("2001:db8::fe"), netip.MustParseAddr("2001:db8::ff")},
				}, Line: 34,
				Health: &Health{Path: "/healthz?x=1", Host: "cdn.example.net", Interval: 3 * time.Second, Timeout: 500 * time.Millisecond, Rise: 4, Fall: 5},
				Surrogates: []Surrogate{{
					Name: "v1", Address: netip.MustParseAddrPort("[2001:db8::2]:80"), Weight: 256, Public: "https://v1.example.net:8443", Line: 41,
				}},
			},
		},
		Warnings: []string{`router.yaml:33:10: pools.zoned.surrogates[1].address: [2001:db8::1]:80 is the address of "z1" too`},
	}
	if diff := cmp.Diff(want, got, compareConfigs...); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

func TestParseShortMaxLowersDefaultMin(t *testing.T) {
	cfg, err := Parse("f", []byte(strings.Replace(minimal, "    surrogates:", "    legs: {max: 3}\n    surrogates:", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := cfg.Pools[0].Legs.Min, 3; got != want {
		t.Errorf("Legs.Min = %d, want %d", got, want)
	}
}

func TestParseWarns(t *testing.T) {
	tests := []struct {
		name, old, new string
		want           []string
	}{
		{"nothing", "", "", nil},
		{"surrogate on loopback", "10.2.1.2:80", "127.0.0.1:8080",
			[]string{"f:9:10: pools.default.surrogates[0].address: 127.0.0.1:8080 is on loopback and cannot be spliced: its sessions are proxied"}},
		{"surrogate of another family", "10.2.1.2:80", "[2001:db8::2]:80",
			[]string{"f:9:10: pools.default.surrogates[0].address: [2001:db8::2]:80 is of another address family than VIP 10.9.9.9:80: its sessions are proxied"}},
		{"the same is no news in mode proxy", "interfaces: [eth0]", "mode: proxy", nil},
		{"VIP on loopback", "10.9.9.9:80", "127.0.0.9:80",
			[]string{"f:2:5: vips[0].address: 127.0.0.9:80 is on loopback: its clients are proxied, not handed off"}},
		{"pool without a route", "pools:\n", "pools:\n  spare: {surrogates: [{name: s9, address: \"10.2.1.9:80\"}]}\n",
			[]string{"f:7:3: pools.spare: no route sends requests to this pool"}},
		{"weight that does nothing", "80\"}", "80\", weight: 2}",
			[]string{"f:9:10: pools.default.surrogates[0].weight: policy round-robin does not use weights"}},
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
	path := filepath.Join(dir, "router.yaml")
	if err := os.WriteFile(path, []byte(minimal), 0o600); err != nil {
		t.Fatal(err)
	}
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

	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, rules.Bytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(large); err == nil || !strings.Contains(err.Error(), "is too large") {
		t.Errorf("Load of %d bytes: %v, want too large", rules.Bytes+1, err)
	}
}

func TestPipelining(t *testing.T) {
	const rest = "pools: {a: {surrogates: [{name: a, address: \"10.0.0.1:80\"}]}, b: {surrogates: [{name: b, address: \"10.0.0.2:80\"}]}}\n"
	for _, tt := range []struct {
		name, keys, routes string
		want               Pipelining
	}{
		{"one pool", "", "{pool: a}", PipeliningPass},
		{"one pool by several routes", "", "{match: {host: a.net}, pool: a}, {pool: a}", PipeliningPass},
		{"two pools", "", "{match: {host: a.net}, pool: b}, {pool: a}", PipeliningHold},
		{"one pool, and some requests match nothing", "", "{match: {host: a.net}, pool: a}", PipeliningHold},
		{"one pool for all paths but *", "", "{match: {path_prefix: /}, pool: a}", PipeliningHold},
		{"two pools, told to pass", "pipelining: pass, ", "{match: {host: a.net}, pool: b}, {pool: a}", PipeliningPass},
		{"one pool, told to hold", "pipelining: hold, ", "{pool: a}", PipeliningHold},
		{"not in mode handoff", "mode: proxy, ", "{match: {host: a.net}, pool: b}, {pool: a}", ""},
	} {
		cfg, err := Parse("f", []byte("vips: [{address: \"10.9.9.9:80\", interfaces: [eth0], "+tt.keys+"routes: ["+tt.routes+"]}]\n"+rest))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if got := cfg.VIPs[0].Pipelining; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
