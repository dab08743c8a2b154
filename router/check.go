package router

import (
	"fmt"

	"baton/datapath"
	"baton/router/config"
)

// Check refuses a configuration that the data path has no room for, as a start and a reload do. The error is a *config.Error.
func Check(cfg *config.Config) error {
	refuse := func(line int, key string, have, room int) error {
		return &config.Error{
			File: cfg.File, Line: line, Key: key,
			Problem: fmt.Sprintf("is one of %d, and the data path holds %d", have, room), Right: "several routers",
		}
	}
	if n := len(cfg.VIPs); n > datapath.MaxVIPs {
		return refuse(cfg.VIPs[datapath.MaxVIPs].Line, fmt.Sprintf("vips[%d]", datapath.MaxVIPs), n, datapath.MaxVIPs)
	}
	if n := len(cfg.Pools); n > datapath.MaxPools {
		p := cfg.Pools[datapath.MaxPools]
		return refuse(p.Line, "pools."+p.Name, n, datapath.MaxPools)
	}
	all := 0
	for _, p := range cfg.Pools {
		all += len(p.Surrogates)
	}
	room := datapath.MaxSurrogates
	for _, p := range cfg.Pools {
		if len(p.Surrogates) > room {
			return refuse(p.Surrogates[room].Line, fmt.Sprintf("pools.%s.surrogates[%d]", p.Name, room), all, datapath.MaxSurrogates)
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
