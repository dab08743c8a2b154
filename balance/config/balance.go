package config

import (
	"net/netip"
	"time"

	"baton/document"
)

// Defaults of optional keys.
var (
	defaultInternal = Internal{
		Interface: "bal0",
		IPv4:      netip.MustParsePrefix("192.0.0.2/29"),    // RFC 7335: for translation within a host
		IPv6:      netip.MustParsePrefix("64:ff9b:1::2/64"), // RFC 8215: the same, with a global scope and label
		Priority:  lastPriority,
		Table:     30000,
	}
	defaultWeights = Weights{Every: 5 * time.Second, Least: 1, Most: 10000}
	defaultProbe   = Probe{Every: 5 * time.Second, Dead: 15 * time.Second}
)

const (
	defaultName     = "balance"
	defaultFlows    = 1 << 17
	runtimeFolder   = "/run/baton"
	persistentState = "/var/lib/baton"
)

// Upper bounds, which catch typing errors.
const (
	maxLinks    = 16 // the tables encode links as bits of a group number
	maxRules    = 256
	maxPrefixes = 8192
	maxServices = 64
	maxWeight   = 65535 // of a bucket, OpenFlow 1.3.5, section A.3.4.2
	maxTier     = 255
	leastCap    = 1e6 // bytes
	mostCap     = 1e18
	leastFlows  = 1024
	maxFlows    = 1 << 22
	maxAffinity = 24 * time.Hour
	// maxApplications is how many control groups fit into a mark.
	maxApplications = 63
	// lastPriority is just before the main table's rule, and after those of VPNs, which must come first for their packets.
	lastPriority = 32765
	// Tables 253 to 255 are the kernel's; others mostly use small numbers. The last ones used are T+1+links and T+100+classes.
	leastTable = 256
	lastTable  = 1<<31 - 1000
)

func (d *decoder) config(root *node, file string) *Config {
	cfg := &Config{
		File: file, Name: document.NameOf(file, longestName, "balance"), Datapath: Baton, Weights: defaultWeights, Internal: defaultInternal, Probe: defaultProbe,
		Limits: Limits{Flows: defaultFlows},
	}
	d.Fields("", root, []key{
		{Name: "name", Help: "of sockets, pins and tables, at most 10 characters (default: the file's)",
			Decode: func(path string, n *node) { cfg.Name = d.Name(path, n, longestName) }},
		{Name: "datapath", Default: "baton", Help: "the forwarder of this program, or Open vSwitch", Decode: func(path string, n *node) {
			cfg.Datapath = Datapath(d.Choice(path, n, "is not a datapath", string(Baton), string(OpenVSwitch)))
		}},
		{Name: "method", Help: "how a link is chosen (default: even; with ovs hash)", Decode: func(path string, n *node) { cfg.Method = d.method(path, n) }},
		{Name: "links", Help: "interfaces, or mappings; at most 16", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxLinks)
			d.NonEmptyList(path, n, func(at string, n *node) { cfg.Links = append(cfg.Links, d.link(at, n)) })
		}},
		{Name: "rules", Help: "the first one that matches a flow applies", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxRules)
			d.List(path, n, func(at string, n *node) { cfg.Rules = append(cfg.Rules, d.rule(at, n, len(cfg.Rules))) })
		}},
		{Name: "together", Now: "affinity"},
		{Name: "affinity", Help: "how long new flows to a server use the same link as the last one (default: not)",
			Decode: func(path string, n *node) { cfg.Affinity = d.affinity(path, n) }},
		{Name: "weights", Help: "how measured weights are updated", Decode: func(path string, n *node) { d.weights(path, n, &cfg.Weights) }},
		{Name: "inside", Now: "internal"},
		{Name: "internal", Help: "the internal interface, and its routing rules and tables", Decode: func(path string, n *node) { d.internal(path, n, &cfg.Internal) }},
		{Name: "probe", Help: "how dead links are detected, or off", Decode: func(path string, n *node) { d.probe(path, n, &cfg.Probe) }},
		{Name: "limits", Help: "bounds of memory", Decode: func(path string, n *node) {
			d.Fields(path, n, []key{
				{Name: "flows", Default: "131072", Help: "most flows with a remembered link",
					Decode: func(path string, n *node) { cfg.Limits.Flows = d.Integer(path, n, leastFlows, maxFlows) }},
			})
		}},
		{Name: "control", Help: "unix socket of the commands (default: /run/baton/balance-NAME.sock)",
			Decode: func(path string, n *node) { cfg.Control = d.SocketPath(path, n) }},
		{Name: "metrics", Help: "host:port for Prometheus and /healthz (default: none)",
			Decode: func(path string, n *node) { cfg.Metrics = d.HostPort(path, n, "127.0.0.1:9469") }},
		{Name: "state", Help: "folder for the bytes that count against caps (default: /var/lib/baton/balance-NAME)",
			Decode: func(path string, n *node) { cfg.State = d.FilePath(path, n) }},
	})
	d.Require("", root, "links")
	d.inherit(cfg)
	d.checkReferences(cfg)
	return cfg
}

// inherit fills in defaults that depend on other keys.
func (d *decoder) inherit(cfg *Config) {
	if cfg.Method == "" {
		cfg.Method = Even
		if cfg.Datapath == OpenVSwitch {
			cfg.Method = Hash
		}
	}
	if cfg.Control == "" {
		cfg.Control = runtimeFolder + "/balance-" + cfg.Name + ".sock"
	}
	if cfg.State == "" {
		cfg.State = persistentState + "/balance-" + cfg.Name
	}
	for i := range cfg.Rules {
		if !d.Given(document.Index("rules", i) + ".affinity") {
			cfg.Rules[i].Affinity = cfg.Affinity
		}
	}
	for i := range cfg.Links {
		// A link's probe inherits from the general one, which may follow in the file.
		if p, path := cfg.Links[i].Probe, document.Index("links", i)+".probe"; p != nil {
			if !d.Given(path + ".url") {
				p.URL = cfg.Probe.URL
			}
			if !d.Given(path + ".every") {
				p.Every = cfg.Probe.Every
			}
			if !d.Given(path + ".dead") {
				p.Dead = cfg.Probe.Dead
			}
		}
	}
}

// longestName is the forwarder's limit: it appends to the name for interfaces, whose names have 15 bytes.
const longestName = 10

func (d *decoder) method(path string, n *node) Method {
	if n.Text == "turns" {
		d.WrongText(n, path, n.Text, "is not a method", "did you mean "+string(RoundRobin)+"?")
		return ""
	}
	return Method(d.Choice(path, n, "is not a method", string(Even), string(RoundRobin), string(Least), string(Fastest), string(Hash), string(Controller)))
}

// affinity decodes a duration, or none.
func (d *decoder) affinity(path string, n *node) time.Duration {
	if n.Text == "none" {
		return 0
	}
	v := d.Between(path, n, time.Second, maxAffinity)
	if d.Err() == nil && v%time.Second != 0 { // an experimenter action has whole seconds
		d.WrongText(n, path, n.Text, "is not a whole number of seconds", "such as 10s")
	}
	return v
}

func (d *decoder) weights(path string, n *node, w *Weights) {
	d.Fields(path, n, []key{
		{Name: "every", Default: "5s", Help: "between two updates", Decode: func(path string, n *node) { w.Every = d.Between(path, n, 100*time.Millisecond, time.Hour) }},
		{Name: "least", Default: "1%", Help: "of the mean", Decode: func(path string, n *node) { w.Least = int(100*d.Percent(path, n, 1, 100) + 0.5) }},
		{Name: "most", Default: "10000%", Help: "of the mean", Decode: func(path string, n *node) { w.Most = int(100*d.Percent(path, n, 100, 100*100) + 0.5) }},
	})
}

func (d *decoder) internal(path string, n *node, i *Internal) {
	d.Fields(path, n, []key{
		{Name: "interface", Default: "bal0", Help: "its name", Decode: func(path string, n *node) { i.Interface = d.ownDevice(path, n) }},
		{Name: "ipv4", Default: "192.0.0.2/29", Help: "its IPv4 address", Decode: func(path string, n *node) { i.IPv4 = d.internalPrefix(path, n, false) }},
		{Name: "ipv6", Default: "64:ff9b:1::2/64", Help: "its IPv6 address", Decode: func(path string, n *node) { i.IPv6 = d.internalPrefix(path, n, true) }},
		{Name: "priority", Default: "32765", Help: "of the routing rules", Decode: func(path string, n *node) { i.Priority = d.Integer(path, n, 1, lastPriority) }},
		{Name: "table", Default: "30000", Help: "first routing table", Decode: func(path string, n *node) { i.Table = d.Integer(path, n, leastTable, lastTable) }},
	})
}

// probe decodes a mapping, or the word off.
func (d *decoder) probe(path string, n *node, p *Probe) {
	if n.Kind == document.Scalar {
		if n.Text != "off" && document.Nearest(n.Text, []string{"off"}) == "" {
			d.WrongText(n, path, n.Text, "is not a probe", "off, or a mapping: {every: 5s, dead: 15s}")
		}
		d.Choice(path, n, "is not a probe", "off")
		p.Off = true
		return
	}
	every, dead := "5s", "15s"
	if path != "probe" {
		every, dead = "", "" // those of the file
	}
	d.Fields(path, n, []key{
		{Name: "off", Help: "true: links are not probed", Decode: func(path string, n *node) { p.Off = d.Boolean(path, n) }},
		{Name: "url", Help: "page whose answer shows a captive portal", Decode: func(path string, n *node) {
			d.URL(path, n, "http", "https")
			p.URL = n.Text
		}},
		{Name: "every", Default: every, Help: "between two probes of a link",
			Decode: func(path string, n *node) { p.Every = d.Between(path, n, 100*time.Millisecond, time.Hour) }},
		{Name: "dead", Default: dead, Help: "without an answer for this long, a link is dead",
			Decode: func(path string, n *node) { p.Dead = d.Between(path, n, 100*time.Millisecond, 24*time.Hour) }},
	})
}
