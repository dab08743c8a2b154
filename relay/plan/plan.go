// Package plan chooses the relays between two end points by round-trip times, and explains the choice.
//
// The rule is the relay nearest to each end (Pied Piper, section 2.1), as the time outside the cloud dominates. If one relay is nearest to
// both ends, it is the only one. Further relays in between are weighed by the estimator of section 4.4: with TCP split at each relay a flow
// is as fast as its slowest segment, so relays that divide the trunk improve it by
//
//	RTT(first, last) / the longest RTT between two adjacent relays
//
// and those that minimise this longest RTT are chosen if they are worth it. The estimator was found not to hold for a single relay, so a
// single one is never chosen by it.
//
// The package is pure: the same question has the same answer, and ties are broken by name. Missing measurements are reported and never
// guessed.
package plan

import (
	"encoding/json"
	"math"
	"time"
)

// Use is a plan's recommendation.
type Use string

// The recommendations of a plan.
const (
	UseRelays Use = "relays"
	UseDirect Use = "direct"  // relays would not be faster
	UseNone   Use = "unknown" // measurements are missing
)

// Plan is the answer to a question, with its basis.
type Plan struct {
	Client  string      `json:"client"`
	Server  string      `json:"server"`
	Use     Use         `json:"use"`
	Why     string      `json:"why"`
	Route   *Route      `json:"route,omitempty"`  // over the chosen relays, even if direct is better; nil if there is none
	Direct  *Times      `json:"direct,omitempty"` // nil if its round-trip time is unknown
	Others  []Candidate `json:"others,omitempty"` // routes that were not chosen, faster ones first
	Missing []Missing   `json:"missing,omitempty"`
	Size    int64       `json:"size"`  // bytes by which routes were compared
	Sizes   []int64     `json:"sizes"` // bytes for each of Times.Sizes
}

// Route is a sequence of relays.
type Route struct {
	Relays  []string `json:"relays"` // from the client on
	Clouds  []string `json:"clouds"` // of each relay
	Legs    []Leg    `json:"legs"`   // one more than relays: client to first relay, ..., last relay to server
	Longest Span     `json:"longest_ms"`
	Times   Times    `json:"times"`
	Why     string   `json:"why"` // why these relays
}

// Leg is a connection of a route.
type Leg struct {
	From string  `json:"from"` // nearer to the client
	To   string  `json:"to"`
	RTT  Span    `json:"rtt_ms"`
	Rate float64 `json:"rate,omitempty"` // bytes per second towards the client, 0 if unknown
}

// Candidate is a route that was not chosen.
type Candidate struct {
	Route
	Not string `json:"not"` // why not
}

// Missing is a missing measurement that would matter.
type Missing struct {
	From string `json:"from"`
	To   string `json:"to"`
	Why  string `json:"why"` // what it is needed for
}

// Times are the estimated times of a route, from round-trip times and known rates.
type Times struct {
	RTT   Span   `json:"rtt_ms"`   // of the whole route: the sum of its legs
	New   Span   `json:"new_ms"`   // to the first byte of the answer on a new client connection
	Warm  Span   `json:"warm_ms"`  // on an open connection: one RTT
	Sizes []Span `json:"sizes_ms"` // to the last byte of each of Plan.Sizes, on a new connection
	size  time.Duration
}

// Span is a time, in milliseconds in JSON.
type Span time.Duration

// MarshalJSON writes milliseconds with a resolution of a microsecond.
func (s Span) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(float64(s)/1e3) / 1e3)
}
