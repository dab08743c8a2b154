package config

import (
	"fmt"

	"baton/document"
)

const neededKeys = "policies"

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

// Parse checks the content of a configuration file and fills in the defaults; name stands for the file in messages. It returns a
// configuration or an *Error, never both.
func Parse(name string, data []byte) (*Config, error) {
	root, err := document.Parse(name, data, rules)
	if err != nil {
		return nil, err
	}
	d := &decoder{document.NewDecoder(name)}
	cfg := d.config(root)
	if d.Err() != nil {
		return nil, d.Err()
	}
	cfg.File = name
	return cfg, nil
}

// Changed names the keys that differ and that a running purge cannot change, in the file's order.
func Changed(old, next *Config) []string {
	var out []string
	for _, k := range []struct {
		key     string
		changed bool
	}{
		{"control", old.Control != next.Control},
		{"metrics", old.Metrics != next.Metrics},
		{"cgroups", fmt.Sprint(old.Cgroups) != fmt.Sprint(next.Cgroups)},
		{"limits.marks", old.Limits.Marks != next.Limits.Marks},
	} {
		if k.changed {
			out = append(out, k.key)
		}
	}
	return out
}
