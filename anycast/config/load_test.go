package config

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"baton/anycast/level"
)

const least = `name: london
site:
  prefixes: [192.0.2.0/24]
  bgp:
    as: 64512
    router_id: 10.0.0.2
    peers:
      - {name: r1, address: 10.0.0.1, as: 65000}
  checks:
    - {name: web, tcp: "127.0.0.1:80"}
`

// everything has each key once at least.
const everything = `name: london
metrics: "127.0.0.1:9466"
control: /run/a.sock
listen: {sites: "10.0.0.2:8443"}
tls: {certificate: /etc/baton/c.pem, key: /etc/baton/k.pem, authority: /etc/baton/ca.pem}
site:
  prefixes: [192.0.2.0/24, 2001:db8:1::/48]
  bgp:
    as: 64512
    router_id: 10.0.0.2
    communities: ["64512:7", no_export]
    next_hop: {ipv4: 10.0.0.9, ipv6: "fd00::9"}
    peers:
      - {name: r1, address: 10.0.0.1, port: 1179, local: 10.0.0.2, as: 65000, families: [ipv4, ipv6], password_file: /etc/baton/r1,
         gtsm: true, keepalive: 2s, hold: 6s, retry: 4s, graceful_restart: 30s}
      - {name: r2, address: "fd00::2", as: 65001, multihop: 3, hold: 30s}
  addresses: {interface: lo, addresses: [192.0.2.1/32, "2001:db8:1::1/128"]}
  checks:
    - {name: web, http: "http://127.0.0.1/healthz", host: www.example.org, interval: 2s, timeout: 1s, rise: 2, fall: 4}
    - {name: port, tcp: "127.0.0.1:80"}
    - {name: disk, command: [/usr/local/bin/disk, /srv]}
  loads:
    - {name: requests, prometheus: "http://127.0.0.1:9113/metrics", metric: nginx_http_requests_total, labels: {host: www}, rate: true, capacity: 5000}
    - {name: script, command: [/usr/local/bin/load], capacity: 1, interval: 4s, timeout: 1s}
    - {name: uplink, interface: eth0, capacity: 10gbit}
  levels:
    - {name: plain}
    - {name: far, med: 50, prepend: 2, enter: 90%, leave: 60%}
    - {name: empty, prepend: 4, communities: [graceful_shutdown]}
  dwell: 1m
  flaps: {suppress: 3000, half_life: 10m, share: 60%}
  planner: plan
  others:
    - {name: paris, url: "https://paris.example.net:8443"}
  stale: 20s
  poll: 5s
  drain: 10m
  state: /var/lib/baton/anycast.json
  stop: 30s
`

const plans = `name: plan
tls: {certificate: /etc/baton/c.pem, key: /etc/baton/k.pem, authority: /etc/baton/ca.pem}
planner:
  interval: 5s
  stale: 20s
  settle: 1m
  step: 20%
  interruption: 0.5
  sites:
    - name: london
      url: https://london.example.net:8443
      capacity: 10gbit
      ports: [{forwarder: "0000000000000001", port: 2, mac: "02:00:00:00:00:01"}]
    - {name: paris, capacity: 80mbit, ports: [{forwarder: 0x1, port: 3}]}
  map:
    listen: "10.0.0.9:6653"
    tls: true
    addresses: [192.0.2.1, "2001:db8::/64"]
    table: 1
    priority: 7
    ingresses:
      - {name: west, forwarder: "0000000000000001", port: 1, live: 5m, costs: {london: 1, paris: 2.5}}
`

func TestDefaults(t *testing.T) {
	cfg, err := Parse("anycast.yaml", []byte(least))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		File: "anycast.yaml", Name: "london", Listen: Listen{Control: "/run/baton/anycast.sock"},
		Site: &Site{
			Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
			BGP: BGP{AS: 64512, RouterID: netip.MustParseAddr("10.0.0.2"), Peers: []Peer{{
				Name: "r1", Address: netip.MustParseAddr("10.0.0.1"), Port: 179, AS: 65000, IPv4: true,
				Keepalive: 3 * time.Second, Hold: 9 * time.Second, Retry: 5 * time.Second,
			}}},
			Checks: []Check{{Name: "web", TCP: "127.0.0.1:80", Interval: time.Second, Timeout: 500 * time.Millisecond, Rise: 3, Fall: 3}},
			Control: level.Rules{
				Ladder: defaultLadder(false), Dwell: 2 * time.Minute, Flaps: level.Flaps{Suppress: 2000, HalfLife: 15 * time.Minute, Share: 0.5},
			},
			Stale: 15 * time.Second, Poll: 2 * time.Second, Drain: 5 * time.Minute,
		},
		Warnings: []string{"anycast.yaml:3:3: site: lists no other sites: the service ends with the last site that dies"},
	}
	if diff := cmp.Diff(want, cfg, compare); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

// compare compares addresses, which keep what they are to themselves.
var compare = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

func TestEverything(t *testing.T) {
	cfg, err := Parse("anycast.yaml", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	s := cfg.Site
	r1, r2 := s.BGP.Peers[0], s.BGP.Peers[1]
	for what, ok := range map[string]bool{
		"listen":      cfg.Listen == Listen{"127.0.0.1:9466", "/run/a.sock", "10.0.0.2:8443"},
		"identity":    cfg.TLS == TLS{"/etc/baton/c.pem", "/etc/baton/k.pem", "/etc/baton/ca.pem"},
		"prefixes":    len(s.Prefixes) == 2 && s.Prefixes[1].Addr().Is6(),
		"communities": len(s.BGP.Communities) == 2 && s.BGP.Communities[0] == 64512<<16|7 && s.BGP.Communities[1] == level.NoExport,
		"next_hop":    s.BGP.NextHop4.String() == "10.0.0.9" && s.BGP.NextHop6.String() == "fd00::9",
		"r1": r1.Port == 1179 && r1.Local.String() == "10.0.0.2" && r1.IPv4 && r1.IPv6 && r1.PasswordFile == "/etc/baton/r1" && r1.Password == "" &&
			r1.GTSM && r1.Keepalive == 2*time.Second && r1.Hold == 6*time.Second && r1.Retry == 4*time.Second && r1.Restart == 30*time.Second,
		"r2":        !r2.IPv4 && r2.IPv6 && r2.Multihop == 3 && r2.Hold == 30*time.Second && r2.Keepalive == 10*time.Second,
		"addresses": s.Addresses.Interface == "lo" && len(s.Addresses.Addresses) == 2,
		"checks": s.Checks[0].HTTP.String() == "http://127.0.0.1/healthz" && s.Checks[0].Host == "www.example.org" && s.Checks[0].Rise == 2 &&
			s.Checks[0].Fall == 4 && s.Checks[1].TCP == "127.0.0.1:80" && len(s.Checks[2].Command) == 2,
		"loads": s.Loads[0].Metric == "nginx_http_requests_total" && s.Loads[0].Labels["host"] == "www" && s.Loads[0].Rate && s.Loads[0].Capacity == 5000 &&
			s.Loads[1].Command[0] == "/usr/local/bin/load" && s.Loads[1].Interval == 4*time.Second && s.Loads[2].Device == "eth0" && s.Loads[2].Capacity == 1.25e9,
		"levels": len(s.Control.Ladder) == 4 && s.Control.Ladder[1].Announcement.Prepend == 2 && s.Control.Ladder[1].Enter == 0.9 &&
			s.Control.Ladder[2].Announcement.Communities[0] == level.GracefulShutdown && s.Control.Ladder[3].Announcement.Withdrawn,
		"flaps":   s.Control.Flaps == level.Flaps{Suppress: 3000, HalfLife: 10 * time.Minute, Share: 0.6},
		"planner": s.Planner == "plan" && s.Others[0].Name == "paris" && s.Others[0].URL.Host == "paris.example.net:8443",
		"times":   s.Stale == 20*time.Second && s.Poll == 5*time.Second && s.Drain == 10*time.Minute && s.State == "/var/lib/baton/anycast.json" && s.Stop == 30*time.Second && s.Control.Dwell == time.Minute,
	} {
		if !ok {
			t.Errorf("%s is not what the file says: %+v", what, s)
		}
	}
}

func TestPlanner(t *testing.T) {
	cfg, err := Parse("plan.yaml", []byte(plans))
	if err != nil {
		t.Fatal(err)
	}
	p := cfg.Planner
	m := p.Map
	for what, ok := range map[string]bool{
		"times": p.Interval == 5*time.Second && p.Stale == 20*time.Second && p.Settle == time.Minute && p.Step == 0.2 && p.Move == 0.5,
		"sites": p.Sites[0].Capacity == 1.25e9 && p.Sites[0].Ports[0] == Exit{1, 2, [6]byte{2, 0, 0, 0, 0, 1}} && p.Sites[1].URL == nil,
		"map": m.Listen == "10.0.0.9:6653" && m.TLS && m.Addresses[0].String() == "192.0.2.1/32" && m.Addresses[1].Bits() == 64 && m.Table == 1 &&
			m.Priority == 7,
		"ingress": m.Ingresses[0].Forwarder == 1 && m.Ingresses[0].Port == 1 && m.Ingresses[0].Live == 5*time.Minute && m.Ingresses[0].Cost["paris"] == 2.5,
	} {
		if !ok {
			t.Errorf("%s is not what the file says: %+v", what, p)
		}
	}
	if len(cfg.Warnings) > 0 {
		t.Errorf("warnings %q", cfg.Warnings)
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"graceful restart", "", "", "anycast.yaml:15:76: site.bgp.peers[0].graceful_restart: when this host dies, r1 keeps sending clients here for 30s"},
		{"no budget", "{suppress: 3000, half_life: 10m, share: 60%}", "none", "site.flaps: is off"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := Parse("anycast.yaml", []byte(strings.Replace(everything, tt.old, tt.new, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(cfg.Warnings, "\n"), tt.want) {
				t.Errorf("warnings %q, want %q", cfg.Warnings, tt.want)
			}
		})
	}
}
