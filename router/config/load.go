package config

import (
	"time"

	"baton/document"
)

var rules = document.Rules{Bytes: 32 << 20, Nodes: 4 << 20, Empty: "vips and pools are needed", Root: "a mapping with vips and pools"}

// Error is an error in a configuration.
type Error = document.Error

// Load reads and checks the file, and the certificates and policies that it names. An error in its content is an *Error with all mistakes; an error of reading wraps the cause.
// The caller owns the result.
func Load(path string) (*Config, error) {
	return document.Load(path, rules, decode, check, readFiles)
}

// Parse is Load for text in memory; name is the file's in messages. It reads no other files. It returns a configuration or an *Error, never both.
func Parse(name string, data []byte) (*Config, error) {
	return document.ParseAs(name, data, rules, decode, check)
}

func decode(d *document.Decoder, root *node) *Config { return (&decoder{d}).config(root) }

func readFiles(d *document.Decoder, cfg *Config) {
	files := &decoder{d}
	files.readKeyPairs(cfg, time.Now())
	files.readControllers(cfg, time.Now())
	files.readPolicies(cfg)
}

func check(d *document.Decoder, cfg *Config) { (&decoder{d}).crossCheck(cfg) }
