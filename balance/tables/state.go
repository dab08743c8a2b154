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

// MaxLinks is how many links there may be: a set of them is a number of as many bits.
const MaxLinks = 16

// State is all that the tables depend on.
type State struct {
	Datapath config.Datapath
	Internal Internal
	Links    []Link // by their place in the configuration, MaxLinks at most; the zero Link at one that is free
	Rules    []Rule // the configuration's, in order; the last one is the default, which has no conditions
}

// Inside is the host's own side of the switch.
type Internal struct {
	MAC        links.MAC
	MTU        int        // bytes; 0: not known, and no MSS is clamped
	IPv4, IPv6 netip.Addr // not valid: none
	Gateways   []Gateway  // by their class
}

// Gateway is the addresses of the gateway that a class of applications has; its MAC is [GatewayMAC].
type Gateway struct {
	IPv4, IPv6 netip.Addr // not valid: none
}

// Link is a link as far as flows depend on it.
type Link struct {
	links.Link
	Usable bool   // by the link's state, probes and caps together
	Weight uint16 // at least 1
	Tier   int
}

// Rule is which flows may use which links.
type Rule struct {
	To        []netip.Prefix
	Services  []config.Service
	Class     int   // of the application, which is the number of its gateway; 0: any
	Links     []int // places in State.Links; none: all
	Otherwise config.Otherwise
	Method    config.Method // never ""
	Affinity  time.Duration
}
