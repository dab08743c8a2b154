package router

import (
	"log/slog"
	"os"
	"strings"

	"baton/router/config"
)

// warnNotForwarding tells once what a host costs that does not forward: the kernel's route look-up for programs then answers
// nothing (bpf_fib_lookup), and each packet's neighbour is looked up on its way out instead.
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
			log.Warn("forwarding is off: packets are spliced all the same, more slowly", "sysctl", strings.ReplaceAll(f.key, "/", ".")+"=1")
		}
	}
}
