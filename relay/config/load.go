package config

import (
	"time"

	"baton/document"
)

const neededKeys = "a name, and entries or trunks"

var rules = document.Rules{Bytes: 1 << 20, Nodes: 1 << 18, Empty: neededKeys + " are needed", Root: "a mapping with " + neededKeys}

// Error is the one thing that is wrong with a configuration: the first, in the order of checking.
type Error = document.Error

// Load reads and checks the file, the certificates that it names, and the secrets, which it fills in. An error about the content of
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
// other file: secrets are left out. It returns a configuration or an *Error, never both.
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
