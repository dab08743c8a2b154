package router

import (
	"slices"

	"baton/datapath"
	kernel "baton/datapath/router"
	"baton/router/quic"
)

// Needs is what the router needs of a host.
var Needs = append(slices.Clone(kernel.Needs),
	datapath.Need{Feature: quic.Programs, Without: "no VIPs of QUIC"},
	datapath.Need{Feature: datapath.CapNetBind, Without: "no VIPs below port 1024"},
)
