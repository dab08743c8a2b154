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
		{Name: "control", Default: "/run/baton/router.sock", Help: "unix socket of the commands",
			Decode: func(path string, n *node) { cfg.Listen.Control = d.SocketPath(path, n) }},
		{Name: "metrics", Help: "host:port for Prometheus and /healthz (default: none)",
			Decode: func(path string, n *node) { cfg.Listen.Metrics = d.HostPort(path, n, "127.0.0.1:9464") }},
		{Name: "state", Default: "/sys/fs/bpf/baton", Help: "directory on a BPF file system, in which sessions outlive the process",
			Decode: func(path string, n *node) { cfg.Listen.State = d.FilePath(path, n) }},
		{Name: "saved", Help: "directory for changes by API and what was discovered last (default: /var/lib/baton-router with the default state, else none)",
			Decode: func(path string, n *node) { cfg.Listen.Saved = d.FilePath(path, n) }},
		{Name: "listen", Now: "control, metrics or state"},
		{Name: "limits", Help: "bounds of the memory", Decode: func(path string, n *node) { d.limits(path, n, &cfg.Limits) }},
		{Name: "timeouts", Help: "when sessions end", Decode: func(path string, n *node) { d.timeouts(path, n, &cfg.Timeouts) }},
		{Name: "log", Help: "logs of requests", Decode: func(path string, n *node) { cfg.Access = d.accessLogs(path, n) }},
		{Name: "vips", Help: "addresses that clients connect to, at most 256", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxVIPs)
			d.NonEmptyList(path, n, func(at string, n *node) { cfg.VIPs = append(cfg.VIPs, d.vip(at, n)) })
		}},
		{Name: "pools", Help: "groups of surrogates, at most 256", Decode: func(path string, n *node) { cfg.Pools = d.pools(path, n) }},
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
		{Name: "sessions", Default: "131072", Help: "sessions and idle legs together",
			Decode: func(path string, n *node) { out.Sessions = d.Integer(path, n, 1, maxSessions) }},
		{Name: "pending", Default: "65536", Help: "clients with an undecided request, and as many connected without timestamps",
			Decode: func(path string, n *node) { out.Pending = d.Integer(path, n, 1, maxPending) }},
	})
}

func (d *decoder) timeouts(path string, n *node, out *Timeouts) {
	d.Fields(path, n, []key{
		{Name: "handshake", Default: "10s", Help: "from the first byte of a request to its decision; then 408",
			Decode: func(path string, n *node) { out.Handshake = d.Duration(path, n) }},
		{Name: "idle", Default: "1h", Help: "a session without packets is reset at both ends", Decode: func(path string, n *node) { out.Idle = d.Duration(path, n) }},
		{Name: "closing", Default: "1m", Help: "the same after one end has sent FIN", Decode: func(path string, n *node) { out.Closing = d.Duration(path, n) }},
		{Name: "quic_idle", Default: "5m", Help: "a QUIC session without datagrams is forgotten", Decode: func(path string, n *node) { out.QUICIdle = d.Duration(path, n) }},
	})
}
