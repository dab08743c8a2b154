package purge

import (
	"slices"

	"baton/datapath"
	kernel "baton/datapath/purge"
	"baton/sockdiag"
)

// Needs is what the purge needs of a host.
var Needs = append(slices.Clone(kernel.Needs),
	datapath.Need{Feature: datapath.EndSockets(sockdiag.CanDestroy), For: "end connections"},
	datapath.Need{Feature: datapath.CapNetRaw, Without: "fewer clients get a reset"},
)
