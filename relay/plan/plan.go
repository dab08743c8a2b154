// Package plan chooses the relays that flows between two end points pass, by round-trip times, and says why.
//
// The relay nearest to each end is the rule (Pied Piper, section 2.1): what costs is the time outside of the cloud. Where one relay is
// the nearest to both, it is the only one. Further relays between the two are weighed by the estimator of section 4.4: where TCP is
// split at each relay a flow is as fast as its slowest segment, so that relays which divide the trunk improve it by
//
//	RTT(first, last) / the longest RTT between two relays in a row
//
// and those are taken which make that longest RTT the shortest, if it is worth it. The estimator was found not to hold for a single
// relay; one is never chosen by it.
//
// The package is pure: the same question has the same answer, and ties are decided by names. What has not been measured is told, and
// nothing is guessed in its place.
package plan

import (
	"encoding/json"
	"math"
	"time"
)

// Use is what a plan says is to be done.
type Use string

// The answers of a plan.
const (
	UseRelays Use = "relays"
	UseDirect Use = "direct"  // the relays would not be faster
	UseNone   Use = "unknown" // no way can be told of: measurements are missing
)

// Plan is the answer to a question, and what it rests on.
type Plan struct {
	Client  string      `json:"client"`
	Server  string      `json:"server"`
	Use     Use         `json:"use"`
	Why     string      `json:"why"`
	Route   *Route      `json:"route,omitempty"`  // over the relays that are chosen, nil when there is none; also when direct is better
	Direct  *Times      `json:"direct,omitempty"` // without relays, nil when its round-trip time is not known
	Others  []Candidate `json:"others,omitempty"` // routes that were not chosen, the faster ones first
	Missing []Missing   `json:"missing,omitempty"`
	Size    int64       `json:"size"`  // bytes that routes were compared by
	Sizes   []int64     `json:"sizes"` // bytes that Times.Sizes are for
}

// Route is relays in a row.
type Route struct {
	Relays  []string `json:"relays"` // from the client on
	Clouds  []string `json:"clouds"` // of Relays
	Legs    []Leg    `json:"legs"`   // from the client to the first relay, and so on to the server: one more than relays
	Longest Span     `json:"longest_ms"`
	Times   Times    `json:"times"`
	Why     string   `json:"why"` // these relays and no others
}

// Leg is a connection of a route.
type Leg struct {
	From string  `json:"from"` // nearer to the client
	To   string  `json:"to"`
	RTT  Span    `json:"rtt_ms"`
	Rate float64 `json:"rate,omitempty"` // bytes per second towards the client, 0 when it is not known
}

// Candidate is a route that was not chosen.
type Candidate struct {
	Route
	Not string `json:"not"` // why it was not
}

// Missing is a measurement that would have been of use.
type Missing struct {
	From string `json:"from"`
	To   string `json:"to"`
	Why  string `json:"why"` // what it is needed for
}

// Times are what a way takes, estimated from round-trip times and the rates that are known.
type Times struct {
	RTT   Span   `json:"rtt_ms"`   // of the whole way: the sum over its legs
	New   Span   `json:"new_ms"`   // to the first byte of an answer on a new connection of the client
	Warm  Span   `json:"warm_ms"`  // on a connection that is there: no way can do with less than its RTT
	Sizes []Span `json:"sizes_ms"` // to the last byte of Plan.Sizes, on a new connection
	size  time.Duration
}

// Span is a time, in JSON a number of milliseconds.
type Span time.Duration

// MarshalJSON writes milliseconds, to the microsecond.
func (s Span) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(float64(s)/1e3) / 1e3)
}
