// Package api is the one schema between Baton's daemons, the command line and the dashboard: HTTP with JSON over a unix
// socket. Types are the messages; Handler serves them from a Backend, Client asks for them, Listen makes the socket.
//
//	GET  /v1/status       Status
//	GET  /v1/sessions     a Session a line, as they are found
//	GET  /v1/counters     []Counter
//	GET  /v1/explain      Explanation; query: url, and optionally method, client, header (repeated, "Name: value")
//	POST /v1/drain        DrainRequest → DrainResult
//	POST /v1/reload       ReloadResult
//	GET  /v1/forwarder    ForwarderStatus
//	POST /v1/trace        TraceRequest → Trace
//	GET  /v1/relay        RelayStatus
//	GET  /v1/flows        a Flow a line, as they are found
//	POST /v1/relay/drain  RelayDrainResult
//	POST /v1/plan         PlanRequest → Plan
//	GET  /v1/anycast      AnycastStatus
//	POST /v1/anycast/order  AnycastOrder → AnycastStatus
//
// An error is answered with its HTTP status and {"error": "…"}. Names are added to, never renamed; a reader ignores what
// it does not know.
package api

import (
	"net/netip"
	"time"
)

// SessionState is where a session is in its life.
type SessionState string

// The states of a session.
const (
	SessionPending SessionState = "pending" // the client's request is not decided yet
	SessionSpliced SessionState = "spliced"
	SessionClosing SessionState = "closing" // FIN seen from one or both ends
)

// Session is a client's TCP session with a VIP.
type Session struct {
	Client    netip.AddrPort `json:"client"`
	VIP       netip.AddrPort `json:"vip"`
	Surrogate string         `json:"surrogate,omitempty"` // "" while pending
	Leg       Leg            `json:"leg,omitzero"`
	State     SessionState   `json:"state"`
	Since     time.Time      `json:"since"`    // the client's SYN
	IdleFor   time.Duration  `json:"idle_ns"`  // since the last packet, either way
	Received  uint64         `json:"received"` // octets of TCP payload from the client, retransmissions included
	Sent      uint64         `json:"sent"`     // octets of TCP payload to the client, retransmissions included
	Requests  uint64         `json:"requests"` // decided on this session
}

// Leg is the server leg that a session is spliced onto.
type Leg struct {
	Local  netip.AddrPort `json:"local"`  // the router's end
	Remote netip.AddrPort `json:"remote"` // the surrogate
}

// Status is the router at a glance.
type Status struct {
	Version    string      `json:"version"`
	PID        int         `json:"pid"`
	Started    time.Time   `json:"started"`
	Config     string      `json:"config"` // file
	Loaded     time.Time   `json:"loaded"` // when the configuration in force was read
	Kernel     string      `json:"kernel"`
	Features   []Feature   `json:"features"`
	Interfaces []Interface `json:"interfaces"`
	VIPs       []VIP       `json:"vips"`
	Pools      []Pool      `json:"pools"`
	Sessions   int         `json:"sessions"` // spliced or pending
	Limit      int         `json:"limit"`    // of sessions and idle legs together
}

// Feature is something of the kernel that the router probes for.
type Feature struct {
	Name   string `json:"name"`
	Used   bool   `json:"used"`
	Reason string `json:"reason,omitempty"` // why not
}

// Interface is one that the data path is on.
type Interface struct {
	Name     string `json:"name"`
	Attached bool   `json:"attached"`
	Reason   string `json:"reason,omitempty"` // why not
}

// VIP is an address that clients connect to.
type VIP struct {
	Address    netip.AddrPort `json:"address"`
	Mode       string         `json:"mode"` // handoff, redirect or proxy
	Routes     int            `json:"routes"`
	Pipelining string         `json:"pipelining,omitempty"` // in mode handoff: hold or pass
}

// Pool is a set of surrogates.
type Pool struct {
	Name       string      `json:"name"`
	Policy     string      `json:"policy"`
	Reuse      string      `json:"reuse"` // of legs: always, safe or never
	Surrogates []Surrogate `json:"surrogates"`
}

// Surrogate is a server with what the router knows of it.
type Surrogate struct {
	Name      string         `json:"name"`
	Address   netip.AddrPort `json:"address"`
	Weight    int            `json:"weight"`
	Phase     string         `json:"phase"` // checking, up or down
	Up        bool           `json:"up"`
	Draining  bool           `json:"draining"`
	Since     time.Time      `json:"since"` // of the phase
	LastError string         `json:"last_error,omitempty"`
	Proxied   string         `json:"proxied,omitempty"` // why it cannot be spliced, "" when it can
	Sessions  int            `json:"sessions"`
	IdleLegs  int            `json:"idle_legs"`
}

// Counter is one of a daemon's or its data path's numbers.
type Counter struct {
	Name   string            `json:"name"`
	Help   string            `json:"help,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Value  uint64            `json:"value"`
}

// DrainRequest takes a surrogate out, or back in.
type DrainRequest struct {
	Surrogate string `json:"surrogate"`
	Undo      bool   `json:"undo,omitempty"`
}

// DrainResult is how things are after a DrainRequest.
type DrainResult struct {
	Surrogate string `json:"surrogate"`
	Draining  bool   `json:"draining"`
	Sessions  int    `json:"sessions"` // that it still serves
}

// ReloadResult is how things are after a reload.
type ReloadResult struct {
	Config  string   `json:"config"`
	Changed []string `json:"changed"` // a line for each thing that is different now
}

// Question is a request whose decision is to be explained.
type Question struct {
	URL     string     // http://host[:port]/path; the VIP is found by Host, or is named by an address
	Method  string     // "" for GET
	Client  netip.Addr // the zero Addr for none
	Headers []Header
}

// Header is a field of a Question's request.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Explanation is a decision with its reasons.
type Explanation struct {
	VIP        netip.AddrPort `json:"vip"`
	Mode       string         `json:"mode"`
	Line       int            `json:"line,omitempty"` // of the route in the configuration file
	Pool       string         `json:"pool,omitempty"`
	Policy     string         `json:"policy,omitempty"`
	Surrogate  string         `json:"surrogate,omitempty"`
	Address    netip.AddrPort `json:"address,omitzero"`
	Where      string         `json:"where,omitempty"`  // kernel, router or proxy: who decides
	Status     int            `json:"status,omitempty"` // when the router itself answers
	Steps      []string       `json:"steps"`            // a line for each thing that was looked at, in order
	Candidates []Candidate    `json:"candidates,omitempty"`
}

// Candidate is a surrogate of the pool that an Explanation chose from.
type Candidate struct {
	Surrogate string `json:"surrogate"`
	Usable    bool   `json:"usable"`
	Reason    string `json:"reason,omitempty"` // why not, or why it was preferred
}
