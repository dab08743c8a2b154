package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"baton/document"
)

// crossCheck refuses values that contradict another part of the file, and collects the warnings.
func (d *decoder) crossCheck(cfg *Config) {
	if len(cfg.Entries) == 0 && cfg.Trunks == nil {
		d.Refuse("entries", "and trunks are missing: no flow can come in", "one of them, or both")
	}
	own := d.checkListeners(cfg)
	d.checkPeers(cfg, own)
	if cfg.Trunks != nil && len(cfg.Allow) == 0 && len(cfg.Peers) == 0 {
		d.Refuse("trunks", "accept flows that have no destination: allow is empty, and there are no peers", "allow: [{prefix: ...}]")
	}
	names := make(map[string]string)
	for i := range cfg.Entries {
		e, path := &cfg.Entries[i], fmt.Sprintf("entries[%d]", i)
		if first, twice := names[e.Name]; twice {
			d.Refuse(path+".name", fmt.Sprintf("%q is the name of %s already", e.Name, first), "a name of its own")
		}
		names[e.Name] = path
		d.checkVia(cfg, path, e)
		d.checkAuto(cfg, path, e)
		d.checkDestination(cfg, path, e, own)
		d.checkIntercept(cfg, path, e, own)
		d.checkOverlap(path, e, cfg.Entries[:i])
	}
	if d.Err() == nil {
		d.warn(cfg)
	}
}

// listening is an address where this relay accepts connections, and its key.
type listening struct {
	path string
	at   netip.AddrPort
}

func (d *decoder) checkListeners(cfg *Config) []listening {
	var own []listening
	if cfg.Trunks != nil {
		for i, at := range cfg.Trunks.Listen {
			own = append(own, listening{fmt.Sprintf("trunks.listen[%d]", i), at})
		}
	}
	for i := range cfg.Entries {
		own = append(own, listening{fmt.Sprintf("entries[%d].listen", i), cfg.Entries[i].Listen})
	}
	for i, l := range own {
		// A listener at one address may coexist with one at the wildcard address: the kernel prefers the more specific one.
		if j := slices.IndexFunc(own[:i], func(o listening) bool { return o.at == l.at }); j >= 0 {
			d.Refuse(l.path, fmt.Sprintf("%s is %s already", l.at, own[j].path), "an address or a port of its own")
		}
		if conflictsWithMetrics(cfg.Metrics, l.at) {
			d.Refuse("metrics", fmt.Sprintf("%q is %s, %s, already", cfg.Metrics, l.path, l.at), "a port of its own")
		}
	}
	return own
}

// conflictsWithMetrics reports whether the metrics listener, which does not share its port, conflicts with a listener for flows. A name is
// not resolved.
func conflictsWithMetrics(metrics string, at netip.AddrPort) bool {
	everywhere := strings.HasPrefix(metrics, ":")
	if everywhere {
		metrics = "[::]" + metrics
	}
	m, err := netip.ParseAddrPort(metrics)
	if err != nil || m.Port() != at.Port() {
		return false
	}
	all := m.Addr() == netip.IPv6Unspecified() // includes IPv4, as in net.Listen
	return all || m.Addr() == at.Addr() || m.Addr().Is4() == at.Addr().Is4() && (m.Addr().IsUnspecified() || at.Addr().IsUnspecified())
}

// ownListener returns the key of the relay's own listener at an address, "" if there is none in the file. The host's addresses are not
// known here.
func ownListener(own []listening, to netip.AddrPort) string {
	for _, l := range own {
		here := l.at.Addr() == to.Addr() || l.at.Addr().IsUnspecified() && l.at.Addr().Is4() == to.Addr().Is4() && to.Addr().IsLoopback()
		if here && l.at.Port() == to.Port() {
			return l.path
		}
	}
	return ""
}

func (d *decoder) checkPeers(cfg *Config, own []listening) {
	names, addresses := make(map[string]string), make(map[netip.AddrPort]string)
	for i, p := range cfg.Peers {
		path := fmt.Sprintf("peers[%d]", i)
		if first, twice := names[p.Name]; twice {
			d.Refuse(path+".name", fmt.Sprintf("%q is the name of %s already", p.Name, first), "a name of its own")
		}
		if p.Name == cfg.Name {
			d.Refuse(path+".name", fmt.Sprintf("%q is this relay's own name", p.Name), "another relay's")
		}
		if first, twice := addresses[p.Address]; twice {
			d.Refuse(path+".address", fmt.Sprintf("%s is the address of %s already", p.Address, first), "an address and port of its own")
		}
		if key := ownListener(own, p.Address); key != "" {
			d.Refuse(path+".address", fmt.Sprintf("%s is %s of this relay", p.Address, key), "another relay's address")
		}
		names[p.Name], addresses[p.Address] = path, path
	}
}

func (d *decoder) checkVia(cfg *Config, path string, e *Entry) {
	for i, name := range e.Via {
		if name == cfg.Name {
			d.Refuse(fmt.Sprintf("%s.via[%d]", path, i), fmt.Sprintf("%q is this relay itself", name), "the relays after it")
		}
	}
}

// checkReferences refuses a first relay that is not a peer. Those behind it are peers of the relay before them, which knows them.
func (d *decoder) checkReferences(cfg *Config) {
	peers := make([]string, len(cfg.Peers))
	for i, p := range cfg.Peers {
		peers[i] = p.Name
	}
	for i, e := range cfg.Entries {
		if len(e.Via) > 0 && e.Via[0] != cfg.Name {
			d.Refer(fmt.Sprintf("entries[%d].via[0]", i), e.Via[0], "is not a peer", "peers: [{name: "+e.Via[0]+", address: ...}]", "peers", peers)
		}
	}
}

// checkDestination checks where the flows of an entry go.
func (d *decoder) checkDestination(cfg *Config, path string, e *Entry, own []listening) {
	to := e.Destination
	if e.Mode == Plain {
		at := path + ".destination"
		if key := ownListener(own, to); key != "" {
			d.Refuse(at, fmt.Sprintf("%s is %s of this relay", to, key), "the server's address")
		}
		if e.ClientAddress == Spoofed && to.Addr().Is4() != e.Listen.Addr().Is4() {
			d.Refuse(at, fmt.Sprintf("%s is %s, but its clients are %s and it sees their addresses", to, family(to.Addr()), family(e.Listen.Addr())),
				"a destination and a listener of one family, or another client_address")
		}
	}
	if len(e.Via) > 0 || e.Auto || e.Mode == Plain { // which need not be in allow
		return
	}
	if len(cfg.Allow) == 0 {
		d.Refuse(path, "has no via, and allow is empty", "via: [...], or allow: [{prefix: ...}]")
	}
	if e.Intercept == nil {
		return
	}
	for i, p := range e.Intercept.Destinations {
		if !slices.ContainsFunc(cfg.Allow, func(a Allow) bool { return a.Prefix.Overlaps(p) }) {
			d.Refuse(fmt.Sprintf("%s.intercept.destinations[%d]", path, i), fmt.Sprintf("no address of %s is in allow", p),
				fmt.Sprintf("via: [...], or allow: [{prefix: %s}]", p))
		}
	}
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// checkIntercept refuses to intercept packets that the listener cannot accept, or that would loop back to this relay.
func (d *decoder) checkIntercept(cfg *Config, path string, e *Entry, own []listening) {
	if e.Intercept == nil {
		return
	}
	for i, p := range e.Intercept.Destinations {
		at := fmt.Sprintf("%s.intercept.destinations[%d]", path, i)
		if p.Addr().Is4() != e.Listen.Addr().Is4() {
			d.Refuse(at, fmt.Sprintf("%s is %s, but the entry listens on %s", p, family(p.Addr()), family(e.Listen.Addr())),
				"an entry for each family")
		}
		for _, l := range own {
			// The host's addresses are not known here, but 0.0.0.0/0 and ::/0 contain them.
			holds := p.Contains(l.at.Addr()) && (!l.at.Addr().IsUnspecified() || p.Bits() == 0)
			if holds && holdPort(e.Intercept.Ports, l.at.Port()) {
				d.Refuse(at, fmt.Sprintf("%s contains %s, which is %s of this relay: a loop", p, l.at, l.path),
					"a port for it that is not intercepted")
			}
		}
		for _, peer := range cfg.Peers {
			if p.Contains(peer.Address.Addr()) && holdPort(e.Intercept.Ports, peer.Address.Port()) {
				d.Refuse(at, fmt.Sprintf("%s contains %s, the address of peer %s: its trunks would loop", p, peer.Address, peer.Name),
					"a port for it that is not intercepted")
			}
		}
	}
}

// checkOverlap refuses two entries that intercept the same packets. Of overlapping prefixes the longer one wins.
func (d *decoder) checkOverlap(path string, e *Entry, before []Entry) {
	if e.Intercept == nil {
		return
	}
	places := make(map[netip.Prefix]int, len(e.Intercept.Destinations))
	for i, p := range e.Intercept.Destinations {
		places[p] = i
	}
	for i := range before {
		if !overlap(e, &before[i]) {
			continue
		}
		for _, p := range before[i].Intercept.Destinations {
			if j, twice := places[p]; twice {
				d.Refuse(fmt.Sprintf("%s.intercept.destinations[%d]", path, j),
					fmt.Sprintf("%s is intercepted by entries[%d] already, at the same interface and port", p, i), "in one of them")
				return
			}
		}
	}
}

// overlap reports whether two entries intercept at the same interface and port.
func overlap(a, b *Entry) bool {
	return b.Intercept != nil &&
		slices.ContainsFunc(a.Interfaces, func(name string) bool { return slices.Contains(b.Interfaces, name) }) &&
		slices.ContainsFunc(a.Intercept.Ports, func(p document.Ports) bool {
			return slices.ContainsFunc(b.Intercept.Ports, func(o document.Ports) bool { return o.First <= p.Last && p.First <= o.Last })
		})
}
