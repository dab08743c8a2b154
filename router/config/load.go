package config

import (
	"baton/document"
)

var rules = document.Rules{Bytes: 4 << 20, Nodes: 1 << 20, Empty: "vips and pools are needed", Root: "a mapping with vips and pools"}

// Error is what is wrong with a configuration.
type Error = document.Error

// Load reads and checks the file. An error about the content is an *Error with all
// mistakes; one about reading the file wraps the cause. The caller owns the result.
func Load(path string) (*Config, error) {
	return document.Load(path, rules, decode, check)
}

// Parse is Load of a content that is there already; name stands for the file in messages. It returns a configuration or an
// *Error, never both.
func Parse(name string, data []byte) (*Config, error) {
	return document.ParseAs(name, data, rules, decode, check)
}

func decode(d *document.Decoder, root *node) *Config { return (&decoder{d}).config(root) }

func check(d *document.Decoder, cfg *Config) { (&decoder{d}).crossCheck(cfg) }
