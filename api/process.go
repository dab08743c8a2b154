// Package api is the schema between Baton's daemons, the command line and the dashboard: HTTP with JSON over a unix
// socket. Types are the messages; Handler serves them from a Backend, Client requests them, Listen creates the socket.
//
// Every part serves, each on its own socket,
//
//	GET  /v1/status    Process
//	GET  /v1/counters  []Counter
//	POST /v1/reload    ReloadResult
//
// and under its own name:
//
//	GET  /v1/router            RouterStatus
//	GET  /v1/router/sessions   RouterSession, one per line, as they are found
//	     ?client=192.0.2.0/24&surrogate=s1&limit=100
//	GET  /v1/router/sessions/count  RouterSessionCount, with the same query
//	GET  /v1/router/explain    RouterExplanation; query: url, and optionally method, client, header (repeated, "Name: value")
//	GET  /v1/router/decisions  []RoutingDecision, the newest first
//	POST /v1/router/backend    RouterBackendChange → RouterBackendResult
//	POST /v1/router/drain      RouterDrainRequest → RouterDrainResult
//	GET  /v1/forwarder         ForwarderStatus
//	POST /v1/forwarder/trace   ForwarderTraceRequest → ForwarderTrace
//	GET  /v1/relay             RelayStatus
//	GET  /v1/relay/flows       RelayFlow, one per line, as they are found
//	POST /v1/relay/plan        RelayPlanRequest → RelayPlan
//	GET  /v1/relay/distances   RelayDistances
//	POST /v1/relay/stop        RelayStopResult
//	GET  /v1/balance           BalanceStatus
//	GET  /v1/anycast           AnycastStatus
//	POST /v1/anycast/instruction     AnycastInstruction → AnycastStatus
//	GET  /v1/purge             PurgeStatus
//	GET  /v1/nameserver            NameserverStatus
//	GET  /v1/nameserver/query      NameserverExplanation; query: name, and optionally type, client (a prefix), dnssec
//	GET  /v1/nameserver/decisions  []RoutingDecision, the newest first
//	POST /v1/nameserver/surrogate  NameserverChange → NameserverSurrogate
//	GET  /v1/controller            ControllerStatus
//	GET  /v1/controller/topology   ControllerTopology
//
// The answer for an error is its HTTP status and {"error": "…"}. Names may be added but are never renamed; clients ignore unknown
// ones.
package api

import "time"

// Process is the common part of every status.
type Process struct {
	Part    string    `json:"part"`           // router, forwarder, relay, balance, anycast, purge, nameserver or controller
	Name    string    `json:"name,omitempty"` // from its configuration
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Kernel  string    `json:"kernel"`
	Config  string    `json:"config"` // file
	Loaded  time.Time `json:"loaded"` // when the current configuration was read

	Reloads       uint64 `json:"reloads"`        // accepted
	ReloadsFailed uint64 `json:"reloads_failed"` // refused
}

func (p Process) process() Process { return p }

// Usage is how much of a limit is used.
type Usage struct {
	Used  int `json:"used"`
	Limit int `json:"limit"`
}

// Feature is a kernel feature that a part probes for.
type Feature struct {
	Name   string `json:"name"`
	Used   bool   `json:"used"`
	Reason string `json:"reason,omitempty"` // why not
}

// Counter is a number of a daemon or its data path.
type Counter struct {
	Name   string            `json:"name"`
	Help   string            `json:"help,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Value  uint64            `json:"value"`
}

// ReloadResult is the result of a reload.
type ReloadResult struct {
	Config  string   `json:"config"`
	Changed []string `json:"changed"` // a line for each change
}
