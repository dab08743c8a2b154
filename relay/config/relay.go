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
		{Name: "name", Decode: func(path string, n *node) { cfg.Name = d.Label(path, n) }},
		{Name: "cloud", Decode: func(path string, n *node) { cfg.Cloud = d.Label(path, n) }},
		{Name: "workers", Decode: func(path string, n *node) { cfg.Workers = d.Integer(path, n, 1, maxWorkers) }},
		{Name: "control", Decode: func(path string, n *node) { cfg.Control = d.SocketPath(path, n) }},
		{Name: "metrics", Decode: func(path string, n *node) { cfg.Metrics = d.HostPort(path, n, "127.0.0.1:9465") }},
		{Name: "listen", Now: "control or metrics"},
		{Name: "limits", Decode: func(path string, n *node) { d.limits(path, n, &cfg.Limits) }},
		{Name: "timeouts", Decode: func(path string, n *node) { d.timeouts(path, n, &cfg.Timeouts) }},
		{Name: "credentials", Now: "tls or plaintext"},
		{Name: "trunks", Decode: func(path string, n *node) { cfg.Trunks = d.trunks(path, n) }},
		{Name: "peers", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxPeers)
			d.List(path, n, func(at string, n *node) { cfg.Peers = append(cfg.Peers, d.peer(at, n)) })
		}},
		{Name: "entries", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxEntries)
			d.List(path, n, func(at string, n *node) { cfg.Entries = append(cfg.Entries, d.entry(at, n)) })
		}},
		{Name: "choose", Decode: func(path string, n *node) { d.choose(path, n, &cfg.Choose) }},
		{Name: "return_interfaces", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxInterfaces)
			cfg.Return = document.Distinct(d.Decoder, path, n, d.Device)
		}},
		{Name: "allow", Decode: func(path string, n *node) {
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
		{Name: "flows", Decode: func(path string, n *node) { out.Flows = d.Integer(path, n, 1, maxFlows) }},
		{Name: "early", Decode: func(path string, n *node) { out.Early = d.Integer(path, n, 1, maxEarly) }},
		{Name: "per_source", Decode: func(path string, n *node) { out.PerSource = d.Integer(path, n, 1, maxEarly) }},
		{Name: "pipe", Decode: func(path string, n *node) { out.Pipe = int(d.Size(path, n, minPipe, maxPipe)) }},
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
		{Name: "connect", Decode: func(path string, n *node) { out.Connect = d.Between(path, n, minTimeout, maxTimeout) }},
		{Name: "header", Decode: func(path string, n *node) { out.Header = d.Between(path, n, minTimeout, maxTimeout) }},
		{Name: "early", Decode: func(path string, n *node) { out.Early = d.Between(path, n, minTimeout, maxTimeout) }},
		{Name: "idle", Decode: func(path string, n *node) {
			if v, err := time.ParseDuration(n.Text); err == nil && v == 0 {
				d.WrongText(n, path, n.Text, "is not above zero", "none, for no end")
			}
			if n.Text != "none" {
				out.Idle = d.Between(path, n, minTimeout, maxTimeout)
			}
		}},
		{Name: "unacked", Decode: func(path string, n *node) { out.Unacked = d.Between(path, n, minTimeout, maxTimeout) }},
		{Name: "reset", Decode: func(path string, n *node) { out.Reset = d.Between(path, n, minTimeout, maxTimeout) }},
		{Name: "stop", Decode: func(path string, n *node) { out.Stop = d.Between(path, n, minTimeout, maxTimeout) }},
	})
}
