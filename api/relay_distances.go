package api

import (
	"net/netip"
	"time"
)

// RelayDistances are the distances of peers and servers that a relay knows: servers that entries with via: auto name, and those that their
// flows have used recently.
type RelayDistances struct {
	Relay        string              `json:"relay"`
	Cloud        string              `json:"cloud,omitempty"`
	Peers        []RelayPeerDistance `json:"peers"`        // in the order of the configuration
	Destinations []RelayDestination  `json:"destinations"` // in the order of their addresses
}

// RelayPeerDistance is the distance of a peer.
type RelayPeerDistance struct {
	Name    string         `json:"name"`
	Address netip.AddrPort `json:"address"`
	Cloud   string         `json:"cloud,omitempty"`
	Up      bool           `json:"up"`               // trunks to it can be opened, or none was tried
	RTT     time.Duration  `json:"rtt_ns,omitempty"` // 0: unknown
}

// RelayDestination is a set of servers that share a route.
type RelayDestination struct {
	Destination string          `json:"destination"`        // server:port or prefix:port
	Server      netip.AddrPort  `json:"server"`             // the measured address
	Fixed       bool            `json:"fixed,omitempty"`    // an entry names it
	Up          bool            `json:"up"`                 // it has answered this relay or a peer
	RTT         time.Duration   `json:"rtt_ns,omitempty"`   // from this relay; 0: no answer
	Chosen      bool            `json:"chosen"`             // there is a route; otherwise flows use that of a neighbour, or a fallback
	Via         []string        `json:"via,omitempty"`      // relays after this one; none: directly
	Instead     [][]string      `json:"instead,omitempty"`  // alternatives while that route is unreachable, best first
	Takes       time.Duration   `json:"takes_ns,omitempty"` // estimated for 1 MB from this relay on
	Why         string          `json:"why,omitempty"`      // reason for the route
	Since       time.Time       `json:"since,omitzero"`     // of the route
	Measured    time.Time       `json:"measured,omitzero"`  // this relay's last measurement
	Due         time.Time       `json:"due,omitzero"`       // its next one, at the earliest
	LastUsed    time.Time       `json:"last_used,omitzero"` // by a flow, accurate to a second
	Relays      []RelayDistance `json:"relays"`             // from each relay, this one first
}

// RelayDistance is the distance of a relay from a server.
type RelayDistance struct {
	Relay string        `json:"relay"`
	RTT   time.Duration `json:"rtt_ns,omitempty"` // 0: unknown
	Why   string        `json:"why,omitempty"`    // why it is unknown, "" before the first measurement
	Down  bool          `json:"down,omitempty"`   // no trunk to the relay can be opened
}

// RelayChoice summarises the chosen routes.
type RelayChoice struct {
	Destinations int                `json:"destinations"` // in use
	Chosen       int                `json:"chosen"`       // those with a route
	Changes      uint64             `json:"changes"`      // of routes, including first ones
	Probes       uint64             `json:"probes"`       // sent from here, or by peers on request
	Latest       []RelayDestination `json:"latest"`       // the most recently used
}
