package router

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	kernel "baton/datapath/router"
	"baton/document"
	"baton/router/config"
	"baton/router/fields"
	"baton/router/legs"
)

// Check reports a configuration that exceeds the data path's tables, at start and at reload. The error is a *config.Error.
func Check(cfg *config.Config) error {
	refuse := func(key string, have, room int) error {
		return cfg.Places.Wrong(key, fmt.Sprintf("is one of %d, and the data path holds %d", have, room), "several routers")
	}
	if n := len(cfg.VIPs); n > kernel.MaxVIPs {
		return refuse(document.Index("vips", kernel.MaxVIPs), n, kernel.MaxVIPs)
	}
	if n := len(cfg.Pools); n > kernel.MaxPools {
		return refuse(document.Join("pools", cfg.Pools[kernel.MaxPools].Name), n, kernel.MaxPools)
	}
	all := 0
	for _, p := range cfg.Pools {
		all += len(p.Surrogates)
	}
	room := kernel.MaxSurrogates
	for _, p := range cfg.Pools {
		if len(p.Surrogates) > room {
			return refuse(document.Index(document.Join("pools", p.Name)+".surrogates", room), all, kernel.MaxSurrogates)
		}
		room -= len(p.Surrogates)
	}
	return checkEdits(cfg)
}

// maxEdits are the different changes of requests in a configuration: at a reload the data path has those of two.
const maxEdits = kernel.MaxEdits / 2

func checkEdits(cfg *config.Config) error {
	different := make(map[kernel.Edit]bool)
	fits := func(key string, e kernel.Edit) error {
		if e != (kernel.Edit{}) {
			different[e] = true
		}
		if len(different) <= maxEdits {
			return nil
		}
		return cfg.Places.Wrong(key, fmt.Sprintf("has one more than %d different fields and rewrites of requests, which the data path holds", maxEdits), "several routers")
	}
	pools := make(map[string]*poolState)
	for i := range cfg.Pools {
		p := &poolState{cfg: &cfg.Pools[i], fields: fields.Of(&cfg.Pools[i])}
		pools[p.cfg.Name] = p
		_, e := p.header()
		if err := fits(document.Join("pools", p.cfg.Name), e); err != nil {
			return err
		}
	}
	for i, v := range cfg.VIPs {
		for j, r := range v.Routes {
			if err := fits(fmt.Sprintf("vips[%d].routes[%d]", i, j), pools[r.Pool].edit(r.Rewrite)); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckHost reports what a start on this host would lack, a line each.
func CheckHost(cfg *config.Config) error {
	_, err := checkHost(cfg)
	_, noPorts := legs.FreePorts()
	return errors.Join(err, needsPorts(cfg, noPorts))
}

// needsPorts returns why there are no ports for legs, unless no VIP of the configuration has any.
func needsPorts(cfg *config.Config, noPorts error) error {
	if noPorts == nil || !slices.ContainsFunc(cfg.VIPs, func(v config.VIP) bool { return handsOff(&v) || v.Protocol == config.QUIC }) {
		return nil
	}
	return noPorts
}

// checkHost returns the smallest MTU of the interfaces where clients come in. It refuses interfaces and addresses that this host does
// not have.
func checkHost(cfg *config.Config) (mtu int, err error) {
	mtu, missing := smallestMTU(cfg)
	missing = append(missing, missingSources(cfg)...)
	return mtu, document.JoinErrors(missing)
}

func missingSources(cfg *config.Config) (missing []*config.Error) {
	has := ownAddresses()
	for _, p := range cfg.Pools {
		for i, a := range p.Legs.Sources {
			if !has[a] {
				key := document.Index(document.Join("pools", p.Name)+".legs.sources", i)
				missing = append(missing, cfg.Places.Wrong(key, fmt.Sprintf("%s is not an address of this host", a), fmt.Sprintf("add it to an interface: ip addr add %s/%d dev ...", a, a.BitLen())))
			}
		}
	}
	return missing
}

func ownAddresses() map[netip.Addr]bool {
	all, _ := net.InterfaceAddrs() // without any, every source is missing
	has := make(map[netip.Addr]bool, len(all))
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			has[p.Addr().WithZone("")] = true
		}
	}
	return has
}

func smallestMTU(cfg *config.Config) (mtu int, missing []*config.Error) {
	mtu = 65535
	for i, v := range cfg.VIPs {
		for j, name := range v.Interfaces {
			dev, err := net.InterfaceByName(name)
			if err != nil {
				key := document.Index(document.Index("vips", i)+".interfaces", j)
				missing = append(missing, cfg.Places.Wrong(key, fmt.Sprintf("%q is not an interface of this host", name), document.Meant(name, interfaces())))
				continue
			}
			if problem := tooSmall(dev.MTU); problem != "" {
				key := document.Index(document.Index("vips", i)+".interfaces", j)
				missing = append(missing, cfg.Places.Wrong(key, fmt.Sprintf("%s %s", name, problem), "ip link set "+name+" mtu 1500"))
				continue
			}
			mtu = min(mtu, dev.MTU)
		}
	}
	if mtu == 65535 {
		mtu = 1500
	}
	return mtu, missing
}

// tooSmall returns what is wrong with an MTU that leaves no room for a segment's payload: some kinds of interfaces allow any.
func tooSmall(mtu int) string {
	const least = 68 // of IPv4 (RFC 791, section 3.2)
	if mtu >= least {
		return ""
	}
	return fmt.Sprintf("has an MTU of %d, less than the %d of IPv4", mtu, least)
}

func interfaces() []string {
	all, _ := net.Interfaces() // for a message
	names := make([]string, len(all))
	for i, dev := range all {
		names[i] = dev.Name
	}
	return names
}
