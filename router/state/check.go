package state

import (
	"fmt"

	kernel "baton/datapath/router"
	"baton/document"
	"baton/router/config"
	"baton/router/fields"
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
	pools := make(map[string]*NumberedPool)
	for i := range cfg.Pools {
		p := &NumberedPool{Config: &cfg.Pools[i], Fields: fields.Of(&cfg.Pools[i])}
		pools[p.Config.Name] = p
		_, e := p.header()
		if err := fits(document.Join("pools", p.Config.Name), e); err != nil {
			return err
		}
	}
	for i, v := range cfg.VIPs {
		for j, r := range v.Routes {
			if err := fits(fmt.Sprintf("vips[%d].routes[%d]", i, j), pools[r.Pool].Edit(r.Rewrite)); err != nil {
				return err
			}
		}
	}
	return nil
}
