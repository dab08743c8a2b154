package main

import (
	"slices"

	"baton/anycast"
	"baton/balance"
	balanceconfig "baton/balance/config"
	"baton/cmd/cli"
	"baton/cmd/cli/hostcheck"
	"baton/cmd/cli/part"
	"baton/datapath"
	"baton/forwarder"
	"baton/purge"
	"baton/relay"
	relayconfig "baton/relay/config"
	"baton/router"
)

// needs are what the parts need of a host for a configuration file; without one (""), what any needs.
var needs = map[string]func(file string) ([]datapath.Need, error){
	"router":    always(router.Needs),
	"relay":     byConfig(relayconfig.Load, relay.Needs),
	"anycast":   always(anycast.Needs),
	"forwarder": always(forwarder.Needs),
	"balance":   byConfig(balanceconfig.Load, balance.Needs),
	"purge":     always(purge.Needs),
}

// fitParts has the parts check the host that they are on.
func fitParts(all []*part.Part) []*part.Part {
	for _, p := range all {
		p.Lacks = func(file string) ([]string, error) {
			have, err := needs[p.Name](file)
			return hostcheck.Lacking(p.Name, have), err
		}
	}
	return all
}

// tools are the commands that check-host knows.
func tools() []hostcheck.Tool {
	var all []hostcheck.Tool
	for _, p := range parts() {
		have, _ := needs[p.Name]("") // only a file can be wrong
		all = append(all, hostcheck.Tool{Name: p.Name, Needs: have})
	}
	return append(all, hostcheck.Tool{Name: "get"}) // it needs nothing but sockets
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
