package config

import (
	"fmt"
	"net/netip"

	"baton/document"
)

// crossCheck finds errors that involve several parts of the file, and collects the warnings.
func (d *decoder) crossCheck(cfg *Config) {
	pools := make(map[string]*Pool, len(cfg.Pools))
	for i := range cfg.Pools {
		pools[cfg.Pools[i].Name] = &cfg.Pools[i]
	}
	vips := d.checkVIPs(cfg)
	d.checkEncrypted(cfg)
	d.checkQUIC(cfg)
	d.checkKept(cfg)
	d.checkFields(cfg)
	d.checkRewrites(cfg)
	d.checkSurrogates(cfg, vips)
	d.checkDiscover(cfg)
	d.checkAccessLogs(cfg)
	if d.Err() != nil {
		return
	}
	d.warnVIPs(cfg, pools)
	d.warnPools(cfg)
	cfg.Warnings = d.Warnings()
}

// checkPools refuses routes to pools that there are not.
func (d *decoder) checkPools(cfg *Config) {
	names := cfg.PoolNames()
	for i, v := range cfg.VIPs {
		for j, r := range v.Routes {
			d.Refer(fmt.Sprintf("vips[%d].routes[%d].pool", i, j), r.Pool, "is not a pool", "", "pools", names)
		}
	}
}

func (d *decoder) checkVIPs(cfg *Config) map[netip.AddrPort]string {
	type endpoint struct {
		address netip.AddrPort
		udp     bool
	}
	vips := make(map[netip.AddrPort]string, len(cfg.VIPs))
	taken := make(map[endpoint]string, len(cfg.VIPs))
	for i, v := range cfg.VIPs {
		path := fmt.Sprintf("vips[%d]", i)
		at := endpoint{v.Address, v.Protocol == QUIC}
		if first, twice := taken[at]; twice {
			d.WrongAt(d.Place(path), path+".address", fmt.Sprintf("%s is the address of %s already", v.Address, first),
				"an address and port of its own")
		}
		vips[v.Address], taken[at] = path, path
		d.checkCovered(path, &v)
	}
	return vips
}

// checkCovered refuses routes that are never reached.
func (d *decoder) checkCovered(path string, v *VIP) {
	earlier := newCoverIndex(v)
	for i := range v.Routes {
		if first := earlier.findFirst(i); first >= 0 {
			at := document.Index(path+".routes", i)
			d.WrongAt(d.Place(at), at, fmt.Sprintf("is never reached: the route on line %d matches all that this one does", v.Routes[first].Line),
				"the more special route first")
		}
		earlier.addRoute(i)
	}
}

func (d *decoder) checkSurrogates(cfg *Config, vips map[netip.AddrPort]string) {
	named := make(map[string]string)
	legs := 0
	for _, p := range cfg.Pools {
		pool := document.Join("pools", p.Name)
		weight := 0
		for j, s := range p.Surrogates {
			at := fmt.Sprintf("%s.surrogates[%d]", pool, j)
			if first, twice := named[s.Name]; twice {
				d.WrongAt(d.Place(at), at+".name", fmt.Sprintf("%q is the name of %s already", document.Clip(s.Name), first),
					"a server in two pools has a name in each")
			}
			named[s.Name] = at
			if vip, ok := vips[s.Address]; ok {
				d.WrongAt(d.Place(at), at+".address", fmt.Sprintf("%s is the router's own, of %s", s.Address, vip), "the server's address")
			}
			weight += s.Weight
			if !p.QUICOnly {
				legs += p.Legs.Min
			}
		}
		for i, a := range p.Legs.Sources {
			for vip := range vips {
				if vip.Addr() == a {
					at := fmt.Sprintf("%s.legs.sources[%d]", pool, i)
					d.WrongAt(d.Place(at), at, fmt.Sprintf("%s is the address of a VIP", a), "another address of this host")
					break
				}
			}
		}
		if weight == 0 && len(p.Discover) == 0 {
			d.WrongAt(d.Place(pool), pool+".surrogates", "have no weight above 0, so none can be chosen", "a weight from 1 to 256")
		}
	}
	if legs > cfg.Limits.Sessions {
		d.Refuse("limits.sessions", fmt.Sprintf("%d is below the %d idle legs that the pools keep ready", cfg.Limits.Sessions, legs),
			"a higher limit, or smaller legs.min")
	}
}

// https is the port on which clients use TLS.
const https = 443

// warnVIPs warns of what a handoff VIP can only proxy, or cannot do at all.
func (d *decoder) warnVIPs(cfg *Config, pools map[string]*Pool) {
	warned := make(map[string]bool) // surrogate and reason
	for i, v := range cfg.VIPs {
		if v.Mode != Handoff || v.Protocol == QUIC {
			continue
		}
		at := fmt.Sprintf("vips[%d]", i)
		if v.Address.Port() == https && v.Protocol == HTTP {
			d.Warn(d.Place(at), at+".address", v.Address.String()+" is the port of HTTPS, but the VIP is for HTTP without TLS: add protocol: tls, or TLS clients are refused")
		}
		if v.Address.Addr().IsLoopback() {
			d.Warn(d.Place(at), at+".address", v.Address.String()+" is on loopback: its clients are proxied, not handed off")
			continue
		}
		for _, r := range v.Routes {
			p := pools[r.Pool]
			for j, s := range p.Surrogates {
				var text string
				switch {
				case s.Address.Addr().IsLoopback():
					text = s.Address.String() + " is on loopback and cannot be spliced: its sessions are proxied"
				case s.Address.Addr().Is4() != v.Address.Addr().Is4():
					text = fmt.Sprintf("%s is of another address family than VIP %s: its sessions are proxied", s.Address, v.Address)
				default:
					continue
				}
				if !warned[s.Name+text] {
					warned[s.Name+text] = true
					at := fmt.Sprintf("%s.surrogates[%d]", document.Join("pools", p.Name), j)
					d.Warn(d.Place(at), at+".address", text)
				}
			}
		}
	}
}

func (d *decoder) warnPools(cfg *Config) {
	used := make(map[string]bool)
	for _, v := range cfg.VIPs {
		for _, r := range v.Routes {
			used[r.Pool] = true
		}
	}
	for _, p := range cfg.Pools {
		path := document.Join("pools", p.Name)
		if !used[p.Name] {
			d.Warn(d.Place(path), path, "no route sends requests to this pool")
		}
		addresses := make(map[netip.AddrPort]string)
		for j, s := range p.Surrogates {
			at := fmt.Sprintf("%s.surrogates[%d]", path, j)
			if first, twice := addresses[s.Address]; twice {
				d.Warn(d.Place(at), at+".address", fmt.Sprintf("%s is the address of %q too", s.Address, document.Clip(first)))
			}
			addresses[s.Address] = s.Name
			switch {
			case s.Weight > 1 && p.Policy == FromFile:
				d.Warn(d.Place(at), at+".weight", "a policy of a file has its own weights")
			case s.Weight > 1 && p.Policy != Weighted && p.Policy != Hash:
				d.Warn(d.Place(at), at+".weight", fmt.Sprintf("policy %s does not use weights", p.Policy))
			}
		}
	}
}
