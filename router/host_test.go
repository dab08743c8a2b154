package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"baton/router/config"
	"baton/router/state"
)

// TestLeastMTU: on the smallest interface that is accepted, no segment size is more than what fits.
func TestLeastMTU(t *testing.T) {
	for mtu := -1; mtu < 1500; mtu++ {
		if tooSmall(mtu) == "" && (mtu <= 60 || slices.ContainsFunc(state.MSSClasses(mtu), func(mss uint16) bool { return mss > 1460 })) {
			t.Errorf("an MTU of %d is accepted, with leg classes of %v", mtu, state.MSSClasses(mtu))
		}
	}
	if tooSmall(68) != "" || tooSmall(67) == "" {
		t.Error("the least MTU is not 68")
	}
}

// TestWarnings: hosts for which the kernel's tables have no room are reported.
func TestWarnings(t *testing.T) {
	for routes, want := range map[int]string{
		65534: "", 65540: ":1:1: vips[0].routes: requests to 6 hosts are decided in user space: " +
			"the kernel's tables hold 262144 hosts, 65534 with different routes at a VIP, and 1048576 prefixes (several VIPs or routers)",
	} {
		cfg := &config.Config{
			Pools: []config.Pool{{Name: "a"}, {Name: "b"}}, VIPs: []config.VIP{{Mode: config.Handoff, Protocol: config.HTTP}},
		}
		for i := range routes {
			// no two hosts have the same entries
			m := config.Match{Host: fmt.Sprintf("h%d.net", i), PathPrefix: fmt.Sprintf("/%d", i)}
			cfg.VIPs[0].Routes = append(cfg.VIPs[0].Routes, config.Route{Match: m, Pool: "a"})
		}
		cfg.VIPs[0].Routes = append(cfg.VIPs[0].Routes, config.Route{Pool: "b"})
		if got := strings.Join(Warnings(cfg), "\n"); got != want {
			t.Errorf("%d hosts: %q, want %q", routes, got, want)
		}
	}
}

// TestNeedsPorts: a host without ports for legs serves what has none.
func TestNeedsPorts(t *testing.T) {
	none := errors.New("no ports")
	for _, tt := range []struct {
		vip   config.VIP
		needs bool
	}{
		{config.VIP{Mode: config.Proxy}, false}, {config.VIP{Mode: config.Redirect}, false}, {config.VIP{Mode: config.Reactive}, false},
		{config.VIP{Mode: config.Handoff}, true}, {config.VIP{Mode: config.Handoff, Protocol: config.TLS}, true},
		{config.VIP{Mode: config.Handoff, Protocol: config.QUIC}, true},
	} {
		cfg := &config.Config{VIPs: []config.VIP{{Mode: config.Proxy}, tt.vip}}
		if err := needsPorts(cfg, none); (err != nil) != tt.needs {
			t.Errorf("%s %s: %v", tt.vip.Mode, tt.vip.Protocol, err)
		}
		if err := needsPorts(cfg, nil); err != nil {
			t.Errorf("%s %s with ports: %v", tt.vip.Mode, tt.vip.Protocol, err)
		}
	}
}
