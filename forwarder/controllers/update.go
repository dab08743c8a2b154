package controllers

import (
	"fmt"
	"net"
	"slices"

	"baton/forwarder/config"
)

// Update replaces controllers and listeners by those of another configuration; channels of those in both are kept. Other parts of cfg are
// ignored. An error changes nothing. It must not be called in the turn.
func (c *Controllers) Update(cfg *config.Config) error {
	c.configuring.Lock()
	defer c.configuring.Unlock()
	next, fresh := c.matched(cfg)
	listeners := make(map[*origin]net.Listener)
	for _, o := range fresh {
		if !o.listens {
			continue
		}
		l, err := listen(o.endpoint)
		if err != nil {
			for _, l := range listeners {
				l.Close()
			}
			return fmt.Errorf("listen at %s: %w", o.endpoint, err)
		}
		listeners[o] = l
	}
	for _, o := range c.origins {
		if !slices.Contains(next, o) {
			o.stop()
		}
	}
	c.origins = next
	for _, o := range fresh {
		c.begin(o, listeners[o])
	}
	return nil
}

// matched returns the origins of a configuration, and which of them are new.
func (c *Controllers) matched(cfg *config.Config) (all, fresh []*origin) {
	var wanted []*origin
	for _, k := range cfg.Controllers {
		wanted = append(wanted, &origin{endpoint: k.Connect, name: k.Name, peers: k.Peers})
	}
	for _, l := range cfg.Listen {
		wanted = append(wanted, &origin{endpoint: l.Listen, listens: true, peers: l.Peers})
	}
	for _, o := range wanted {
		i := slices.IndexFunc(c.origins, func(has *origin) bool {
			return has.endpoint == o.endpoint && has.listens == o.listens && has.name == o.name && has.peers == o.peers
		})
		if i >= 0 {
			all = append(all, c.origins[i])
			continue
		}
		all, fresh = append(all, o), append(fresh, o)
	}
	return all, fresh
}
