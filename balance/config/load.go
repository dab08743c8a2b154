package config

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"

	"baton/document"
)

const neededKeys = "links"

var rules = document.Rules{Bytes: 1 << 20, Nodes: 1 << 18, Empty: neededKeys + " are needed", Root: "a mapping with " + neededKeys}

// Error holds all mistakes of a configuration.
type Error = document.Error

// Load reads and checks the file. An error about its content is an *Error with all mistakes; one about reading it wraps the cause. The
// caller owns the result.
func Load(path string) (*Config, error) {
	return document.Load(path, rules, decode, check, readUsers)
}

// Parse is Load for content in memory; messages call the file by name, which is also the default for the configuration's name. It does not
// look up users. It returns a configuration or an *Error, never both.
func Parse(name string, data []byte) (*Config, error) {
	return document.ParseAs(name, data, rules, decode, check)
}

func decode(d *document.Decoder, root *node) *Config { return (&decoder{d}).config(root, d.File()) }

func check(d *document.Decoder, cfg *Config) {
	all := &decoder{d}
	all.check(cfg)
	if d.Err() == nil {
		all.warn(cfg)
	}
	cfg.Warnings = d.Warnings()
	cfg.Places = d.Places()
}

// readUsers refuses users that do not exist on this host.
func readUsers(d *document.Decoder, cfg *Config) {
	for i, r := range cfg.Rules {
		if r.Application == nil || r.Application.User == "" {
			continue
		}
		name := r.Application.User
		if _, err := strconv.ParseUint(name, 10, 32); err == nil {
			continue
		}
		var unknown user.UnknownUserError
		if _, err := user.Lookup(name); errors.As(err, &unknown) {
			d.Refuse(document.Index("rules", i)+".application.user", fmt.Sprintf("%q is not a user of this host", name), "a user's name or number: see getent passwd")
		}
	}
}

// Changed lists the changed keys that need a restart, in the file's order.
func Changed(old, next *Config) []string {
	var out []string
	for _, k := range []struct {
		key     string
		changed bool
	}{
		{"name", old.Name != next.Name},
		{"datapath", old.Datapath != next.Datapath},
		{"internal", old.Internal != next.Internal},
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
