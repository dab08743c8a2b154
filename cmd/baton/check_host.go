package main

import (
	"slices"

	"baton/cmd/cli"
	"baton/cmd/cli/part"
	"baton/datapath"
)

// tools are the commands that check-host knows.
func tools() []part.Tool {
	var all []part.Tool
	for _, p := range parts() {
		needs, _ := p.Needs("") // only a file can be wrong
		all = append(all, part.Tool{Name: p.Name, Needs: needs})
	}
	return append(all, part.Tool{Name: "get"}) // it needs nothing but sockets
}

// always is for parts whose needs do not depend on their configuration.
func always(needs []datapath.Need) func(string) ([]datapath.Need, error) {
	return func(string) ([]datapath.Need, error) { return slices.Clone(needs), nil }
}

// byConfig is for parts whose needs depend on their configuration.
func byConfig[C any](load func(file string) (*C, error), needs func(*C) []datapath.Need) func(string) ([]datapath.Need, error) {
	return func(file string) ([]datapath.Need, error) {
		if file == "" {
			return needs(nil), nil
		}
		cfg, err := load(file)
		if err != nil {
			return nil, cli.UsageError{Err: err}
		}
		return needs(cfg), nil
	}
}
