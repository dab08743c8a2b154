package api

import (
	"net/netip"
	"time"
)

// ControllerTopology is the network as a controller knows it.
type ControllerTopology struct {
	Switches []ControllerSwitch `json:"switches"`
	Links    []ControllerLink   `json:"links"`
	Hosts    []ControllerHost   `json:"hosts"`
}

// ControllerSwitch is an OpenFlow switch.
type ControllerSwitch struct {
	ID     string           `json:"id"`   // datapath id, 16 hexadecimal digits
	Name   string           `json:"name"` // from the configuration, else the id
	Maker  string           `json:"maker,omitempty"`
	Core   bool             `json:"core"` // has the actions that join two sessions
	Role   string           `json:"role"` // of this controller: equal, master or slave
	Up     bool             `json:"up"`
	Since  time.Time        `json:"since"` // of up
	Remote string           `json:"remote,omitempty"`
	Flows  int              `json:"flows"` // flow entries of this controller
	Ports  []ControllerPort `json:"ports"`
}

// ControllerPort is a port of a switch.
type ControllerPort struct {
	Number uint32 `json:"number"`
	Name   string `json:"name"`
	MAC    string `json:"mac"`
	Up     bool   `json:"up"`
	Faces  string `json:"faces"` // switch, host or nothing
}

// ControllerPoint is where something is attached.
type ControllerPoint struct {
	Switch string `json:"switch"` // id
	Port   uint32 `json:"port"`
}

// ControllerLink is one direction of a link between two switches.
type ControllerLink struct {
	From  ControllerPoint `json:"from"`
	To    ControllerPoint `json:"to"`
	Since time.Time       `json:"since"`
}

// ControllerHost is a host that a controller has learnt.
type ControllerHost struct {
	Name      string          `json:"name,omitempty"`
	Kind      string          `json:"kind"` // client, router or surrogate
	MAC       string          `json:"mac"`
	Addresses []netip.Addr    `json:"addresses"`
	At        ControllerPoint `json:"at"`
	Seen      time.Time       `json:"seen"`
}

// ControllerSessionState is the state of a session that a controller tracks.
type ControllerSessionState string

// The states of a session.
const (
	ControllerHandshake   ControllerSessionState = "handshake"   // the client's SYN was seen
	ControllerEstablished ControllerSessionState = "established" // with the request router
	ControllerRequested   ControllerSessionState = "requested"   // the request router has read a request
	ControllerHandedOff   ControllerSessionState = "handed-off"  // client and surrogate speak to each other
	ControllerClosed      ControllerSessionState = "closed"
)

// ControllerSession is a client's session with a service.
type ControllerSession struct {
	Client    netip.AddrPort         `json:"client"`
	Service   netip.AddrPort         `json:"service"`
	State     ControllerSessionState `json:"state"`
	Since     time.Time              `json:"since"` // the client's SYN
	Surrogate string                 `json:"surrogate,omitempty"`
	Leg       RouterLeg              `json:"leg,omitzero"`
	Handoff   uint64                 `json:"handoff,omitempty"` // its number; 0: none
}

// ControllerHandoff is a handoff, with its steps.
type ControllerHandoff struct {
	ID        uint64           `json:"id"`
	Client    netip.AddrPort   `json:"client"`
	Service   netip.AddrPort   `json:"service"`
	Leg       RouterLeg        `json:"leg"`
	Surrogate string           `json:"surrogate"`
	Request   string           `json:"request,omitempty"` // "GET /path"
	Began     time.Time        `json:"began"`
	Took      time.Duration    `json:"took_ns,omitempty"` // until the request was sent to the surrogate
	Failure   string           `json:"failure,omitempty"`
	Steps     []ControllerStep `json:"steps"`
}

// ControllerStep is an arrow of a handoff's sequence diagram.
type ControllerStep struct {
	At    time.Duration `json:"at_ns"` // since the beginning
	Kind  string        `json:"kind"`  // packet, call, flow-mod, barrier or packet-out
	From  string        `json:"from"`  // client, access, core, controller, router or surrogate
	To    string        `json:"to"`
	Label string        `json:"label"` // "SYN", "setrequestsize 78", "flow mod 2"
}

// The states of a surrogate in the hands of its operators, for controllers and name servers.
const (
	InService   = "in-service"
	Maintenance = "maintenance" // no new sessions
)

// ControllerSurrogate is a surrogate and its state.
type ControllerSurrogate struct {
	Name     string         `json:"name"`
	Site     string         `json:"site,omitempty"`
	Address  netip.AddrPort `json:"address"`
	Up       bool           `json:"up"`
	Error    string         `json:"error,omitempty"` // why it is not up
	State    string         `json:"state"`           // InService or Maintenance
	Weight   int            `json:"weight"`
	Sessions int            `json:"sessions"`
	Handoffs uint64         `json:"handoffs"`
	Legs     int            `json:"legs"` // idle, of all request routers
	Rate     float64        `json:"rate"` // handoffs a second, of the last ten seconds
}

// RoutingDecision says which surrogate a client got, and why.
type RoutingDecision struct {
	Time      time.Time  `json:"time"`
	Method    string     `json:"method"` // handoff, redirect or dns
	Client    netip.Addr `json:"client"`
	Name      string     `json:"name"` // the host, or the name in DNS
	Path      string     `json:"path,omitempty"`
	Site      string     `json:"site,omitempty"`
	Surrogate string     `json:"surrogate,omitempty"` // "": none
	Because   []string   `json:"because"`             // the steps of the decision, in order
}

// ControllerSurrogateChange is what an operator changes of a surrogate; nil fields stay.
type ControllerSurrogateChange struct {
	Weight *int    `json:"weight,omitempty"`
	State  *string `json:"state,omitempty"`
}
