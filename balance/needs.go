package balance

import (
	"baton/balance/config"
	"baton/balance/host"
	"baton/datapath"
	kernel "baton/datapath/forwarder"
	"baton/sockdiag"
)

var nftables = &datapath.Feature{
	Name: "nftables", Kind: datapath.KernelFeature, Try: host.TryNftables,
	Remedy: func() string { return "boot a kernel with CONFIG_NF_TABLES and CONFIG_NF_TABLES_INET" },
}

// Needs is what a balance needs of a host; without a configuration, what any needs.
func Needs(cfg *config.Config) []datapath.Need {
	needs := []datapath.Need{
		{Feature: datapath.CapNetAdmin, For: "change addresses, routes and rules"},
		{Feature: datapath.EndSockets(sockdiag.CanDestroy), Without: "connections that lose their link are not ended: applications wait for their own timeouts"},
	}
	if cfg == nil || cfg.Datapath == config.Baton {
		own := kernel.Needs
		if cfg == nil {
			own = datapath.Optional(own, "only datapath: ovs")
		}
		needs = append(needs, own...)
	}
	if cfg == nil || cfg.Datapath == config.OpenVSwitch {
		needs = append(needs, datapath.Need{Feature: nftables, Without: "not datapath: ovs"})
	}
	switch {
	case cfg == nil:
		needs = append(needs, datapath.Optional(host.NeedsOfMarks, "no rules by application")...)
	case len(cfg.Applications()) > 0:
		needs = append(needs, host.NeedsOfMarks...)
	}
	return needs
}
