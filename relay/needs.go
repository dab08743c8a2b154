package relay

import (
	"slices"

	"baton/datapath"
	kernel "baton/datapath/relay"
	"baton/relay/config"
)

// Needs is what the relay needs of a host; without a configuration (nil), what any needs. It serves flows without programs, unless the configuration
// requires them.
func Needs(cfg *config.Config) []datapath.Need {
	programs := kernel.Needs
	if cfg == nil || needs(cfg) == "" {
		programs = datapath.Optional(programs, "no early_syn, intercept and return_interfaces; trunks use the system's initial window")
	}
	return append(slices.Clone(programs),
		datapath.Need{Feature: datapath.Cgroup2, Without: "trunks use the system's initial window"},
		datapath.Need{Feature: datapath.IPv6, Without: "IPv4 only"},
		datapath.Need{Feature: datapath.CapNetBind, Without: "no listeners below port 1024"},
	)
}
