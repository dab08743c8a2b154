package config

import (
	"fmt"
	"net/netip"
	"slices"
)

// crossCheck refuses inconsistencies between parts of the file, and collects warnings.
func (d *decoder) crossCheck(cfg *Config) {
	if i := slices.IndexFunc(cfg.Ports, func(p Port) bool { return p.Interface == cfg.Local }); i >= 0 {
		d.Refuse("local", fmt.Sprintf("%q is port %d already", cfg.Local, cfg.Ports[i].No), "a name of its own: the forwarder makes it")
	}
	var connect, listen []Endpoint
	for i, c := range cfg.Controllers {
		connect = d.endpointOnce(fmt.Sprintf("controllers[%d]", i), connect, c.Connect, cfg)
	}
	for i, l := range cfg.Listen {
		listen = d.endpointOnce(fmt.Sprintf("listen[%d]", i), listen, l.Listen, cfg)
	}
	for i, e := range listen {
		if e.Method == "unix" && e.Address == cfg.Control {
			d.Refuse(fmt.Sprintf("listen[%d]", i), fmt.Sprintf("%q is the control socket already", e.Address), "a path of its own")
		}
	}
	if d.Err() != nil {
		return
	}
	d.warn(cfg, append(connect, listen...))
	cfg.Warnings = d.Warnings()
}

// endpointOnce appends an endpoint, and refuses duplicates.
func (d *decoder) endpointOnce(path string, before []Endpoint, e Endpoint, cfg *Config) []Endpoint {
	if slices.Contains(before, e) {
		d.Refuse(path, fmt.Sprintf("%q is there twice", e), "")
	}
	if e.Method == "tls" && cfg.TLS == nil {
		d.Refuse(path, fmt.Sprintf("%q needs certificates", e), "tls: {certificate: ..., key: ..., authority: ...}")
	}
	return append(before, e)
}

func (d *decoder) warn(cfg *Config, all []Endpoint) {
	for i, l := range cfg.Listen {
		if at, err := netip.ParseAddrPort(l.Listen.Address); l.Listen.Method == "tcp" && (err != nil || !at.Addr().IsLoopback()) {
			path := fmt.Sprintf("listen[%d]", i)
			d.Warn(d.Place(path), path, fmt.Sprintf("anyone who can reach %s controls the forwarder: tls requires a certificate", l.Listen))
		}
	}
	if len(all) == 0 && cfg.FailMode == Secure {
		d.Warn(d.Place(""), "controllers", "no controller can configure the forwarder: it drops every packet")
	}
	if len(cfg.Controllers) == 0 && d.Given("retry") {
		d.Warn(d.Place("retry"), "retry", "is for controllers, and there are none")
	}
	if cfg.TLS != nil && !slices.ContainsFunc(all, func(e Endpoint) bool { return e.Method == "tls" }) {
		d.Warn(d.Place("tls"), "tls", "no controller and no listener uses it")
	}
}
