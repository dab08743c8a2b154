package config

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/miekg/dns"

	"baton/document"
	policyconfig "baton/policy/config"
	"baton/policy/health"
)

// Defaults of optional keys.
const (
	defaultControl     = "/run/baton/nameserver.sock"
	defaultSize        = 1232 // fits IPv6's least MTU, so that no answer is fragmented (DNS flag day 2020)
	defaultBuffer      = 4 << 20
	defaultConnections = 1000
	defaultPerNetwork  = 100
	defaultIdle        = 10 * time.Second
	defaultRate        = 200
	defaultSlip        = 2
	defaultPrefix4     = 24
	defaultPrefix6     = 56
)

// Upper bounds, which catch typing errors.
const (
	maxAddresses = 64
	maxSockets   = 256
	maxSize      = 4096
	maxZones     = 100_000
	maxRouted    = 10_000
	maxPrefixes  = 10_000
	maxNSID      = 64
	maxTime      = time.Hour
)

const neededKeys = "listen and zones"

var rules = document.Rules{Bytes: 16 << 20, Nodes: 1 << 20, Empty: neededKeys + " are needed", Root: "a mapping with " + neededKeys}

// Error holds all mistakes of a configuration.
type Error = document.Error

// Load reads and checks the file, and the secrets that it names. An error about the content is an *Error with all mistakes; one about reading the file
// wraps the cause. It reads no zones. The caller owns the result.
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

func (d *decoder) config(root *node) *Config {
	cfg := &Config{
		File: d.File(), Control: defaultControl, Subnet: true, UDP: UDP{defaultSize, defaultBuffer},
		TCP:    TCP{defaultConnections, defaultPerNetwork, defaultIdle},
		Limits: Limits{Rate: defaultRate, Slip: defaultSlip, Prefix4: defaultPrefix4, Prefix6: defaultPrefix6},
		places: d.Places(),
	}
	d.Fields("", root, []key{
		{Name: "control", Default: "/run/baton/nameserver.sock", Help: "unix socket of the commands",
			Decode: func(path string, n *node) { cfg.Control = d.SocketPath(path, n) }},
		{Name: "metrics", Help: "host:port for Prometheus and /healthz (default: none)",
			Decode: func(path string, n *node) { cfg.Metrics = d.HostPort(path, n, "127.0.0.1:9470") }},
		{Name: "name", Help: "this server, in the status and for clients that ask (NSID, RFC 5001)",
			Decode: func(path string, n *node) { cfg.Name = d.Name(path, n, maxNSID) }},
		{Name: "listen", Help: "addresses with ports, for UDP and TCP", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxAddresses)
			cfg.Listen = document.Distinct(d.Decoder, path, n, d.ListenAddrPort)
		}},
		{Name: "sockets", Help: "sockets for UDP on each address (default: the number of processors)",
			Decode: func(path string, n *node) { cfg.Sockets = d.Integer(path, n, 1, maxSockets) }},
		{Name: "udp", Help: "datagrams", Decode: func(path string, n *node) { d.udp(path, n, &cfg.UDP) }},
		{Name: "tcp", Help: "connections", Decode: func(path string, n *node) { d.tcp(path, n, &cfg.TCP) }},
		{Name: "cookies", Help: "DNS cookies: off, or a file with secrets (default: a secret of this process)",
			Decode: func(path string, n *node) { d.cookies(path, n, &cfg.Cookies) }},
		{Name: "client_subnet", Default: "true", Help: "client subnets are heeded", Decode: func(path string, n *node) { cfg.Subnet = d.Boolean(path, n) }},
		{Name: "limits", Help: "rate of answers to a network, or none", Decode: func(path string, n *node) { d.limits(path, n, &cfg.Limits) }},
		{Name: "rate_limit", Now: "limits"},
		{Name: "zones", Help: "zones that are served", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxZones)
			d.NonEmptyList(path, n, func(at string, n *node) { cfg.Zones = append(cfg.Zones, d.zone(at, n)) })
		}},
		{Name: "health", Help: "checks of the surrogates", Decode: func(path string, n *node) { cfg.Health = health.Decode(d.Decoder, path, n) }},
		{Name: "controller", Help: "that knows the surrogates' states", Decode: func(path string, n *node) { cfg.Controller = d.controller(path, n) }},
		{Name: "policy", Help: "sites and surrogates; required with services",
			Decode: func(path string, n *node) { p := policyconfig.Decode(d.Decoder, path, n); cfg.Policy = &p }},
		{Name: "services", Help: "names that are answered by the policy", Decode: func(path string, n *node) {
			d.Entries(path, n, func(at, name string, n *node) { cfg.Services = append(cfg.Services, d.service(at, name, n)) })
		}},
	})
	d.Require("", root, "listen", "zones")
	return cfg
}

func (d *decoder) udp(path string, n *node, u *UDP) {
	d.Fields(path, n, []key{
		{Name: "size", Default: "1232", Help: "longest answer, in octets", Decode: func(path string, n *node) { u.Size = d.Integer(path, n, dns.MinMsgSize, maxSize) }},
		{Name: "buffer", Default: "4MiB", Help: "queries that wait, for each socket", Decode: func(path string, n *node) { u.Buffer = int(d.Size(path, n, 64<<10, 1<<30)) }},
	})
}

func (d *decoder) tcp(path string, n *node, t *TCP) {
	d.Fields(path, n, []key{
		{Name: "connections", Default: "1000", Help: "in total", Decode: func(path string, n *node) { t.Connections = d.Integer(path, n, 1, 100_000) }},
		{Name: "per_network", Default: "100", Help: "from one /24 or /56", Decode: func(path string, n *node) { t.PerNetwork = d.Integer(path, n, 1, 100_000) }},
		{Name: "idle", Default: "10s", Help: "for the next query", Decode: func(path string, n *node) { t.Idle = d.Between(path, n, time.Second, maxTime) }},
	})
}

func (d *decoder) cookies(path string, n *node, c *Cookies) {
	if n.Kind == document.Scalar {
		c.Off = d.Choice(path, n, "is neither off nor a mapping with secret_file", "off") == "off"
		return
	}
	d.Fields(path, n, []key{
		{Name: "secret_file", Help: "a file with 32 hexadecimal digits a line; the first makes cookies, all are accepted",
			Decode: func(path string, n *node) { c.File = d.file(path, n) }},
	})
}

func (d *decoder) limits(path string, n *node, l *Limits) {
	if n.Kind == document.Scalar {
		if d.Choice(path, n, "is neither none nor a mapping with rate", "none") == "none" {
			*l = Limits{}
		}
		return
	}
	d.Fields(path, n, []key{
		{Name: "rate", Default: "200", Help: "answers a second to a network", Decode: func(path string, n *node) { l.Rate = d.Integer(path, n, 1, 60_000) }},
		{Name: "slip", Default: "2", Help: "every n-th answer above the rate is sent truncated", Decode: func(path string, n *node) { l.Slip = d.Integer(path, n, 0, 100) }},
		{Name: "prefix4", Default: "24", Help: "length of an IPv4 network", Decode: func(path string, n *node) { l.Prefix4 = d.Integer(path, n, 8, 32) }},
		{Name: "prefix6", Default: "56", Help: "length of an IPv6 network", Decode: func(path string, n *node) { l.Prefix6 = d.Integer(path, n, 16, 128) }},
		{Name: "exempt", Help: "addresses and prefixes without a limit", Decode: func(path string, n *node) { l.Exempt = d.prefixes(path, n) }},
	})
}

func (d *decoder) prefixes(path string, n *node) []netip.Prefix {
	d.AtMost(path, n, maxPrefixes)
	return document.Distinct(d.Decoder, path, n, d.AddressOrPrefix)
}

// file decodes the path of a file, which is absolute or beside the configuration.
func (d *decoder) file(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() == nil && len(s) > 4095 {
		d.WrongText(n, path, s, "is not usable as a path", "at most 4095 bytes")
	}
	if s != "" && !filepath.IsAbs(s) {
		s = filepath.Join(filepath.Dir(d.File()), s)
	}
	return s
}

// domain decodes a name of the DNS. It is absolute with or without the last dot.
func (d *decoder) domain(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() != nil {
		return ""
	}
	if _, ok := dns.IsDomainName(s); !ok || strings.ContainsAny(s, " \t\\\"();@$") {
		d.WrongText(n, path, s, "is not a domain name", "such as example.net")
	}
	return strings.ToLower(dns.Fqdn(s))
}

func (d *decoder) zone(path string, n *node) Zone {
	z := Zone{Path: path}
	var routed *node
	at := ""
	d.Fields(path, n, []key{
		{Name: "name", Help: "of the zone", Decode: func(path string, n *node) { z.Name = d.domain(path, n) }},
		{Name: "file", Help: "master file, absolute or beside the configuration", Decode: func(path string, n *node) { z.File = d.file(path, n) }},
		{Name: "transfer", Help: "addresses and prefixes that may copy the zone (default: nobody)", Decode: func(path string, n *node) { z.Transfer = d.prefixes(path, n) }},
		{Name: "key", Help: "path of a single key, without .key and .private", Decode: func(path string, n *node) {
			z.Key = strings.TrimSuffix(strings.TrimSuffix(d.file(path, n), ".private"), ".key")
		}},
		{Name: "keys", Help: "folder with the zone's keys", Decode: func(path string, n *node) { z.Keys = d.file(path, n) }},
		{Name: "dnssec", Now: "keys"},
		{Name: "routed", Help: "services by name", Decode: func(path string, n *node) { at, routed = path, n }},
	})
	d.Require(path, n, "name", "file")
	if z.Key != "" && z.Keys != "" {
		d.Wrong(n, path, "has both key and keys", "keys for a folder with several of them, key for a single one")
	}
	if routed != nil && z.Name != "" {
		d.AtMost(at, routed, maxRouted)
		d.Entries(at, routed, func(at, name string, n *node) { z.Routed = append(z.Routed, d.routed(at, name, n, z.Name)) })
	}
	return z
}

// routed decodes a name below a zone, and its service.
func (d *decoder) routed(path, name string, n *node, zone string) Routed {
	full := strings.ToLower(name)
	switch {
	case full == "@":
		full = zone
	case !strings.HasSuffix(full, "."):
		full += "." + zone
	}
	if _, ok := dns.IsDomainName(full); !ok || !dns.IsSubDomain(zone, full) || strings.ContainsAny(full, " \t\\\"();@$") {
		d.WrongAt(d.Place(path), path, fmt.Sprintf("%q is not a name of the zone", document.Clip(name)), "such as cdn, *.cdn, or @ for the zone itself")
	}
	return Routed{Name: full, Service: d.Text(path, n), Path: path}
}

// check refuses what does not fit together.
func check(doc *document.Decoder, cfg *Config) {
	d := &decoder{doc}
	zones := make(map[string]string)
	for _, z := range cfg.Zones {
		if first, twice := zones[z.Name]; twice {
			d.Refuse(z.Path+".name", fmt.Sprintf("%q is the zone of %s already", z.Name, first), "each zone once")
		}
		zones[z.Name] = z.Path
		names := make(map[string]bool)
		for _, r := range z.Routed {
			if names[r.Name] {
				d.Refuse(r.Path, fmt.Sprintf("%q is there twice", r.Name), "each name once")
			}
			names[r.Name] = true
		}
	}
	d.checkServices(cfg)
	d.checkSources(cfg)
	if cfg.TCP.PerNetwork > cfg.TCP.Connections && d.Given("tcp.per_network") {
		d.Refuse("tcp.per_network", fmt.Sprintf("%d is above the %d connections in total", cfg.TCP.PerNetwork, cfg.TCP.Connections), "per_network at most connections")
	}
	if cfg.Limits.Rate == 0 && d.Given("limits") {
		d.Warn(d.Place("limits"), "limits", "is none: strangers may have this server send answers to others (reflection)")
	}
	cfg.Warnings = d.Warnings()
}

// readFiles reads the secrets.
func readFiles(d *document.Decoder, cfg *Config) {
	readCookies(d, cfg)
	if cfg.Controller != nil {
		cfg.Controller.Read(d, "controller")
	}
}

func readCookies(d *document.Decoder, cfg *Config) {
	if cfg.Cookies.File == "" {
		return
	}
	const path = "cookies.secret_file"
	data, mode, err := document.ReadFile(cfg.Cookies.File, 4096)
	switch {
	case err != nil:
		d.RefuseFile(path, cfg.Cookies.File, err)
		return
	case mode&0o077 != 0:
		d.Refuse(path, fmt.Sprintf("%q may be read by others than its owner", cfg.Cookies.File), "chmod 600")
		return
	}
	for word := range strings.FieldsSeq(string(data)) {
		var s [16]byte
		if n, err := hex.Decode(s[:], []byte(word[:min(len(word), 32)])); err != nil || n != 16 || len(word) != 32 {
			d.Refuse(path, fmt.Sprintf("%q holds a line that is no secret", cfg.Cookies.File), "32 hexadecimal digits: openssl rand -hex 16")
			return
		}
		cfg.Cookies.Secrets = append(cfg.Cookies.Secrets, s)
	}
	if len(cfg.Cookies.Secrets) == 0 {
		d.Refuse(path, fmt.Sprintf("%q is empty", cfg.Cookies.File), "32 hexadecimal digits: openssl rand -hex 16")
	}
}
