package config

import (
	"fmt"
	"time"

	"baton/document"
)

// crossCheck checks settings that depend on each other, and collects the warnings.
func (d *decoder) crossCheck(cfg *Config) {
	if cfg.Site == nil && cfg.Planner == nil {
		d.Refuse("", "has neither site nor planner: there is nothing to do", "one of them, or both")
		return
	}
	talks := cfg.Listen.Sites != ""
	if cfg.Site != nil {
		d.checkSite(cfg)
		talks = talks || len(cfg.Site.Others) > 0
		if !d.Given("site.bgp") && cfg.Listen.Sites == "" {
			d.Refuse("site", "neither announces by bgp nor reports to anybody", "bgp, or listen: {sites: ...}")
		}
		if cfg.Site.Planner != "" && cfg.Listen.Sites == "" {
			d.Refuse("site.planner", "cannot send its proposals", "listen: {sites: ...}")
		}
	} else if cfg.Listen.Sites != "" {
		d.Refuse("listen.sites", "is for a site's report, and this is none", "site")
	}
	if cfg.Planner != nil {
		d.checkPlanner(cfg.Planner)
		for i := range cfg.Planner.Sites {
			talks = talks || cfg.Planner.Sites[i].URL != nil
		}
		talks = talks || cfg.Planner.Map != nil && cfg.Planner.Map.TLS
	}
	if talks && cfg.TLS == (TLS{}) && d.Err() == nil {
		d.Refuse("tls", "is missing: sites and planners authenticate each other by certificates", "tls: {certificate: ..., key: ..., authority: ...}")
	}
	if d.Err() == nil {
		d.warn(cfg, talks)
	}
}

func (d *decoder) checkSite(cfg *Config) {
	s := cfg.Site
	d.checkPeers(s)
	for i, p := range s.Prefixes {
		for j := range i {
			if s.Prefixes[j] == p {
				d.Refuse(document.Index("site.prefixes", i), fmt.Sprintf("%s is there twice", p), "each prefix once")
			}
		}
	}
	for i := range s.Checks {
		c, path := &s.Checks[i], document.Index("site.checks", i)
		d.checkTwice(path, i, func(j int) bool { return s.Checks[j].Name == c.Name }, "name", c.Name, "site.checks")
		if c.Timeout > 10*time.Second && c.Timeout > 10*c.Interval {
			d.Refuse(path+".timeout", fmt.Sprintf("%v is more than ten times interval: a death would be seen late", c.Timeout), "a shorter one")
		}
	}
	for i := range s.Loads {
		l := &s.Loads[i]
		d.checkTwice(document.Index("site.loads", i), i, func(j int) bool { return s.Loads[j].Name == l.Name }, "name", l.Name, "site.loads")
		if l.Interval >= s.Stale {
			d.Refuse(document.Index("site.loads", i)+".interval",
				fmt.Sprintf("%v is not shorter than site.stale, %v: there would never be a load", l.Interval, s.Stale), "")
		}
	}
	for i := range s.Others {
		o, path := &s.Others[i], document.Index("site.others", i)
		d.checkTwice(path, i, func(j int) bool { return s.Others[j].Name == o.Name }, "name", o.Name, "site.others")
		d.checkTwice(path, i, func(j int) bool { return host(s.Others[j].URL) == host(o.URL) }, "url", o.URL.String(), "site.others")
		if o.Name == cfg.Name {
			d.Refuse(path+".name", fmt.Sprintf("%q is this site's own name", o.Name), "another site's")
		}
	}
	if len(s.Others) > 0 && s.Poll >= s.Stale {
		d.Refuse("site.poll", fmt.Sprintf("%v is not shorter than stale, %v: no other site would be known to be up", s.Poll, s.Stale),
			"a third of stale")
	}
	if a := s.Addresses; a != nil {
		for i, p := range a.Addresses {
			within := len(s.Prefixes) == 0
			for _, service := range s.Prefixes {
				within = within || service.Contains(p.Addr())
			}
			if !within {
				d.Refuse(document.Index("site.addresses.addresses", i), fmt.Sprintf("%s is in none of the prefixes", p.Addr()),
					"an address of the service")
			}
		}
	}
}

// warn collects warnings about settings that are valid but may surprise.
func (d *decoder) warn(cfg *Config, talks bool) {
	warn := func(path, text string) { d.Warn(d.Place(path), path, text) }
	if cfg.TLS != (TLS{}) && !talks {
		warn("tls", "is unused: there is no listen.sites, and no other site is polled")
	}
	s := cfg.Site
	if s == nil {
		return
	}
	if len(s.Others) == 0 && s.BGP.AS != 0 {
		warn("site", "lists no other sites: the service ends with the last site that dies")
	}
	loads := false
	for _, l := range s.Control.Ladder {
		loads = loads || l.Enter > 0
	}
	if loads && len(s.Loads) == 0 && d.Given("site.levels") && s.Planner == "" {
		warn("site.levels", "have load thresholds, but nothing measures the load: see loads")
	}
	for i := range s.BGP.Peers {
		p, path := &s.BGP.Peers[i], document.Index("site.bgp.peers", i)
		if p.Restart > 0 {
			warn(path+".graceful_restart", "when this host dies, "+p.Name+" keeps sending clients here for "+p.Restart.String())
		}
	}
	if f := s.Control.Flaps; f.Suppress == 0 {
		warn("site.flaps", "is off: a router with route flap damping suppresses a site that changes often for an hour")
	}
}
