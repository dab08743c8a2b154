package api

import (
	"net/netip"
	"time"
)

// RelayPlanRequest asks for the relays that flows should pass. The distances are measured for it, which takes seconds.
type RelayPlanRequest struct {
	Client    netip.AddrPort `json:"client"` // a port that refuses is sufficient
	Server    netip.AddrPort `json:"server"`
	Direct    time.Duration  `json:"direct_ns,omitempty"`  // round-trip time without relays; 0: unknown
	Size      int64          `json:"size,omitempty"`       // bytes by which routes are compared; 0: 1 MB
	Clouds    string         `json:"clouds,omitempty"`     // prefer (one cloud, unless mixing is clearly faster), any or one; "": prefer
	MaxRelays int            `json:"max_relays,omitempty"` // on a route; 0: 3
}

// RelayPlan is the answer, with its basis.
type RelayPlan struct {
	Client  string               `json:"client"`
	Server  string               `json:"server"`
	Use     string               `json:"use"` // relays, direct or unknown
	Why     string               `json:"why"`
	Route   *RelayPlanRoute      `json:"route,omitempty"`  // the best one over relays, even if direct is better
	Direct  *RelayPlanTimes      `json:"direct,omitempty"` // without relays
	Others  []RelayPlanCandidate `json:"others,omitempty"` // faster ones first
	Missing []RelayPlanMissing   `json:"missing,omitempty"`
	Size    int64                `json:"size"`
	Sizes   []int64              `json:"sizes"` // bytes for each of RelayPlanTimes.Sizes
	Text    []string             `json:"text"`  // the plan as text
}

// RelayPlanRoute is a sequence of relays.
type RelayPlanRoute struct {
	Relays  []string       `json:"relays"` // from the client on
	Clouds  []string       `json:"clouds"` // of each relay
	Legs    []RelayPlanLeg `json:"legs"`   // one more than relays
	Longest time.Duration  `json:"longest_ns"`
	Times   RelayPlanTimes `json:"times"`
	Why     string         `json:"why"`
}

// RelayPlanLeg is a connection of a route.
type RelayPlanLeg struct {
	From string        `json:"from"`
	To   string        `json:"to"`
	RTT  time.Duration `json:"rtt_ns"`
}

// RelayPlanCandidate is a route that was not chosen.
type RelayPlanCandidate struct {
	RelayPlanRoute
	Not string `json:"not"` // why not
}

// RelayPlanMissing is a missing measurement that would matter.
type RelayPlanMissing struct {
	From string `json:"from"`
	To   string `json:"to"`
	Why  string `json:"why"` // what it is needed for, and why it is missing if known
}

// RelayPlanTimes are the estimated times of a route, from round-trip times.
type RelayPlanTimes struct {
	RTT   time.Duration   `json:"rtt_ns"`   // of the whole route
	New   time.Duration   `json:"new_ns"`   // to the first byte of the answer on a new client connection
	Warm  time.Duration   `json:"warm_ns"`  // on an open connection
	Sizes []time.Duration `json:"sizes_ns"` // to the last byte of each of RelayPlan.Sizes, on a new connection
}
