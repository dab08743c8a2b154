package config

import "time"

// Defaults.
const (
	defaultControl = "/run/baton/router.sock"
	defaultState   = "/sys/fs/bpf/baton"
	defaultSaved   = "/var/lib/baton-router"

	defaultSessions = 131072
	defaultPending  = 65536

	defaultHandshake = 10 * time.Second
	defaultIdle      = time.Hour
	defaultClosing   = 60 * time.Second
	defaultQUICIdle  = 5 * time.Minute // above the idle timeouts of servers: nginx 75 s, quic-go 30 s, Caddy 5 min
)

// Upper bounds, so that a typo does not allocate gigabytes of kernel memory.
const (
	maxSessions = 1 << 24
	maxPending  = 1 << 22
)

func (d *decoder) config(root *node) *Config {
	cfg := &Config{
		File:     d.File(),
		Places:   d.Places(),
		Listen:   Listen{Control: defaultControl, State: defaultState},
		Limits:   Limits{Sessions: defaultSessions, Pending: defaultPending},
		Timeouts: Timeouts{Handshake: defaultHandshake, Idle: defaultIdle, Closing: defaultClosing, QUICIdle: defaultQUICIdle},
	}
	d.Fields("", root, []key{
		{Name: "control", Decode: func(path string, n *node) { cfg.Listen.Control = d.SocketPath(path, n) }},
		{Name: "metrics", Decode: func(path string, n *node) { cfg.Listen.Metrics = d.HostPort(path, n, "127.0.0.1:9464") }},
		{Name: "state", Decode: func(path string, n *node) { cfg.Listen.State = d.FilePath(path, n) }},
		{Name: "saved", Decode: func(path string, n *node) { cfg.Listen.Saved = d.FilePath(path, n) }},
		{Name: "listen", Now: "control, metrics or state"},
		{Name: "limits", Decode: func(path string, n *node) { d.limits(path, n, &cfg.Limits) }},
		{Name: "timeouts", Decode: func(path string, n *node) { d.timeouts(path, n, &cfg.Timeouts) }},
		{Name: "log", Decode: func(path string, n *node) { cfg.Access = d.accessLogs(path, n) }},
		{Name: "vips", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxVIPs)
			d.NonEmptyList(path, n, func(at string, n *node) { cfg.VIPs = append(cfg.VIPs, d.vip(at, n)) })
		}},
		{Name: "pools", Decode: func(path string, n *node) { cfg.Pools = d.pools(path, n) }},
	})
	d.Require("", root, "vips", "pools")
	if cfg.Listen.State == defaultState && !d.Given("saved") { // two routers of a host have two of both
		cfg.Listen.Saved = defaultSaved
	}
	d.checkPools(cfg)
	return cfg
}

func (d *decoder) limits(path string, n *node, out *Limits) {
	d.Fields(path, n, []key{
		{Name: "sessions", Decode: func(path string, n *node) { out.Sessions = d.Integer(path, n, 1, maxSessions) }},
		{Name: "pending", Decode: func(path string, n *node) { out.Pending = d.Integer(path, n, 1, maxPending) }},
	})
}

func (d *decoder) timeouts(path string, n *node, out *Timeouts) {
	d.Fields(path, n, []key{
		{Name: "handshake", Decode: func(path string, n *node) { out.Handshake = d.Duration(path, n) }},
		{Name: "idle", Decode: func(path string, n *node) { out.Idle = d.Duration(path, n) }},
		{Name: "closing", Decode: func(path string, n *node) { out.Closing = d.Duration(path, n) }},
		{Name: "quic_idle", Decode: func(path string, n *node) { out.QUICIdle = d.Duration(path, n) }},
	})
}
