package config

import (
	"baton/document"
)

const neededKeys = "links"

var rules = document.Rules{Bytes: 1 << 20, Nodes: 1 << 18, Empty: neededKeys + " are needed", Root: "a mapping with " + neededKeys}

// Error is the one thing that is wrong with a configuration: the first, in the order of checking.
type Error = document.Error

// Load reads and checks the file. An error about its content is an *Error; one about reading it wraps the cause. The caller owns the
// result.
func Load(path string) (*Config, error) {
	data, err := rules.Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse checks the content of a configuration file and fills in the defaults; name stands for the file in messages, and for the
// configuration's name where it has none. It returns a configuration or an *Error, never both.
func Parse(name string, data []byte) (*Config, error) {
	root, err := document.Parse(name, data, rules)
	if err != nil {
		return nil, err
	}
	d := &decoder{document.NewDecoder(name)}
	cfg := d.config(root, name)
	if d.Err() == nil {
		d.check(cfg)
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	d.warn(cfg)
	cfg.Warnings = d.Warnings()
	return cfg, nil
}

// Changed names the keys that differ and that a running balance cannot change, in the file's order.
func Changed(old, next *Config) []string {
	var out []string
	for _, k := range []struct {
		key     string
		changed bool
	}{
		{"name", old.Name != next.Name},
		{"datapath", old.Datapath != next.Datapath},
		{"inside", old.Inside != next.Inside},
		{"limits.flows", old.Limits.Flows != next.Limits.Flows},
		{"control", old.Control != next.Control},
		{"metrics", old.Metrics != next.Metrics},
		{"state", old.State != next.State},
	} {
		if k.changed {
			out = append(out, k.key)
		}
	}
	return out
}
