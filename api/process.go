// Package api is the one schema between Baton's daemons, the command line and the dashboard: HTTP with JSON over a unix
// socket. Types are the messages; Handler serves them from a Backend, Client asks for them, Listen makes the socket.
//
// Every part answers, each on its own socket,
//
//	GET  /v1/status    Process
//	GET  /v1/counters  []Counter
//	POST /v1/reload    ReloadResult
//
// and under its own name what it alone knows:
//
//	GET  /v1/router            RouterStatus
//	GET  /v1/router/sessions   a RouterSession a line, as they are found
//	GET  /v1/router/explain    RouterExplanation; query: url, and optionally method, client, header (repeated, "Name: value")
//	POST /v1/router/drain      RouterDrainRequest → RouterDrainResult
//	GET  /v1/forwarder         ForwarderStatus
//	POST /v1/forwarder/trace   ForwarderTraceRequest → ForwarderTrace
//	GET  /v1/relay             RelayStatus
//	GET  /v1/relay/flows       a RelayFlow a line, as they are found
//	POST /v1/relay/plan        RelayPlanRequest → RelayPlan
//	GET  /v1/relay/distances   RelayDistances
//	POST /v1/relay/stop        RelayStopResult
//	GET  /v1/balance           BalanceStatus
//	GET  /v1/anycast           AnycastStatus
//	POST /v1/anycast/instruction     AnycastInstruction → AnycastStatus
//	GET  /v1/purge             PurgeStatus
//
// An error is answered with its HTTP status and {"error": "…"}. Names are added to, never renamed; a reader ignores what
// it does not know.
package api

import "time"

// Process is what every part's status begins with.
type Process struct {
	Part    string    `json:"part"`           // router, forwarder, relay, balance, anycast or purge
	Name    string    `json:"name,omitempty"` // of this one, as in its configuration
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Kernel  string    `json:"kernel"`
	Config  string    `json:"config"` // file
	Loaded  time.Time `json:"loaded"` // when the configuration in force was read

	Reloads       uint64 `json:"reloads"`        // that were put in force
	ReloadsFailed uint64 `json:"reloads_failed"` // that were refused
}

func (p Process) process() Process { return p }

// Usage is how much of something is used.
type Usage struct {
	Used  int `json:"used"`
	Limit int `json:"limit"`
}

// Feature is something of the kernel that a part probes for.
type Feature struct {
	Name   string `json:"name"`
	Used   bool   `json:"used"`
	Reason string `json:"reason,omitempty"` // why not
}

// Counter is one of a daemon's or its data path's numbers.
type Counter struct {
	Name   string            `json:"name"`
	Help   string            `json:"help,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Value  uint64            `json:"value"`
}

// ReloadResult is how things are after a reload.
type ReloadResult struct {
	Config  string   `json:"config"`
	Changed []string `json:"changed"` // a line for each thing that is different now
}
