package config

import (
	"fmt"
	"time"

	"baton/document"
)

// Defaults.
const (
	defaultLeast = 100 * time.Millisecond
	defaultMost  = 8 * time.Second
	defaultIdle  = 5 * time.Second

	defaultTables   = 254
	defaultEntries  = 1 << 17
	defaultGroups   = 4096
	defaultMeters   = 4096
	defaultCache    = 1 << 16
	defaultChannels = 64
	defaultUpcalls  = 4 << 20
)

// Upper limits, so that a typo does not allocate gigabytes in the kernel.
const (
	maxTables   = 255 // 0 to TableMax
	maxEntries  = 1 << 22
	maxGroups   = 1 << 16
	maxMeters   = 1 << 16
	maxCache    = 1 << 22
	maxChannels = 1024
	maxBindings = 1 << 22
	minUpcalls  = 256 << 10 // a few of the largest packets
	maxUpcalls  = 256 << 20

	maxDatapaths = 1024
)

// deadIdles is the default of Dead in multiples of Idle.
const deadIdles = 3

// Values of the key normal.
const (
	normalBridge = "bridge"
	normalStack  = "stack"
)

func (d *decoder) config(root *node, file string) *Config {
	cfg := &Config{
		File: file, Name: document.NameOf(file, longestName, "forwarder"), FailMode: Secure,
		Retry: Retry{Least: defaultLeast, Most: defaultMost},
		Limits: Limits{
			Tables: defaultTables, Entries: defaultEntries, Groups: defaultGroups, Meters: defaultMeters, Cache: defaultCache,
			Channels: defaultChannels, Upcalls: defaultUpcalls,
		},
	}
	var several *node
	d.Fields("", root, append(d.keys(cfg),
		key{Name: "metrics", Help: "host:port for Prometheus and /healthz (default: none)",
			Decode: func(path string, n *node) { cfg.Metrics = d.HostPort(path, n, "127.0.0.1:9410") }},
		key{Name: "control", Help: "unix socket of the commands (default: /run/baton/forwarder-NAME.sock)",
			Decode: func(path string, n *node) { cfg.Control = d.SocketPath(path, n) }},
		key{Name: "datapaths", Help: "several forwarders in one process, by name", Decode: func(_ string, n *node) { several = n }},
	))
	if cfg.Control == "" {
		cfg.Control = "/run/baton/forwarder-" + cfg.Name + ".sock"
	}
	if several == nil {
		if !d.Doubtful(datapaths) {
			d.Require("", root, "ports")
		}
		return cfg
	}
	// What is said of all of them is known by now, wherever it is in the file.
	d.AtMost(datapaths, several, maxDatapaths)
	d.NonEmptyList(datapaths, several, func(at string, n *node) { cfg.Datapaths = append(cfg.Datapaths, d.datapath(at, n, cfg)) })
	return cfg
}

const datapaths = "datapaths"

// own are the keys that are of one forwarder: of several, each has its own.
var own = []string{"datapath_id", "ports", "local", "listen", "state"}

// keys are those that a forwarder has, also as one of several.
func (d *decoder) keys(cfg *Config) []key {
	return []key{
		{Name: "name", Help: "of pins, devices and socket, at most 10 characters (default: the file's)",
			Decode: func(path string, n *node) { cfg.Name = d.Name(path, n, longestName) }},
		{Name: "datapath_id", Help: "64-bit id for controllers, 0x... or decimal (default: from the first port's MAC address)",
			Decode: func(path string, n *node) { cfg.DatapathID = d.datapathID(path, n) }},
		{Name: "ports", Help: "interfaces, numbered from 1, or by number: {1: eth1, 10: bond0}", Decode: func(path string, n *node) { cfg.Ports = d.ports(path, n) }},
		{Name: "local", Help: "interface to make for the host itself: port LOCAL (default: none)", Decode: func(path string, n *node) { cfg.Local = d.Device(path, n) }},
		{Name: "controllers", Help: "endpoints to connect to: tcp:HOST:PORT, tls:HOST:PORT or unix:PATH", Decode: func(path string, n *node) {
			cfg.Controllers = nil // of one of several forwarders: not those of all
			d.AtMost(path, n, maxEndpoints)
			d.List(path, n, func(at string, n *node) { cfg.Controllers = append(cfg.Controllers, d.controller(at, n)) })
		}},
		{Name: "listen", Help: "endpoints for controllers and tools to connect to", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxEndpoints)
			d.List(path, n, func(at string, n *node) { cfg.Listen = append(cfg.Listen, d.listener(at, n)) })
		}},
		{Name: "tls", Help: "PEM files for tls endpoints", Decode: func(path string, n *node) { cfg.TLS = d.tls(path, n) }},
		{Name: "fail_mode", Default: "secure", Help: "without a controller: keep the flow entries, or be a learning bridge", Decode: func(path string, n *node) {
			cfg.FailMode = FailMode(d.Choice(path, n, "is not a mode", string(Secure), string(Standalone)))
		}},
		{Name: "normal", Default: "bridge", Help: "what port NORMAL does: a learning bridge, or pass packets to the host's stack", Decode: func(path string, n *node) {
			cfg.NormalStack = d.Choice(path, n, "is not what NORMAL can be", normalBridge, normalStack) == normalStack
		}},
		{Name: "retry", Help: "delay before the next attempt to connect, doubled with each failure", Decode: func(path string, n *node) { d.retry(path, n, &cfg.Retry) }},
		{Name: "limits", Help: "sizes of tables", Decode: func(path string, n *node) { d.limits(path, n, &cfg.Limits) }},
		{Name: "state", Help: "folder to store flow entries, groups and meters in over a restart (default: none)",
			Decode: func(path string, n *node) { cfg.State = d.FilePath(path, n) }},
	}
}

// datapath decodes one of several forwarders. What it does not say is as for all.
func (d *decoder) datapath(path string, n *node, all *Config) *Config {
	cfg := &Config{
		File: all.File, Controllers: all.Controllers, TLS: all.TLS, FailMode: all.FailMode, NormalStack: all.NormalStack, Retry: all.Retry,
		Limits: all.Limits,
	}
	d.Fields(path, n, d.keys(cfg))
	d.Require(path, n, "name", "ports")
	return cfg
}

// longestName leaves space for suffixes in the 15 bytes of an interface's name.
const longestName = 10

func (d *decoder) tls(path string, n *node) *TLS {
	t := &TLS{}
	d.Fields(path, n, []key{
		{Name: "certificate", Help: "PEM file, read again for each channel", Decode: func(path string, n *node) { t.Certificate = d.FilePath(path, n) }},
		{Name: "key", Help: "PEM file", Decode: func(path string, n *node) { t.Key = d.FilePath(path, n) }},
		{Name: "authority", Help: "PEM file with the authorities of the other side's certificate", Decode: func(path string, n *node) { t.Authority = d.FilePath(path, n) }},
	})
	d.Require(path, n, "certificate", "key", "authority")
	return t
}

func (d *decoder) retry(path string, n *node, out *Retry) {
	d.Fields(path, n, []key{
		{Name: "least", Now: "min"},
		{Name: "most", Now: "max"},
		{Name: "min", Default: "100ms", Help: "first delay", Decode: func(path string, n *node) { out.Least = d.Between(path, n, 10*time.Millisecond, time.Hour) }},
		{Name: "max", Default: "8s", Help: "longest delay", Decode: func(path string, n *node) { out.Most = d.Between(path, n, 10*time.Millisecond, time.Hour) }},
	})
	if d.Err() == nil && !d.Given(path+".max") {
		out.Most = max(out.Most, out.Least)
	}
	if d.Err() == nil && !d.Given(path+".min") {
		out.Least = min(out.Least, out.Most)
	}
	if out.Most < out.Least {
		d.Refuse(path+".max", fmt.Sprintf("%v is below min, which is %v", out.Most, out.Least), "min at most max")
	}
}

func (d *decoder) limits(path string, n *node, out *Limits) {
	d.Fields(path, n, []key{
		{Name: "tables", Default: "254", Help: "numbered from 0", Decode: func(path string, n *node) { out.Tables = d.Integer(path, n, 1, maxTables) }},
		{Name: "entries", Default: "131072", Help: "flow entries of all tables", Decode: func(path string, n *node) { out.Entries = d.Integer(path, n, 1, maxEntries) }},
		{Name: "groups", Default: "4096", Help: "groups", Decode: func(path string, n *node) { out.Groups = d.Integer(path, n, 1, maxGroups) }},
		{Name: "meters", Default: "4096", Help: "meters", Decode: func(path string, n *node) { out.Meters = d.Integer(path, n, 1, maxMeters) }},
		{Name: "cache", Default: "65536", Help: "megaflows that each processor caches, rounded up to a power of two",
			Decode: func(path string, n *node) { out.Cache = d.Integer(path, n, 1, maxCache) }},
		{Name: "channels", Default: "64", Help: "connections of others per endpoint", Decode: func(path string, n *node) { out.Channels = d.Integer(path, n, 1, maxChannels) }},
		{Name: "bindings", Default: "0", Help: "size of the binding table in flows; 0: none",
			Decode: func(path string, n *node) { out.Bindings = d.Integer(path, n, 0, maxBindings) }},
		{Name: "upcalls", Default: "4MiB", Help: "buffer for packet-ins: a power of two from 256KiB to 256MiB", Decode: func(path string, n *node) {
			out.Upcalls = int(d.Size(path, n, minUpcalls, maxUpcalls))
			if d.Err() == nil && out.Upcalls&(out.Upcalls-1) != 0 {
				d.WrongText(n, path, n.Text, "is not a power of two", "such as 1MiB")
			}
		}},
	})
}
