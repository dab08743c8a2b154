package router

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"baton/document"
	"baton/router/config"
	"baton/router/legs"
	"baton/router/route"
	"baton/router/state"
)

// Check reports a configuration that exceeds the data path's tables, at start and at reload. The error is a *config.Error.
func Check(cfg *config.Config) error { return state.Check(cfg) }

// Warnings say for which hosts the tables of a new data path have no room, a line each.
func Warnings(cfg *config.Config) []string {
	table, err := route.Compile(cfg)
	if err != nil {
		return nil // Check says it
	}
	return table.Kernel(route.RoomFor(cfg)).Warnings(cfg)
}

// CheckHost reports what a start on this host would lack, a line each.
func CheckHost(cfg *config.Config) error {
	_, err := checkHost(cfg)
	_, noPorts := legs.FreePorts()
	return errors.Join(err, needsPorts(cfg, noPorts))
}

// needsPorts returns why there are no ports for legs, unless no VIP of the configuration has any.
func needsPorts(cfg *config.Config, noPorts error) error {
	if noPorts == nil || !slices.ContainsFunc(cfg.VIPs, func(v config.VIP) bool { return state.HandsOff(&v) || v.Protocol == config.QUIC }) {
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
