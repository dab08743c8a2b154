package api

import (
	"net/netip"
	"time"
)

// RelayDistances are what a relay knows of how far its peers and servers are. Servers are those that entries with `via: auto` name, and those
// that flows of such entries have asked for lately.
type RelayDistances struct {
	Relay        string              `json:"relay"`
	Cloud        string              `json:"cloud,omitempty"`
	Peers        []RelayPeerDistance `json:"peers"`        // in the order of the configuration
	Destinations []RelayDestination  `json:"destinations"` // in the order of their addresses
}

// RelayPeerDistance is how far a peer is from the relay.
type RelayPeerDistance struct {
	Name    string         `json:"name"`
	Address netip.AddrPort `json:"address"`
	Cloud   string         `json:"cloud,omitempty"`
	Up      bool           `json:"up"`               // trunks to it can be had, or nobody has tried
	RTT     time.Duration  `json:"rtt_ns,omitempty"` // 0: it is not known
}

// RelayDestination is servers that flows are sent to by one way.
type RelayDestination struct {
	Destination string          `json:"destination"`        // server:port or prefix:port
	Server      netip.AddrPort  `json:"server"`             // that is measured
	Fixed       bool            `json:"fixed,omitempty"`    // an entry names it
	Up          bool            `json:"up"`                 // it has answered this relay or a peer
	RTT         time.Duration   `json:"rtt_ns,omitempty"`   // from this relay; 0: no answer
	Chosen      bool            `json:"chosen"`             // there is a way; otherwise flows go by that of a neighbour, or as can be
	Via         []string        `json:"via,omitempty"`      // relays behind this one; none: directly
	Instead     [][]string      `json:"instead,omitempty"`  // when that way cannot be had, the best first
	Takes       time.Duration   `json:"takes_ns,omitempty"` // 1 MB from this relay on, estimated
	Why         string          `json:"why,omitempty"`      // this way
	Since       time.Time       `json:"since,omitzero"`     // of this way
	Measured    time.Time       `json:"measured,omitzero"`  // when this relay last did
	Due         time.Time       `json:"due,omitzero"`       // when it will again, at the earliest
	LastUsed    time.Time       `json:"last_used,omitzero"` // when a flow last did, to about a second
	Relays      []RelayDistance `json:"relays"`             // from each, this one first
}

// RelayDistance is how far a relay is from a server.
type RelayDistance struct {
	Relay string        `json:"relay"`
	RTT   time.Duration `json:"rtt_ns,omitempty"` // 0: it is not known
	Why   string        `json:"why,omitempty"`    // it is not, "" if nobody has measured
	Down  bool          `json:"down,omitempty"`   // no trunk to the relay can be had
}

// RelayChoice is how a relay's own choices are.
type RelayChoice struct {
	Destinations int                `json:"destinations"` // that are measured
	Chosen       int                `json:"chosen"`       // of them, those that have a way
	Changes      uint64             `json:"changes"`      // of ways, the first ones among them
	Probes       uint64             `json:"probes"`       // sent from here, or asked of peers
	Latest       []RelayDestination `json:"latest"`       // that were asked for last
}
