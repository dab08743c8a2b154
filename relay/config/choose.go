package config

import (
	"fmt"
	"time"

	"baton/document"
	"baton/relay/choice"
	"baton/relay/plan"
	"baton/relay/trunkproto"
)

// Defaults for choosing routes.
const (
	defaultRelays  = 3
	defaultRefresh = 5 * time.Minute
	defaultMargin  = 0.1
	defaultDwell   = 30 * time.Second
)

func defaultChoose() Choose {
	return Choose{Clouds: plan.PreferOne, Most: defaultRelays, Refresh: defaultRefresh, Margin: defaultMargin, Dwell: defaultDwell}
}

func (d *decoder) choose(path string, n *node, out *Choose) {
	d.Fields(path, n, []key{
		{Name: "clouds", Default: "prefer", Help: "routes over several clouds: only if 10 % faster (prefer), any, or one cloud alone", Decode: func(path string, n *node) {
			out.Clouds = plan.Clouds(d.Choice(path, n, "is not a policy for clouds",
				string(plan.PreferOne), string(plan.AnyCloud), string(plan.OneCloud)))
		}},
		{Name: "most", Now: "max_relays"},
		{Name: "max_relays", Default: "3", Help: "relays on a route, including this one",
			Decode: func(path string, n *node) { out.Most = d.Integer(path, n, 1, trunkproto.MaxHops) }},
		{Name: "refresh", Default: "5m", Help: "interval between measurements of the same distance, at least 10s",
			Decode: func(path string, n *node) { out.Refresh = d.Between(path, n, 10*time.Second, maxTimeout) }},
		{Name: "margin", Default: "10%", Help: "by how much a route must be better to replace the current one",
			Decode: func(path string, n *node) { out.Margin = d.Percent(path, n, 1, 1000) }},
		{Name: "dwell", Default: "30s", Help: "how long a relay must be reachable again before it is used again",
			Decode: func(path string, n *node) { out.Dwell = d.Between(path, n, time.Second, time.Hour) }},
	})
}

// auto replaces the list of relays.
const auto = "auto"

func (d *decoder) via(path string, n *node, e *Entry) {
	if n.Kind == document.Scalar {
		if s := d.Text(path, n); s != auto {
			d.WrongText(n, path, s, "is not a list of relays", "["+document.Clip(s)+"], or auto")
		}
		e.Auto = true
		return
	}
	d.AtMost(path, n, maxVia)
	e.Via = document.Distinct(d.Decoder, path, n, d.Label)
}

// checkAuto refuses via: auto without peers, or with a setting that needs a fixed route.
func (d *decoder) checkAuto(cfg *Config, path string, e *Entry) {
	if !e.Auto {
		return
	}
	if len(cfg.Peers) == 0 {
		d.Refuse(path+".via", "lets the relay choose, but there are no peers", "peers: [{name: ..., address: ...}]")
	}
	if e.ClientAddress == Spoofed {
		d.Refuse(path+".client_address", "needs the servers' return route through a fixed last relay, which via: auto does not have",
			"via: [...], or another client_address")
	}
}

func (d *decoder) warnChoose(cfg *Config) {
	any := false
	for _, e := range cfg.Entries {
		any = any || e.Auto
	}
	switch {
	case !any && d.Given("choose"):
		d.Warn(d.Place("choose"), "choose", "is unused: no entry has via: auto")
	case any && len(cfg.Peers) > choice.MostPeers:
		d.Warn(d.Place("peers"), "peers", fmt.Sprintf("are too many for via: auto: it uses the first %d", choice.MostPeers))
	}
}
