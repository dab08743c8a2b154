package relay

import (
	"baton/datapath"
	kernel "baton/datapath/relay"
)

// Needs is what the relay needs of a host. It serves flows without any of it.
var Needs = append(datapath.Optional(kernel.Needs, "no early_syn, intercept and return_interfaces; trunks use the system's initial window"),
	datapath.Need{Feature: datapath.Cgroup2, Without: "trunks use the system's initial window"},
	datapath.Need{Feature: datapath.IPv6, Without: "IPv4 only"},
	datapath.Need{Feature: datapath.CapNetBind, Without: "no listeners below port 1024"},
)
