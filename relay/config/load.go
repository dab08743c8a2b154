package config

import (
	"time"

	"baton/document"
)

const neededKeys = "a name, and entries or trunks"

var rules = document.Rules{Bytes: 1 << 20, Nodes: 1 << 18, Empty: neededKeys + " are needed", Root: "a mapping with " + neededKeys}

// Error holds all mistakes of a configuration.
type Error = document.Error

// Load reads and checks the file and the certificates that it names, and reads the secrets. An error about the content is an *Error with
// all mistakes; one about reading the file wraps the cause. The caller owns the result.
func Load(path string) (*Config, error) {
	return document.Load(path, rules, decode, check, readFiles)
}

// Parse is Load of a content that was read before; name stands for the file in messages. It reads no other file, so secrets are missing. It
// returns a configuration or an *Error, never both.
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
