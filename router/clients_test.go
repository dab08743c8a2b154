package router

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"baton/router/config"
)

func TestStrangeRoutes(t *testing.T) {
	const file = `
vips:
  - {address: "192.0.2.1:80", interfaces: [eth1], routes: [{pool: a}]}
  - {address: "[2001:db8::1]:80", interfaces: [eth1], routes: [{pool: a}]}
  - {address: "192.0.2.2:80", mode: proxy, routes: [{pool: a}]}
pools:
  a: {surrogates: [{name: a1, address: "10.0.0.1:80"}, {name: a2, address: "[2001:db8::2]:80"}]}
`
	cfg, err := config.Parse("router.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	const warning = "vips[0].interfaces: the default route leaves by eth0, which is not one of them: " +
		"connections that come in there are proxied, not spliced"
	for _, tt := range []struct {
		name   string
		v4, v6 []defaultDevice
		want   []string
	}{
		{"no default route", nil, nil, nil},
		{"by another interface", []defaultDevice{{name: "eth0"}}, []defaultDevice{{name: "eth1"}}, []string{warning}},
		{"by the same", []defaultDevice{{name: "eth1"}}, nil, nil},
		{"by that of the surrogates", []defaultDevice{{name: "eth7"}}, nil, nil},
		{"by its bridge", []defaultDevice{{name: "br0", ports: []string{"eth1", "eth2"}}}, nil, nil},
		{"by two, one of which is listed", []defaultDevice{{name: "eth0"}, {name: "eth1"}}, nil, []string{warning}},
		{"IPv6", nil, []defaultDevice{{name: "eth0"}}, []string{strings.Replace(warning, "[0]", "[1]", 1)}},
	} {
		got := warnStrangeRoutes(cfg, func(family int) []defaultDevice {
			if family == netlink.FAMILY_V4 {
				return tt.v4
			}
			return tt.v6
		}, func(netip.Addr) string { return "eth7" })
		if len(got) != len(tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, got, tt.want)
			continue
		}
		for i, w := range tt.want {
			if !strings.Contains(got[i].Error(), w) || !strings.Contains(got[i].Error(), "[eth1, eth0]") {
				t.Errorf("%s: %v, want %q", tt.name, got[i], w)
			}
		}
	}
}
