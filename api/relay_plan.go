package api

import (
	"net/netip"
	"time"
)

// RelayPlanRequest asks which relays flows should pass. Distances are measured for the answer, which takes seconds.
type RelayPlanRequest struct {
	Client    netip.AddrPort `json:"client"` // a port that refuses serves as well
	Server    netip.AddrPort `json:"server"`
	Direct    time.Duration  `json:"direct_ns,omitempty"`  // round-trip time without relays; 0: it is not known
	Size      int64          `json:"size,omitempty"`       // bytes that ways are compared by; 0: 1 MB
	Clouds    string         `json:"clouds,omitempty"`     // prefer (one cloud, unless mixing is clearly faster), any or one; "": prefer
	MaxRelays int            `json:"max_relays,omitempty"` // on a route; 0: 3
}

// RelayPlan is the answer, and what it rests on.
type RelayPlan struct {
	Client  string               `json:"client"`
	Server  string               `json:"server"`
	Use     string               `json:"use"` // relays, direct or unknown
	Why     string               `json:"why"`
	Route   *RelayPlanRoute      `json:"route,omitempty"`  // the best one over relays, also when direct is better
	Direct  *RelayPlanTimes      `json:"direct,omitempty"` // without relays
	Others  []RelayPlanCandidate `json:"others,omitempty"` // the faster ones first
	Missing []RelayPlanMissing   `json:"missing,omitempty"`
	Size    int64                `json:"size"`
	Sizes   []int64              `json:"sizes"` // bytes that RelayPlanTimes.Sizes are for
	Text    []string             `json:"text"`  // the same for people
}

// RelayPlanRoute is relays in a row.
type RelayPlanRoute struct {
	Relays  []string       `json:"relays"` // from the client on
	Clouds  []string       `json:"clouds"` // of Relays
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
	Not string `json:"not"` // why it was not
}

// RelayPlanMissing is a measurement that would have been of use.
type RelayPlanMissing struct {
	From string `json:"from"`
	To   string `json:"to"`
	Why  string `json:"why"` // what it is needed for, and why there is none if that is known
}

// RelayPlanTimes are what a way takes, estimated from its round-trip times.
type RelayPlanTimes struct {
	RTT   time.Duration   `json:"rtt_ns"`   // of the whole way
	New   time.Duration   `json:"new_ns"`   // to the first byte of an answer on a new connection of the client
	Warm  time.Duration   `json:"warm_ns"`  // on a connection that is there
	Sizes []time.Duration `json:"sizes_ns"` // to the last byte of RelayPlan.Sizes, on a new connection
}
