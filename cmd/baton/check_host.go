package main

import (
	"slices"

	"baton/balance"
	"baton/balance/config"
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

func needsOfBalance(file string) ([]datapath.Need, error) {
	if file == "" {
		return balance.Needs(nil), nil
	}
	cfg, err := config.Load(file)
	if err != nil {
		return nil, cli.UsageError{Err: err}
	}
	return balance.Needs(cfg), nil
}
