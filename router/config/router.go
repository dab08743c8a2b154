package config

import "time"

// Defaults of what a file leaves out.
const (
	defaultControl = "/run/baton/router.sock"
	defaultState   = "/sys/fs/bpf/baton"

	defaultSessions = 131072
	defaultPending  = 65536

	defaultHandshake = 10 * time.Second
	defaultIdle      = time.Hour
	defaultClosing   = 60 * time.Second
)

// Upper bounds on what is held, so that a slip of the finger is not a kernel map of many gigabytes.
const (
	maxSessions = 1 << 24
	maxPending  = 1 << 22
)

func (d *decoder) config(root *node) *Config {
	cfg := &Config{
		File:     d.file,
		Listen:   Listen{Control: defaultControl, State: defaultState},
		Limits:   Limits{Sessions: defaultSessions, Pending: defaultPending},
		Timeouts: Timeouts{Handshake: defaultHandshake, Idle: defaultIdle, Closing: defaultClosing},
	}
	d.mapping("", root, []key{
		{"listen", func(path string, n *node) { d.listen(path, n, &cfg.Listen) }},
		{"limits", func(path string, n *node) { d.limits(path, n, &cfg.Limits) }},
		{"timeouts", func(path string, n *node) { d.timeouts(path, n, &cfg.Timeouts) }},
		{"vips", func(path string, n *node) {
			d.atMost(path, n, maxVIPs)
			d.sequence(path, n, func(at string, n *node) { cfg.VIPs = append(cfg.VIPs, d.vip(at, n)) })
		}},
		{"pools", func(path string, n *node) { cfg.Pools = d.pools(path, n) }},
	})
	d.require("", root, "vips", "pools")
	return cfg
}

func (d *decoder) listen(path string, n *node, out *Listen) {
	const (
		unixPath = 107  // sun_path without its final NUL, unix(7)
		filePath = 4095 // PATH_MAX without its final NUL
	)
	d.mapping(path, n, []key{
		{"metrics", func(path string, n *node) { out.Metrics = d.hostPort(path, n) }},
		{"control", func(path string, n *node) { out.Control = d.absolute(path, n, unixPath) }},
		{"state", func(path string, n *node) { out.State = d.absolute(path, n, filePath) }},
	})
}

func (d *decoder) limits(path string, n *node, out *Limits) {
	d.mapping(path, n, []key{
		{"sessions", func(path string, n *node) { out.Sessions = d.integer(path, n, 1, maxSessions) }},
		{"pending", func(path string, n *node) { out.Pending = d.integer(path, n, 1, maxPending) }},
	})
}

func (d *decoder) timeouts(path string, n *node, out *Timeouts) {
	d.mapping(path, n, []key{
		{"handshake", func(path string, n *node) { out.Handshake = d.duration(path, n) }},
		{"idle", func(path string, n *node) { out.Idle = d.duration(path, n) }},
		{"closing", func(path string, n *node) { out.Closing = d.duration(path, n) }},
	})
}
