package certs

import (
	"net"
	"strings"

	"baton/packet/hello"
	"baton/router/config"
)

// madeUp is the label in place of a wildcard, where no name that it stands for is known.
const madeUp = "baton-check"

// Ask is a name to make a handshake with.
type Ask struct {
	Name   string // in the hello; "": none
	Route  string // the name or wildcard of the routes; "": of a pool whose routes have none
	MadeUp bool   // the surrogate need not have this name
}

// Names lists what to ask the surrogates of an encrypted pool for, in the order of the routes, without duplicates.
func Names(cfg *config.Config, pool *config.Pool) []Ask {
	host := checkHost(pool)
	var asks []Ask
	known := make(map[string]bool)
	for i := range cfg.VIPs {
		v := &cfg.VIPs[i]
		if !v.Protocol.Encrypted() {
			continue
		}
		for _, r := range v.Routes {
			route := r.Match.SNI
			if r.Pool != pool.Name || route == "" || known[route] {
				continue
			}
			known[route] = true
			suffix, wildcard := strings.CutPrefix(route, "*")
			switch {
			case !wildcard:
				asks = append(asks, Ask{Name: route, Route: route})
			case hello.Match(route, host):
				asks = append(asks, Ask{Name: host, Route: route})
			default:
				asks = append(asks, Ask{Name: madeUp + suffix, Route: route, MadeUp: true})
			}
		}
	}
	if asks == nil {
		asks = []Ask{{Name: host}}
	}
	return asks
}

// checkHost is health.host as a name for a hello; "" if there is none, or it is an address.
func checkHost(pool *config.Pool) string {
	if pool.Health == nil {
		return ""
	}
	host := pool.Health.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if hello.CheckPattern(host) != nil {
		return ""
	}
	return hello.Canonical(host)
}
