package router

import (
	"log/slog"
	"os"
	"strings"

	"baton/router/config"
)

// warnNotForwarding warns of a host that does not forward: the FIB lookup of BPF programs then fails (bpf_fib_lookup), and each
// packet's neighbour is looked up on output instead.
func warnNotForwarding(cfg *config.Config, log *slog.Logger) {
	v4, v6 := false, false
	for _, v := range cfg.VIPs {
		if v.Mode != config.Handoff {
			continue
		}
		v4 = v4 || v.Address.Addr().Is4()
		v6 = v6 || v.Address.Addr().Is6()
	}
	for _, f := range []struct {
		used bool
		key  string
	}{{v4, "net/ipv4/ip_forward"}, {v6, "net/ipv6/conf/all/forwarding"}} {
		if value, err := os.ReadFile("/proc/sys/" + f.key); f.used && err == nil && strings.TrimSpace(string(value)) == "0" {
			log.Warn("forwarding is off: splicing works, but more slowly", "sysctl", strings.ReplaceAll(f.key, "/", ".")+"=1")
		}
	}
}
