package topology

import (
	"strings"
	"testing"
)

// routesOf is a host's routes, each as "to>via", with the hosts' names for addresses.
func routesOf(t *Topology, name string) string {
	names := make(map[string]string)
	t.ends(func(_ string, k *Link, e *End) {
		for _, p := range e.Addresses {
			names[p.Addr().String()] = e.Host
			names[p.Masked().String()] = k.Name
		}
	})
	word := func(s string) string {
		if n := names[s]; n != "" {
			return n
		}
		return s
	}
	var out []string
	for _, r := range t.Host(name).Routes {
		if r.To.Addr().Is4() {
			out = append(out, word(r.To.String())+">"+word(r.Via.String()))
		}
	}
	return strings.Join(out, " ")
}

func TestShortestPath(t *testing.T) {
	square := `hosts:
  c:
  r1: {forward: true}
  r2: {forward: true}
  r3: {forward: true}
  r4: {forward: true}
  s:
links:
  - {a: c, b: r1}
  - {a: r1, b: r2, delay: 10ms}
  - {a: r1, b: r3, delay: 1ms}
  - {a: r2, b: r4, delay: 1ms}
  - {a: r3, b: r4, delay: 5ms}
  - {a: r4, b: s}
`
	tests := []struct{ name, text, host, want string }{
		{"one way out", square, "c", "0.0.0.0/0>r1"},
		{"equal hops, less delay", square, "r1", "r2-r4>r2 r3-r4>r3 r4-s>r3"},
		{"back by the delay of that direction", strings.Replace(square, "delay: 5ms", "delay: 5ms, b_to_a: {delay: 50ms}", 1), "r4", "c-r1>r2 r1-r2>r2 r1-r3>r3"},
		{"fewer hops, more delay", square + "  - {a: r1, b: r4, delay: 1s}\n", "r1", "r2-r4>r2 r3-r4>r3 r4-s>r4"},
		{"not through a host", `hosts: {a: , b: , c: }
links: [{a: a, b: b}, {a: b, b: c}]
`, "a", ""},
		{"two ways out", `hosts: {c: , r1: {forward: true}, r2: {forward: true}, s1: , s2: }
links: [{a: c, b: r1}, {a: c, b: r2}, {a: r1, b: s1}, {a: r2, b: s2}]
`, "c", "r1-s1>r1 r2-s2>r2"},
		{"a prefix behind a host that does not forward", `hosts: {c: , r1: {forward: true}, r2: {forward: true}}
links: [{a: c, b: r1}, {a: c, b: r2}]
`, "r1", ""},
		{"loopback of a router", `hosts: {c: , r1: {forward: true}, r2: {forward: true, addresses: [10.255.0.2]}}
links: [{a: c, b: r1}, {a: r1, b: r2}]
`, "r1", "10.255.0.2/32>r2"},
		{"explicit", "routing: explicit\n" + square, "c", ""},
		{"own routes", strings.Replace(square, "  c:", "  c: {routes: []}", 1), "c", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := routesOf(parse(t, tt.text), tt.host); got != tt.want {
				t.Errorf("routes of %s are %q, want %q", tt.host, got, tt.want)
			}
		})
	}
}

// Each router leads to the nearest holder of an anycast address, the holder's own router among equals by delay.
func TestAnycast(t *testing.T) {
	got := parse(t, `hosts:
  r1: {forward: true}
  r2: {forward: true}
  r3: {forward: true}
  s1:
  s3:
links:
  - {a: r1, b: r2, delay: 10ms}
  - {a: r2, b: r3, delay: 5ms}
  - {a: r1, b: s1}
  - {a: r3, b: s3}
anycast: {10.9.9.9: [s1, s3], "fd09::9": [s1, s3]}
`)
	for host, want := range map[string]string{"r1": "s1", "r2": "r3", "r3": "s3"} {
		if routes := routesOf(got, host); !strings.Contains(routes, "10.9.9.9/32>"+want) {
			t.Errorf("%s has %q, want 10.9.9.9 by way of %s", host, routes, want)
		}
	}
	if len(got.Host("s1").Addresses) != 2 || len(got.Host("s1").Routes) != 2 {
		t.Errorf("s1 is %+v", got.Host("s1"))
	}
}

// Hosts behind bridges and switches are neighbours, with the delays of the links between them.
func TestRoutesOverBridges(t *testing.T) {
	got := parse(t, `hosts: {c: , near: {forward: true}, far: {forward: true}, s: }
bridges: {x: , y: }
links:
  - {a: c, b: x}
  - {a: x, b: y, delay: 10ms}
  - {a: far, b: y}
  - {a: near, b: x}
  - {a: far, b: s}
  - {a: near, b: s}
`)
	if routes := routesOf(got, "c"); routes != "far-s>far near-s>near" {
		t.Errorf("c has %q", routes)
	}
	if routes := routesOf(got, "s"); routes != "near-s>near" && routes != "0.0.0.0/0>near" {
		t.Errorf("s has %q, want the way without the delay", routes)
	}
}

// An end of a switch with addresses is no port: what it leads to is not on the switch's segment, and nothing is routed over it.
func TestLinksToControllers(t *testing.T) {
	got := parse(t, `hosts: {a: , b: , c: {forward: true}}
switches: {sw: }
links:
  - {a: a, b: sw}
  - {a: sw, b: b}
  - {a: {host: c, addresses: [10.255.1.1/30]}, b: {host: sw, interface: mgmt, addresses: [10.255.1.2/30]}}
`)
	if n := len(got.segments()); n != 2 {
		t.Errorf("%d segments", n)
	}
	if a := words(got.Link("sw-b").B.Addresses); a != "10.0.1.2/24 fd00:0:0:1::2/64" {
		t.Errorf("b has %s", a)
	}
	for _, h := range got.Hosts {
		if len(h.Routes) > 0 {
			t.Errorf("%s has %v", h.Name, h.Routes)
		}
	}
}
