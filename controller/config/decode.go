package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"baton/controller/lldp"
	"baton/controller/northbound"
	"baton/controller/paths"
	"baton/controller/store"
	"baton/document"
	"baton/openflow"
)

// Defaults of optional keys.
const (
	defaultControl  = "/run/baton/controller.sock"
	defaultInterval = time.Second
	// DefaultPort is that of OpenFlow (IANA: openflow).
	DefaultPort = 6653
)

// Upper bounds, which catch typing errors.
const (
	maxName      = 64
	maxEndpoints = 64
	maxSwitches  = 10_000
	maxEdges     = 10_000
	maxSecret    = 4096
	leastSecret  = 16 // bytes
)

var rules = document.Rules{Bytes: 16 << 20, Nodes: 1 << 20, Empty: "listen is needed", Root: "a mapping with listen"}

// Error holds all mistakes of a configuration.
type Error = document.Error

// Load reads and checks the file, and the certificates and secrets that it names. An error about the content is an *Error with all mistakes; one
// about reading the file wraps the cause. The caller owns the result.
func Load(path string) (*Config, error) { return document.Load(path, rules, decode, check, readFiles) }

// Parse is Load of a content that is there already; name stands for the file in messages. It reads no other file. It returns a configuration or an
// *Error, never both.
func Parse(name string, data []byte) (*Config, error) {
	return document.ParseAs(name, data, rules, decode, check)
}

// decoder turns the tree into a Config.
type decoder struct{ *document.Decoder }

type (
	node = document.Node
	key  = document.Key
)

func decode(d *document.Decoder, root *node) *Config { return (&decoder{d}).config(root) }

// config decodes the document. The sections of modules are decoded by their packages.
func (d *decoder) config(root *node) *Config {
	cfg := &Config{
		File: d.File(), Name: "controller", Listen: Listen{Control: defaultControl}, Store: store.Settings{File: store.DefaultFile},
		Discovery: Discovery{Interval: defaultInterval}, Paths: Paths{Cache: true, Spread: paths.SpreadDestination},
	}
	d.Fields("", root, []key{
		{Name: "name", Default: "controller", Help: "of this controller among several", Decode: func(path string, n *node) { cfg.Name = d.Name(path, n, maxName) }},
		{Name: "listen", Help: "where switches, commands and Prometheus connect to", Decode: func(path string, n *node) { d.listen(path, n, &cfg.Listen) }},
		{Name: "tls", Help: "PEM files for tls endpoints", Decode: func(path string, n *node) {
			d.Fields(path, n, []key{
				{Name: "certificate", Help: "of this controller", Decode: func(path string, n *node) { cfg.TLS.Certificate = d.FilePath(path, n) }},
				{Name: "key", Help: "of the certificate", Decode: func(path string, n *node) { cfg.TLS.Key = d.FilePath(path, n) }},
				{Name: "authority", Help: "authorities of the switches' certificates", Decode: func(path string, n *node) { cfg.TLS.Authority = d.FilePath(path, n) }},
			})
			d.Require(path, n, "certificate", "key", "authority")
		}},
		{Name: "northbound", Help: "the API", Decode: func(path string, n *node) { s := northbound.Decode(d.Decoder, path, n); cfg.Northbound = &s }},
		{Name: "store", Help: "where state is kept", Decode: func(path string, n *node) { cfg.Store = store.Decode(d.Decoder, path, n) }},
		{Name: "discovery", Help: "of links between switches", Decode: func(path string, n *node) {
			d.Fields(path, n, []key{
				{Name: "secret", Help: "file with the secret of discovery frames (default: random)",
					Decode: func(path string, n *node) { cfg.Discovery.Secret = d.FilePath(path, n) }},
				{Name: "interval", Default: "1s", Help: "between discovery frames", Decode: func(path string, n *node) {
					cfg.Discovery.Interval = d.Between(path, n, 100*time.Millisecond, time.Minute)
				}},
			})
		}},
		{Name: "cdn", Help: "content delivery network on the network", Decode: func(path string, n *node) { cfg.CDN = d.cdn(path, n) }},
		{Name: "only_known", Default: "false", Help: "refuse switches that are not in switches", Decode: func(path string, n *node) { cfg.Only = d.Boolean(path, n) }},
		{Name: "switches", Help: "names and roles of switches", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxSwitches)
			d.List(path, n, func(at string, n *node) { cfg.Switches = append(cfg.Switches, d.switchOf(at, n)) })
		}},
		{Name: "paths", Help: "of the traffic between hosts", Decode: func(path string, n *node) {
			d.Fields(path, n, []key{
				{Name: "cache", Default: "true", Help: "a path that is installed is not installed again",
					Decode: func(path string, n *node) { cfg.Paths.Cache = d.Boolean(path, n) }},
				{Name: "spread", Default: "destination", Help: "how equal paths are chosen", Decode: func(path string, n *node) {
					cfg.Paths.Spread = paths.Spread(d.Choice(path, n, "is no kind of spreading", string(paths.SpreadNone),
						string(paths.SpreadDestination), string(paths.SpreadPair)))
				}},
			})
		}},
	})
	d.Require("", root, "listen")
	return cfg
}

func (d *decoder) listen(path string, n *node, l *Listen) {
	d.Fields(path, n, []key{
		{Name: "openflow", Help: "where switches connect to: tcp:HOST:PORT, tls:HOST:PORT or unix:PATH", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxEndpoints)
			l.OpenFlow = document.Distinct(d.Decoder, path, n, d.endpoint)
		}},
		{Name: "control", Default: "/run/baton/controller.sock", Help: "unix socket of the commands", Decode: func(path string, n *node) { l.Control = d.SocketPath(path, n) }},
		{Name: "metrics", Help: "host:port for Prometheus and /healthz (default: none)",
			Decode: func(path string, n *node) { l.Metrics = d.HostPort(path, n, "127.0.0.1:9480") }},
	})
	d.Require(path, n, "openflow")
}

func (d *decoder) endpoint(path string, n *node) Endpoint {
	text := d.Text(path, n)
	method, address, ok := strings.Cut(text, ":")
	e := Endpoint{method, address}
	problem := "is not the place of a listener"
	switch {
	case d.Err() != nil:
		return e
	case !ok:
	case method == "unix":
		if strings.HasPrefix(address, "/") && len(address) <= document.SocketPathLength {
			return e
		}
		problem = "is not the absolute path of a socket"
	case method == "tcp" || method == "tls":
		if _, problem = document.SplitHostPort(address); problem == "" {
			return e
		}
	}
	d.WrongText(n, path, text, problem, "tcp:0.0.0.0:6653, tls:0.0.0.0:6653 or unix:/run/baton/openflow.sock")
	return e
}

func (d *decoder) switchOf(path string, n *node) Switch {
	var s Switch
	d.Fields(path, n, []key{
		{Name: "id", Help: "datapath id", Decode: func(path string, n *node) { s.ID = d.datapath(path, n) }},
		{Name: "name", Help: "in the status", Decode: func(path string, n *node) { s.Name = d.Name(path, n, maxName) }},
		{Name: "core", Default: "false", Help: "a switch that has the actions of a handoff but does not say so",
			Decode: func(path string, n *node) { s.Core = d.Boolean(path, n) }},
		{Name: "edge", Help: "ports for hosts alone", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxEdges)
			s.Edge = document.Distinct(d.Decoder, path, n, func(path string, n *node) openflow.PortNo {
				return openflow.PortNo(d.Integer(path, n, 1, int(openflow.PortMax)-1))
			})
		}},
	})
	d.Require(path, n, "id")
	return s
}

// datapath decodes a datapath id: 16 hexadecimal digits, as switches show it, 0x… or a decimal number.
func (d *decoder) datapath(path string, n *node) uint64 {
	text := d.Text(path, n)
	if d.Err() != nil {
		return 0
	}
	base := 0
	if len(text) == 16 && !strings.HasPrefix(text, "0x") {
		base = 16
	}
	id, err := strconv.ParseUint(text, base, 64)
	if err != nil || id == 0 {
		d.WrongText(n, path, text, "is no datapath id", `"000000000000002a", 0x2a or 42`)
	}
	return id
}

// check refuses settings that do not go together.
func check(d *document.Decoder, cfg *Config) {
	secure, open := false, false
	for _, e := range cfg.Listen.OpenFlow {
		secure = secure || e.Method == "tls"
		host, err := netip.ParseAddrPort(e.Address)
		open = open || e.Method == "tcp" && (err != nil || !host.Addr().IsLoopback())
	}
	if secure && cfg.TLS == (TLS{}) {
		d.Refuse("tls", "is missing for listen.openflow: switches and the controller authenticate each other by certificates",
			"tls: {certificate: ..., key: ..., authority: ...}")
	}
	if !secure && cfg.TLS != (TLS{}) {
		d.Warn(d.Place("tls"), "tls", "is unused: there is no tls: in listen.openflow")
	}
	ids, names := map[uint64]int{}, map[string]int{}
	for i, s := range cfg.Switches {
		path := document.Index("switches", i)
		if j, ok := ids[s.ID]; ok {
			d.Refuse(path+".id", "is that of "+document.Index("switches", j)+" already", "one of its own")
		}
		if j, ok := names[s.Name]; ok && s.Name != "" {
			d.Refuse(path+".name", "is that of "+document.Index("switches", j)+" already", "one of its own")
		}
		ids[s.ID], names[s.Name] = i, i
	}
	if cfg.Only && len(cfg.Switches) == 0 {
		d.Refuse("only_known", "would refuse every switch: none is known", "switches: [{id: ...}]")
	}
	if open && !cfg.Only {
		d.Warn(d.Place("listen.openflow"), "listen.openflow", "whoever reaches it may claim to be a switch: use tls:, or only_known with switches")
	}
	if cfg.Store.File == "" && cfg.Discovery.Secret == "" {
		d.Refuse("discovery", "has no secret, which several controllers must share", "discovery: {secret: /etc/baton/discovery.secret}")
	}
	if cfg.CDN != nil {
		(&decoder{d}).checkCDN(cfg.CDN)
		if cfg.Northbound == nil {
			d.Refuse("cdn", "needs a northbound, which request routers call", "northbound: {listen: \"127.0.0.1:8181\", tokens: ...}")
		}
	}
	cfg.Warnings = d.Warnings()
}

// readFiles reads the files that are named.
func readFiles(d *document.Decoder, cfg *Config) {
	if cfg.Discovery.Secret != "" {
		k, err := readSecret(cfg.Discovery.Secret)
		if err != nil {
			d.RefuseFile("discovery.secret", cfg.Discovery.Secret, err)
		}
		cfg.Key = k
	}
	if cfg.TLS != (TLS{}) {
		authorities := d.Authorities("tls.authority", cfg.TLS.Authority)
		if pair := d.KeyPair("tls", cfg.TLS.Certificate, cfg.TLS.Key); pair != nil {
			cfg.Identity = &tls.Config{
				Certificates: []tls.Certificate{*pair}, ClientCAs: document.PoolOf(authorities), ClientAuth: tls.RequireAndVerifyClientCert,
				MinVersion: tls.VersionTLS12,
			}
		}
	}
	if cfg.Northbound != nil {
		cfg.Northbound.Check(d, "northbound")
	}
	cfg.Warnings = d.Warnings()
}

func readSecret(path string) (lldp.Key, error) {
	text, mode, err := document.ReadFile(path, maxSecret)
	if err != nil {
		return nil, err
	}
	if mode&0o077 != 0 {
		return nil, errors.New("others can read it: chmod 600")
	}
	secret := strings.TrimSpace(string(text))
	if len(secret) < leastSecret {
		return nil, fmt.Errorf("it has %d bytes, and needs %d: openssl rand -hex 32", len(secret), leastSecret)
	}
	return lldp.Key(secret), nil
}
