package router

import (
	"fmt"
	"net"

	kernel "baton/datapath/router"
	"baton/document"
	"baton/router/config"
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
	return nil
}

// CheckHost reports what a start on this host would lack. The error is a *config.Error.
func CheckHost(cfg *config.Config) error {
	_, err := smallestMTU(cfg)
	return err
}

// smallestMTU is that of the interfaces where clients come in. It refuses those that this host does not have.
func smallestMTU(cfg *config.Config) (int, error) {
	mtu := 65535
	var missing []*config.Error
	for i, v := range cfg.VIPs {
		for j, name := range v.Interfaces {
			dev, err := net.InterfaceByName(name)
			if err != nil {
				key := document.Index(document.Index("vips", i)+".interfaces", j)
				missing = append(missing, cfg.Places.Wrong(key, fmt.Sprintf("%q is not an interface of this host", name), document.Meant(name, interfaces())))
				continue
			}
			mtu = min(mtu, dev.MTU)
		}
	}
	if mtu == 65535 {
		mtu = 1500
	}
	return mtu, document.JoinErrors(missing)
}

func interfaces() []string {
	all, _ := net.Interfaces() // for a message
	names := make([]string, len(all))
	for i, dev := range all {
		names[i] = dev.Name
	}
	return names
}
