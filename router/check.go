package router

import (
	"fmt"

	kernel "baton/datapath/router"
	"baton/router/config"
)

// Check refuses a configuration that the data path has no room for, as a start and a reload do. The error is a *config.Error.
func Check(cfg *config.Config) error {
	refuse := func(line int, key string, have, room int) error {
		return &config.Error{
			File: cfg.File, Line: line, Key: key,
			Problem: fmt.Sprintf("is one of %d, and the data path holds %d", have, room), Valid: "several routers",
		}
	}
	if n := len(cfg.VIPs); n > kernel.MaxVIPs {
		return refuse(cfg.VIPs[kernel.MaxVIPs].Line, fmt.Sprintf("vips[%d]", kernel.MaxVIPs), n, kernel.MaxVIPs)
	}
	if n := len(cfg.Pools); n > kernel.MaxPools {
		p := cfg.Pools[kernel.MaxPools]
		return refuse(p.Line, "pools."+p.Name, n, kernel.MaxPools)
	}
	all := 0
	for _, p := range cfg.Pools {
		all += len(p.Surrogates)
	}
	room := kernel.MaxSurrogates
	for _, p := range cfg.Pools {
		if len(p.Surrogates) > room {
			return refuse(p.Surrogates[room].Line, fmt.Sprintf("pools.%s.surrogates[%d]", p.Name, room), all, kernel.MaxSurrogates)
		}
		room -= len(p.Surrogates)
	}
	return nil
}

// Lacks tells what a start on this host would miss.
func Lacks(cfg *config.Config) error {
	_, err := smallestMTU(cfg)
	return err
}
