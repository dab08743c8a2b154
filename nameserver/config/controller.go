package config

import (
	"fmt"
	"slices"
	"time"

	"baton/document"
	"baton/rpc/settings"
)

// Controller is the controller that the state of the surrogates is from.
type Controller struct {
	settings.Settings
	Keep time.Duration // for how long its last word counts when it is gone
}

// defaultKeep outlasts a controller that is replaced (2 s) or restarted with its switches (10 s). A surrogate that fails meanwhile is not noticed: the
// clients' own answers last 20 s, so that a longer time would add more than one such failure may cost.
const defaultKeep = 30 * time.Second

func (d *decoder) controller(path string, n *node) *Controller {
	c := &Controller{Keep: defaultKeep}
	d.Fields(path, n, append(c.Keys(d.Decoder, d.file), key{Name: "keep", Default: "30s", Help: "for how long its last word counts when it is gone",
		Decode: func(path string, n *node) {
			c.Keep = d.Between(path, n, time.Second, time.Hour)
		}}))
	c.Check(d.Decoder, path, n)
	return c
}

// checkSources refuses and warns of what is known of the surrogates.
func (d *decoder) checkSources(cfg *Config) {
	switch {
	case cfg.Controller != nil && cfg.Policy == nil:
		d.Warn(d.Place("controller"), "controller", "is unused: there is no policy, whose surrogates it knows")
	case cfg.Controller != nil && cfg.Health == nil:
		d.Warn(d.Place("controller"), "controller", "without health: while it is gone, clients are sent to surrogates that are down")
	case cfg.Policy != nil && cfg.Health == nil:
		d.Warn(d.Place("policy"), "policy", "without health: clients are sent to surrogates that are down")
	}
	if cfg.Policy == nil || cfg.Controller != nil {
		return
	}
	for _, site := range cfg.Policy.Sites {
		at := document.Join("policy.sites", site.Name)
		if site.Capacity > 0 {
			d.withoutSessions(document.Join(at, "capacity"), site.Capacity)
		}
		for _, u := range site.Surrogates {
			if u.Capacity > 0 {
				d.withoutSessions(document.Join(document.Join(document.Join(at, "surrogates"), u.Name), "capacity"), u.Capacity)
			}
		}
	}
}

func (d *decoder) withoutSessions(path string, capacity int) {
	d.Warn(d.Place(path), path, fmt.Sprintf("%d sessions are never reached: nobody counts them here (controller: {url: ...})", capacity))
}

// Same reports whether another configuration has the same controller.
func (c *Controller) Same(other *Controller) bool {
	if c == nil || other == nil {
		return c == other
	}
	return slices.Equal(c.URLs, other.URLs) && c.Token == other.Token && c.Authority == other.Authority && c.Certificate == other.Certificate &&
		c.Key == other.Key && c.Keep == other.Keep
}
