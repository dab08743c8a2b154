package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// crossCheck refuses inconsistencies between parts of the file, and collects warnings.
func (d *decoder) crossCheck(cfg *Config) {
	if cfg.Datapaths == nil {
		d.checkOne("", cfg, cfg)
	} else {
		d.checkSeveral(cfg)
	}
	if d.Err() != nil {
		return
	}
	cfg.Warnings = d.Warnings()
}

// checkSeveral checks forwarders of one process, whose names, ports and endpoints must differ.
func (d *decoder) checkSeveral(cfg *Config) {
	for _, key := range own {
		if d.Given(key) {
			d.Refuse(key, "is of one forwarder, and there are "+datapaths, "it for each of them, or no "+datapaths)
		}
	}
	seen := make(map[string]string) // what only one may have → its key path
	once := func(path, kind, what string) {
		if before, twice := seen[kind+what]; twice && what != "" {
			d.Refuse(path, fmt.Sprintf("%q is there already, as %s", what, before), "each has its own")
		}
		seen[kind+what] = path
	}
	for i, one := range cfg.Datapaths {
		path := fmt.Sprintf("%s[%d].", datapaths, i)
		once(path+"name", "name ", one.Name)
		once(path+"state", "state ", one.State)
		once(path+"local", "interface ", one.Local)
		if one.DatapathID != 0 {
			once(path+"datapath_id", "datapath ", fmt.Sprintf("%#x", one.DatapathID))
		}
		for _, p := range one.Ports {
			once(path+"ports", "interface ", p.Interface)
		}
		for j, l := range one.Listen {
			once(fmt.Sprintf("%slisten[%d]", path, j), "endpoint ", l.Listen.String())
		}
		d.checkOne(path, one, cfg)
	}
}

// checkOne checks a forwarder, whose keys begin with path. Its process has the control socket of whole.
func (d *decoder) checkOne(path string, cfg, whole *Config) {
	if i := slices.IndexFunc(cfg.Ports, func(p Port) bool { return p.Interface == cfg.Local }); i >= 0 {
		d.Refuse(path+"local", fmt.Sprintf("%q is port %d already", cfg.Local, cfg.Ports[i].No), "a name of its own: the forwarder makes it")
	}
	var connect, listen []Endpoint
	of := path
	if !d.Given(path + "controllers") { // those of all datapaths
		of = ""
	}
	for i, c := range cfg.Controllers {
		connect = d.endpointOnce(fmt.Sprintf("%scontrollers[%d]", of, i), connect, c.Connect, cfg)
	}
	for i, l := range cfg.Listen {
		listen = d.endpointOnce(fmt.Sprintf("%slisten[%d]", path, i), listen, l.Listen, cfg)
	}
	for i, e := range listen {
		if e.Method == "unix" && e.Address == whole.Control {
			d.Refuse(fmt.Sprintf("%slisten[%d]", path, i), fmt.Sprintf("%q is the control socket already", e.Address), "a path of its own")
		}
	}
	if d.Err() == nil {
		d.warn(path, cfg, append(connect, listen...))
	}
}

// endpointOnce appends an endpoint, and refuses duplicates.
func (d *decoder) endpointOnce(path string, before []Endpoint, e Endpoint, cfg *Config) []Endpoint {
	if slices.Contains(before, e) {
		d.Refuse(path, fmt.Sprintf("%q is there twice", e), "each endpoint once")
	}
	if e.Method == "tls" && cfg.TLS == nil {
		d.Refuse(path, fmt.Sprintf("%q needs certificates", e), "tls: {certificate: ..., key: ..., authority: ...}")
	}
	return append(before, e)
}

func (d *decoder) warn(prefix string, cfg *Config, all []Endpoint) {
	for i, l := range cfg.Listen {
		if at, err := netip.ParseAddrPort(l.Listen.Address); l.Listen.Method == "tcp" && (err != nil || !at.Addr().IsLoopback()) {
			path := fmt.Sprintf("%slisten[%d]", prefix, i)
			d.Warn(d.Place(path), path, fmt.Sprintf("anyone who can reach %s controls the forwarder: tls requires a certificate", l.Listen))
		}
	}
	if len(all) == 0 && cfg.FailMode == Secure {
		d.Warn(d.Place(strings.TrimSuffix(prefix, ".")), prefix+"controllers", "no controller can configure the forwarder: it drops every packet")
	}
	if len(cfg.Controllers) == 0 && d.Given(prefix+"retry") {
		d.Warn(d.Place(prefix+"retry"), prefix+"retry", "is for controllers, and there are none")
	}
	if d.Given(prefix+"tls") && !slices.ContainsFunc(all, func(e Endpoint) bool { return e.Method == "tls" }) {
		d.Warn(d.Place(prefix+"tls"), prefix+"tls", "no controller and no listener uses it")
	}
}
