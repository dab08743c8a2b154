package config

import (
	"baton/document"
)

var rules = document.Rules{Bytes: 4 << 20, Nodes: 1 << 20, Empty: "vips and pools are needed", Root: "a mapping with vips and pools"}

// Error is the one thing that is wrong with a configuration: the first, in the order of checking.
type Error = document.Error

// Load reads and checks the file. An error about the content is an *Error; one about reading the file wraps the cause.
// The caller owns the result.
func Load(path string) (*Config, error) {
	data, err := rules.Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse checks the content of a configuration file and fills in the defaults; name stands for the file in messages. It
// returns a configuration or an *Error, never both.
func Parse(name string, data []byte) (*Config, error) {
	root, err := document.Parse(name, data, rules)
	if err != nil {
		return nil, err
	}
	d := &decoder{document.NewDecoder(name)}
	cfg := d.config(root)
	if d.Err() == nil {
		d.crossCheck(cfg)
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	cfg.File = name
	return cfg, nil
}
