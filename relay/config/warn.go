package config

import (
	"fmt"
	"slices"
)

// warn collects warnings about settings that are valid but may surprise.
func (d *decoder) warn(cfg *Config) {
	warn := func(path, text string) { d.Warn(d.Place(path), path, text) }
	for i := range cfg.Entries {
		e, path := &cfg.Entries[i], fmt.Sprintf("entries[%d]", i)
		d.warnEntry(cfg, path, e)
	}
	asked := cfg.Trunks != nil || slices.ContainsFunc(cfg.Entries, func(e Entry) bool { return len(e.Via) == 0 && e.Mode != Plain })
	if len(cfg.Allow) > 0 && !asked {
		warn("allow", "is unused: there are no trunks, and all entries have a via or a destination")
	}
	for i, p := range cfg.Peers {
		used := slices.ContainsFunc(cfg.Entries, func(e Entry) bool { return e.Auto || len(e.Via) > 0 && e.Via[0] == p.Name })
		if !used && cfg.Trunks == nil {
			warn(fmt.Sprintf("peers[%d]", i), fmt.Sprintf("no entry goes via %s: its trunks are kept ready for nothing", p.Name))
		}
	}
	d.warnChoose(cfg)
	if top := d.credentialsAt(""); top != "" && !slices.ContainsFunc(d.sections(cfg), func(s *section) bool { return s.path == top }) {
		warn(top, "is unused: all trunks and peers have their own")
	}
}

func (d *decoder) warnEntry(cfg *Config, path string, e *Entry) {
	warn := func(key, text string) { d.Warn(d.Place(path+"."+key), path+"."+key, text) }
	if len(e.Interfaces) > 0 && e.Intercept == nil && e.EarlySYN == EarlyOff {
		warn("interfaces", "is unused without intercept and early_syn: clients may come in anywhere")
	}
	last := "this relay"
	if len(e.Via) > 0 {
		last = e.Via[len(e.Via)-1]
	}
	switch {
	case e.ClientAddress == Spoofed:
		warn("client_address", "servers answer to the clients' addresses: their route there must lead through "+last+", by its return_interfaces")
	case e.ClientAddress == ProxyHeader && e.Mode == Transparent:
		warn("client_address", "servers must expect a PROXY header, which direct clients do not send")
	}
	if e.Listen.Addr().IsLoopback() {
		return
	}
	switch e.Mode {
	case Proxy:
		warn("listen", fmt.Sprintf("anyone who can reach %s chooses destinations and client addresses", e.Listen))
	case SOCKS5, Connect:
		warn("listen", fmt.Sprintf("anyone who can reach %s can reach everything that the last relay allows", e.Listen))
	}
}
