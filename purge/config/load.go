package config

import (
	"slices"

	"baton/document"
)

const neededKeys = "policies"

var rules = document.Rules{Bytes: 1 << 20, Nodes: 1 << 18, Empty: neededKeys + " are needed", Root: "a mapping with " + neededKeys}

// Error holds all mistakes of a configuration.
type Error = document.Error

// Load reads and checks the file. An error about the content is an *Error with all
// mistakes; one about reading the file wraps the cause. The caller owns the result.
func Load(path string) (*Config, error) {
	return document.Load(path, rules, decode)
}

// Parse is Load of a content that is there already; name stands for the file in messages. It returns a configuration or an
// *Error, never both.
func Parse(name string, data []byte) (*Config, error) {
	return document.ParseAs(name, data, rules, decode)
}

func decode(d *document.Decoder, root *node) *Config { return (&decoder{d}).config(root) }

// Changed lists the changed keys that need a restart, in the file's order.
func Changed(old, next *Config) []string {
	var out []string
	for _, k := range []struct {
		key     string
		changed bool
	}{
		{"control", old.Control != next.Control},
		{"metrics", old.Metrics != next.Metrics},
		{"cgroups", !slices.Equal(old.Cgroups, next.Cgroups)},
		{"limits.marks", old.Limits.Marks != next.Limits.Marks},
	} {
		if k.changed {
			out = append(out, k.key)
		}
	}
	return out
}
