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

// Error is what is wrong with a configuration.
type Error = document.Error

// Load reads and checks the file. An error about the content is an *Error with all
// mistakes; one about reading the file wraps the cause. The caller owns the result.
func Load(path string) (*Config, error) {
	return document.Load(path, rules, decode, check, readUsers)
}

// Parse is Load of a content that is there already; name stands for the file in messages, and for the configuration's name where it
// has none. Users are not looked up. It returns a configuration or an
// *Error, never both.
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
	cfg.places = d.Place
}

// At is where the value of a key stands in the file, or else what holds it.
func (c *Config) At(key string) document.Place {
	if c.places == nil {
		return document.Place{Line: 1, Column: 1} // it was not read from a file
	}
	return c.places(key)
}

// readUsers refuses users that this host does not have.
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

// Changed names the keys that differ and that a running balance cannot change, in the file's order.
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
