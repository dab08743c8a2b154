package config

import (
	"time"

	"baton/document"
)

const neededKeys = "a name, and site or planner"

var rules = document.Rules{Bytes: 1 << 20, Nodes: 1 << 18, Empty: neededKeys + " are needed", Root: "a mapping with " + neededKeys}

// Error is the one thing that is wrong with a configuration: the first, in the order of checking.
type Error = document.Error

// Load reads and checks the file, the certificates that it names, and the passwords, which it fills in. An error about the content of
// any of them is an *Error; one about reading the file itself wraps the cause. The caller owns the result.
func Load(path string) (*Config, error) {
	data, err := rules.Read(path)
	if err != nil {
		return nil, err
	}
	cfg, d, err := parse(path, data)
	if err != nil {
		return nil, err
	}
	d.readFiles(cfg, time.Now())
	if d.Err() != nil {
		return nil, d.Err()
	}
	cfg.Warnings = d.Warnings()
	return cfg, nil
}

// Parse checks the content of a configuration file and fills in the defaults; name stands for the file in messages. It reads no
// other file: passwords are left out. It returns a configuration or an *Error, never both.
func Parse(name string, data []byte) (*Config, error) {
	cfg, _, err := parse(name, data)
	return cfg, err
}

func parse(name string, data []byte) (*Config, *decoder, error) {
	root, err := document.Parse(name, data, rules)
	if err != nil {
		return nil, nil, err
	}
	d := &decoder{document.NewDecoder(name)}
	cfg := d.config(root)
	if d.Err() == nil {
		d.crossCheck(cfg)
	}
	if d.Err() != nil {
		return nil, nil, d.Err()
	}
	cfg.File = name
	cfg.Warnings = d.Warnings()
	return cfg, d, nil
}

// Defaults of what a file leaves out.
const (
	defaultControl = "/run/baton/anycast.sock"

	maxTime = 24 * time.Hour
)

func (d *decoder) config(root *node) *Config {
	cfg := &Config{Listen: Listen{Control: defaultControl}}
	d.Fields("", root, []key{
		{Name: "name", Decode: func(path string, n *node) { cfg.Name = d.Label(path, n) }},
		{Name: "listen", Decode: func(path string, n *node) {
			d.Fields(path, n, []key{
				{Name: "metrics", Decode: func(path string, n *node) { cfg.Listen.Metrics = d.hostPort(path, n) }},
				{Name: "control", Decode: func(path string, n *node) { cfg.Listen.Control = d.SocketPath(path, n) }},
				{Name: "sites", Decode: func(path string, n *node) { cfg.Listen.Sites = d.hostPort(path, n) }},
			})
		}},
		{Name: "identity", Decode: func(path string, n *node) {
			d.Fields(path, n, []key{
				{Name: "certificate", Decode: func(path string, n *node) { cfg.Identity.Certificate = d.FilePath(path, n) }},
				{Name: "key", Decode: func(path string, n *node) { cfg.Identity.Key = d.FilePath(path, n) }},
				{Name: "ca", Decode: func(path string, n *node) { cfg.Identity.CA = d.FilePath(path, n) }},
			})
			d.Require(path, n, "certificate", "key", "ca")
		}},
		{Name: "site", Decode: func(path string, n *node) { cfg.Site = d.site(path, n) }},
		{Name: "planner", Decode: func(path string, n *node) { cfg.Planner = d.planner(path, n) }},
	})
	d.Require("", root, "name")
	return cfg
}
