package tables

import (
	"net/netip"
	"time"

	"baton/balance/config"
	"baton/balance/links"
)

// InsidePort is the host's own port of the switch, and FirstLink that of the first link of the configuration.
const (
	InsidePort = 1
	FirstLink  = 2
)

// MaxLinks is the most links: a set of them is a number with that many bits.
const MaxLinks = 16

// State is everything that the tables depend on.
type State struct {
	Datapath config.Datapath
	Internal Internal
	Links    []Link // by place, at most MaxLinks; an unused place has the zero Link
	Rules    []Rule // in the configuration's order; the last one is the default, without conditions
}

// Internal is the host's own side of the switch.
type Internal struct {
	MAC        links.MAC
	MTU        int        // bytes; 0: unknown, and MSS is not clamped
	IPv4, IPv6 netip.Addr // not valid: none
	Gateways   []Gateway  // by class
}

// Gateway has the addresses of a class's gateway; its MAC is [GatewayMAC].
type Gateway struct {
	IPv4, IPv6 netip.Addr // not valid: none
}

// Link is the state of a link for its flows.
type Link struct {
	links.Link
	Usable bool   // considering the link's state, probes and caps
	Weight uint16 // at least 1
	Tier   int
}

// Rule says which flows may use which links.
type Rule struct {
	To        []netip.Prefix
	Services  []config.Service
	Class     int   // of the application, and number of its gateway; 0: any
	Links     []int // places in State.Links; none: all
	Otherwise config.Otherwise
	Method    config.Method // never ""
	Affinity  time.Duration
}
