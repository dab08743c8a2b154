package config

import (
	"time"

	"baton/document"
)

const neededKeys = "a name, and site or planner"

var rules = document.Rules{Bytes: 1 << 20, Nodes: 1 << 18, Empty: neededKeys + " are needed", Root: "a mapping with " + neededKeys}

// Error holds all mistakes of a configuration.
type Error = document.Error

// Load reads and checks the file, the certificates that it names, and the passwords, which it fills in. An error about the content is an *Error with all
// mistakes; one about reading the file wraps the cause. The caller owns the result.
func Load(path string) (*Config, error) {
	return document.Load(path, rules, decode, check, readFiles)
}

// Parse is Load of a content that is there already; name stands for the file in messages. It reads no other file:
// passwords are left out. It returns a configuration or an
// *Error, never both.
func Parse(name string, data []byte) (*Config, error) {
	return document.ParseAs(name, data, rules, decode, check)
}

func decode(d *document.Decoder, root *node) *Config { return (&decoder{d}).config(root) }

func check(d *document.Decoder, cfg *Config) {
	(&decoder{d}).crossCheck(cfg)
	cfg.Warnings = d.Warnings()
}

func readFiles(d *document.Decoder, cfg *Config) {
	(&decoder{d}).readFiles(cfg, time.Now())
	cfg.Warnings = d.Warnings()
}

// Defaults of optional keys.
const (
	defaultControl = "/run/baton/anycast.sock"

	maxTime = 24 * time.Hour
)

func (d *decoder) config(root *node) *Config {
	cfg := &Config{File: d.File(), Listen: Listen{Control: defaultControl}}
	d.Fields("", root, []key{
		{Name: "control", Default: "/run/baton/anycast.sock", Help: "unix socket of the commands",
			Decode: func(path string, n *node) { cfg.Listen.Control = d.SocketPath(path, n) }},
		{Name: "metrics", Help: "host:port for Prometheus and /healthz (default: none)", Decode: func(path string, n *node) { cfg.Listen.Metrics = d.hostPort(path, n) }},
		{Name: "name", Help: "of the site or planner; a DNS name of its certificate", Decode: func(path string, n *node) { cfg.Name = d.Label(path, n) }},
		{Name: "listen", Help: "where others fetch the report", Decode: func(path string, n *node) {
			d.Fields(path, n, []key{
				{Name: "metrics", Now: "metrics, at the top level"},
				{Name: "control", Now: "control, at the top level"},
				{Name: "sites", Help: "host:port for other sites and the planner", Decode: func(path string, n *node) { cfg.Listen.Sites = d.hostPort(path, n) }},
			})
		}},
		{Name: "identity", Now: "tls"},
		{Name: "tls", Help: "PEM files, read again on reload", Decode: func(path string, n *node) {
			d.Fields(path, n, []key{
				{Name: "certificate", Help: "of this site", Decode: func(path string, n *node) { cfg.TLS.Certificate = d.FilePath(path, n) }},
				{Name: "key", Help: "of the certificate", Decode: func(path string, n *node) { cfg.TLS.Key = d.FilePath(path, n) }},
				{Name: "authority", Help: "authorities of the others' certificates", Decode: func(path string, n *node) { cfg.TLS.Authority = d.FilePath(path, n) }},
				{Name: "ca", Now: "authority"},
			})
			d.Require(path, n, "certificate", "key", "authority")
		}},
		{Name: "site", Help: "announces prefixes", Decode: func(path string, n *node) { cfg.Site = d.site(path, n) }},
		{Name: "planner", Help: "proposes levels, or programs a map", Decode: func(path string, n *node) { cfg.Planner = d.planner(path, n) }},
	})
	d.Require("", root, "name")
	return cfg
}
