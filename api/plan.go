package api

import (
	"net/netip"
	"time"
)

// PlanRequest asks which relays flows should pass. Distances are measured for the answer, which takes seconds.
type PlanRequest struct {
	Client netip.AddrPort `json:"client"` // a port that refuses serves as well
	Server netip.AddrPort `json:"server"`
	Direct time.Duration  `json:"direct_ns,omitempty"` // round-trip time without relays; 0: it is not known
	Size   int64          `json:"size,omitempty"`      // bytes that ways are compared by; 0: 1 MB
	Clouds string         `json:"clouds,omitempty"`    // prefer (one cloud, unless mixing is clearly faster), any or one; "": prefer
	Most   int            `json:"most,omitempty"`      // relays of a way; 0: 3
}

// Plan is the answer, and what it rests on.
type Plan struct {
	Client  string          `json:"client"`
	Server  string          `json:"server"`
	Use     string          `json:"use"` // relays, direct or unknown
	Why     string          `json:"why"`
	Route   *PlanRoute      `json:"route,omitempty"`  // the best one over relays, also when direct is better
	Direct  *PlanTimes      `json:"direct,omitempty"` // without relays
	Others  []PlanCandidate `json:"others,omitempty"` // the faster ones first
	Missing []PlanMissing   `json:"missing,omitempty"`
	Size    int64           `json:"size"`
	Sizes   []int64         `json:"sizes"` // bytes that PlanTimes.Sizes are for
	Text    []string        `json:"text"`  // the same for people
}

// PlanRoute is relays in a row.
type PlanRoute struct {
	Relays  []string      `json:"relays"` // from the client on
	Clouds  []string      `json:"clouds"` // of Relays
	Legs    []PlanLeg     `json:"legs"`   // one more than relays
	Longest time.Duration `json:"longest_ns"`
	Times   PlanTimes     `json:"times"`
	Why     string        `json:"why"`
}

// PlanLeg is a connection of a route.
type PlanLeg struct {
	From string        `json:"from"`
	To   string        `json:"to"`
	RTT  time.Duration `json:"rtt_ns"`
}

// PlanCandidate is a route that was not chosen.
type PlanCandidate struct {
	PlanRoute
	Not string `json:"not"` // why it was not
}

// PlanMissing is a measurement that would have been of use.
type PlanMissing struct {
	From string `json:"from"`
	To   string `json:"to"`
	Why  string `json:"why"` // what it is needed for, and why there is none if that is known
}

// PlanTimes are what a way takes, estimated from its round-trip times.
type PlanTimes struct {
	RTT   time.Duration   `json:"rtt_ns"`   // of the whole way
	New   time.Duration   `json:"new_ns"`   // to the first byte of an answer on a new connection of the client
	Warm  time.Duration   `json:"warm_ns"`  // on a connection that is there
	Sizes []time.Duration `json:"sizes_ns"` // to the last byte of Plan.Sizes, on a new connection
}
