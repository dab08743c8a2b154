package config

import (
	"fmt"
	"slices"
	"time"

	"baton/document"
)

// Defaults of optional keys.
const (
	defaultControl = "/run/baton/relay.sock"

	defaultFlows     = 65536
	defaultEarly     = 4096
	defaultPerSource = 64
	defaultPipe      = 1 << 20

	defaultConnect = 10 * time.Second
	defaultHeader  = 5 * time.Second
	defaultEarlyIn = 3 * time.Second
	defaultUnacked = 2 * time.Minute
	defaultReset   = 5 * time.Second
	defaultStop    = 30 * time.Second
)

// Upper bounds, so that a typing error does not exhaust the memory.
const (
	maxWorkers = 1024
	maxFlows   = 1 << 22
	maxEarly   = 1 << 20
	maxPeers   = 256
	maxEntries = 64
	maxAllow   = 1024 // Allowed scans all of them
)

// A direction moves at least one page at a time.
const (
	minPipe = 4 << 10
	maxPipe = 64 << 20
)

// Bounds of the timeouts. A shorter one would fail every flow over a long path.
const (
	minTimeout = 10 * time.Millisecond
	maxTimeout = 24 * time.Hour
)

func (d *decoder) config(root *node) *Config {
	cfg := &Config{
		File:    d.File(),
		Control: defaultControl,
		Limits:  Limits{Flows: defaultFlows, Early: defaultEarly, PerSource: defaultPerSource, Pipe: defaultPipe},
		Timeouts: Timeouts{
			Connect: defaultConnect, Header: defaultHeader, Early: defaultEarlyIn, Unacked: defaultUnacked, Reset: defaultReset,
			Stop: defaultStop,
		},
		Choose: defaultChoose(),
	}
	var credentials Credentials
	d.Fields("", root, slices.Concat([]key{
		{Name: "name", Help: "by which peers know it; a DNS name of its certificate", Decode: func(path string, n *node) { cfg.Name = d.Label(path, n) }},
		{Name: "cloud", Help: "provider it runs in", Decode: func(path string, n *node) { cfg.Cloud = d.Label(path, n) }},
		{Name: "workers", Help: "event loops (default: the number of CPUs)", Decode: func(path string, n *node) { cfg.Workers = d.Integer(path, n, 1, maxWorkers) }},
		{Name: "control", Default: "/run/baton/relay.sock", Help: "unix socket of the commands", Decode: func(path string, n *node) { cfg.Control = d.SocketPath(path, n) }},
		{Name: "metrics", Help: "host:port for Prometheus and /healthz (default: none)",
			Decode: func(path string, n *node) { cfg.Metrics = d.HostPort(path, n, "127.0.0.1:9465") }},
		{Name: "listen", Now: "control or metrics"},
		{Name: "limits", Help: "bounds of memory", Decode: func(path string, n *node) { d.limits(path, n, &cfg.Limits) }},
		{Name: "timeouts", Help: "when flows end", Decode: func(path string, n *node) { d.timeouts(path, n, &cfg.Timeouts) }},
		{Name: "credentials", Now: "tls or plaintext"},
		{Name: "trunks", Help: "listeners for trunks", Decode: func(path string, n *node) { cfg.Trunks = d.trunks(path, n) }},
		{Name: "peers", Help: "relays to open trunks to", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxPeers)
			d.List(path, n, func(at string, n *node) { cfg.Peers = append(cfg.Peers, d.peer(at, n)) })
		}},
		{Name: "entries", Help: "listeners for clients", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxEntries)
			d.List(path, n, func(at string, n *node) { cfg.Entries = append(cfg.Entries, d.entry(at, n)) })
		}},
		{Name: "choose", Help: "how routes are chosen for entries with via: auto", Decode: func(path string, n *node) { d.choose(path, n, &cfg.Choose) }},
		{Name: "return_interfaces", Help: "on which servers' answers to clients' addresses arrive", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxInterfaces)
			cfg.Return = document.Distinct(d.Decoder, path, n, d.Device)
		}},
		{Name: "allow", Help: "servers that this relay may connect to (default: none)", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxAllow)
			d.List(path, n, func(at string, n *node) { cfg.Allow = append(cfg.Allow, d.allow(at, n)) })
		}},
	}, d.credentialKeys(&credentials)))
	d.oneSecurity("")
	d.Require("", root, "name")
	if cfg.Trunks != nil {
		d.inherit("trunks", &cfg.Trunks.Credentials, &credentials)
	}
	for i := range cfg.Peers {
		d.inherit(fmt.Sprintf("peers[%d]", i), &cfg.Peers[i].Credentials, &credentials)
	}
	d.checkReferences(cfg)
	return cfg
}

func (d *decoder) limits(path string, n *node, out *Limits) {
	d.Fields(path, n, []key{
		{Name: "flows", Default: "65536", Help: "concurrent flows of all workers", Decode: func(path string, n *node) { out.Flows = d.Integer(path, n, 1, maxFlows) }},
		{Name: "early", Help: "connections opened for a SYN whose client is not accepted yet (default: 4096, or flows)",
			Decode: func(path string, n *node) { out.Early = d.Integer(path, n, 1, maxEarly) }},
		{Name: "per_source", Help: "the same, per client address (default: 64, or early)",
			Decode: func(path string, n *node) { out.PerSource = d.Integer(path, n, 1, maxEarly) }},
		{Name: "pipe", Default: "1MiB", Help: "bytes buffered per direction of a flow, from 4KiB to 64MiB",
			Decode: func(path string, n *node) { out.Pipe = int(d.Size(path, n, minPipe, maxPipe)) }},
	})
	d.notAbove(path, "early", &out.Early, "flows", out.Flows)
	d.notAbove(path, "per_source", &out.PerSource, "early", out.Early)
}

// notAbove lowers a default to a bound, and refuses a configured value above it.
func (d *decoder) notAbove(path, name string, v *int, bound string, most int) {
	at := document.Join(path, name)
	if !d.Given(at) {
		*v = min(*v, most)
	}
	if d.Err() == nil && *v > most {
		d.Refuse(at, fmt.Sprintf("%d is above %s, which is %d", *v, bound, most), fmt.Sprintf("%s at most %s", name, bound))
	}
}

func (d *decoder) timeouts(path string, n *node, out *Timeouts) {
	d.Fields(path, n, []key{
		{Name: "connect", Default: "10s", Help: "connecting to the next relay or the server",
			Decode: func(path string, n *node) { out.Connect = d.Between(path, n, minTimeout, maxTimeout) }},
		{Name: "header", Default: "5s", Help: "receiving a flow's header", Decode: func(path string, n *node) { out.Header = d.Between(path, n, minTimeout, maxTimeout) }},
		{Name: "early", Default: "3s", Help: "from a SYN until its client is accepted",
			Decode: func(path string, n *node) { out.Early = d.Between(path, n, minTimeout, maxTimeout) }},
		{Name: "idle", Default: "none", Help: "a flow without data in either direction", Decode: func(path string, n *node) {
			if v, err := time.ParseDuration(n.Text); err == nil && v == 0 {
				d.WrongText(n, path, n.Text, "is not above zero", "none, for no end")
			}
			if n.Text != "none" {
				out.Idle = d.Between(path, n, minTimeout, maxTimeout)
			}
		}},
		{Name: "unacked", Default: "2m", Help: "unacknowledged data and unanswered keepalive probes",
			Decode: func(path string, n *node) { out.Unacked = d.Between(path, n, minTimeout, maxTimeout) }},
		{Name: "reset", Default: "5s", Help: "delivering the remaining data before a reset is forwarded",
			Decode: func(path string, n *node) { out.Reset = d.Between(path, n, minTimeout, maxTimeout) }},
		{Name: "stop", Default: "30s", Help: "how long flows may continue after SIGTERM",
			Decode: func(path string, n *node) { out.Stop = d.Between(path, n, minTimeout, maxTimeout) }},
	})
}
