package api

import (
	"context"
	"net/http"
	"time"
)

// AnycastStatus is the status of a baton anycast process: a site, a planner or both.
type AnycastStatus struct {
	Process

	Site    *AnycastSite    `json:"site,omitempty"`
	Planner *AnycastPlanner `json:"planner,omitempty"`
}

// AnycastSite is what a site announces, and why.
type AnycastSite struct {
	Prefixes  []string       `json:"prefixes"`
	Levels    []AnycastLevel `json:"levels"` // the ladder
	Level     string         `json:"level"`
	Since     time.Time      `json:"since"` // of the level
	Reason    string         `json:"reason"`
	Want      string         `json:"want,omitempty"` // the level that it waits for
	Held      string         `json:"held,omitempty"` // why it waits
	HeldUntil time.Time      `json:"held_until,omitzero"`
	Changes   uint64         `json:"changes"`         // of the level
	Penalty   float64        `json:"penalty"`         // as counted by routers with route flap damping
	Budget    float64        `json:"budget"`          // largest penalty that the site's own choices may cause; 0: no bound
	Fault     string         `json:"fault,omitempty"` // why nothing is advertised to the routers

	Health      string             `json:"health"` // up, down or unknown
	Cause       string             `json:"cause,omitempty"`
	Checks      []AnycastCheck     `json:"checks"`
	Load        *float64           `json:"load,omitempty"` // share of the capacity; nil: unknown
	Loads       []AnycastLoad      `json:"loads"`
	Instruction AnycastInstruction `json:"instruction,omitzero"`
	Proposal    *AnycastProposal   `json:"proposal,omitempty"` // nil: no planner, or no proposal yet
	Peers       []AnycastPeer      `json:"peers"`
	Others      []AnycastNeighbor  `json:"others"`
}

// AnycastLevel is a step of a ladder.
type AnycastLevel struct {
	Name            string   `json:"name"`
	Withdrawn       bool     `json:"withdrawn,omitempty"`
	MED             uint32   `json:"med,omitempty"`
	Prepend         int      `json:"prepend,omitempty"`
	LocalPreference *uint32  `json:"local_preference,omitempty"`
	Communities     []string `json:"communities,omitempty"`
	Enter           float64  `json:"enter,omitempty"` // loads, as shares of the capacity
	Leave           float64  `json:"leave,omitempty"`
}

// AnycastCheck is the result of a site's check.
type AnycastCheck struct {
	Name   string    `json:"name"`
	Health string    `json:"health"`
	Last   string    `json:"last,omitempty"` // the last failure; "": the last check succeeded
	At     time.Time `json:"at,omitzero"`
}

// AnycastLoad is a measurement of a site's load.
type AnycastLoad struct {
	Name  string    `json:"name"`
	Share *float64  `json:"share,omitempty"` // of the capacity; nil: none measured yet
	At    time.Time `json:"at,omitzero"`
	Error string    `json:"error,omitempty"` // why there is no later one
}

// AnycastProposal is the last proposal from the site's planner.
type AnycastProposal struct {
	Planner string    `json:"planner"`
	Level   string    `json:"level"`
	At      time.Time `json:"at"`
	Fresh   bool      `json:"fresh"` // not stale: the site uses it
}

// AnycastPeer is the session with a router.
type AnycastPeer struct {
	Name    string    `json:"name"`
	Address string    `json:"address"`
	AS      uint32    `json:"as"`
	State   string    `json:"state"` // RFC 4271, section 8.2.2
	Since   time.Time `json:"since"`
	Ups     int       `json:"ups"`            // how often it was established
	Last    string    `json:"last,omitempty"` // why it last ended
}

// AnycastNeighbor is the last known state of another site.
type AnycastNeighbor struct {
	Name     string    `json:"name"`
	Alive    bool      `json:"alive"` // known to be up and to announce
	Level    string    `json:"level,omitempty"`
	Health   string    `json:"health,omitempty"`
	Load     *float64  `json:"load,omitempty"`
	At       time.Time `json:"at,omitzero"`        // of its last report
	Error    string    `json:"error,omitempty"`    // why there is no later one
	Proposal string    `json:"proposal,omitempty"` // level that the planner proposes to it
}

// AnycastPlanner is the state of a planner.
type AnycastPlanner struct {
	Sites      []AnycastNeighbor `json:"sites"`
	Moved      time.Time         `json:"moved,omitzero"` // when it last changed something
	Because    string            `json:"because"`        // reason for the current state
	Map        []AnycastIngress  `json:"map,omitempty"`  // of a static map
	Overload   float64           `json:"overload"`       // bytes per second above capacities that the target leaves
	Exact      bool              `json:"exact"`          // no better target exists
	Next       []AnycastMove     `json:"next,omitempty"` // remaining steps, in order
	Forwarders []string          `json:"forwarders"`     // datapath ids that are connected
}

// AnycastIngress is an ingress point of a static map.
type AnycastIngress struct {
	Name   string  `json:"name"`
	Site   string  `json:"site,omitempty"`   // "": to none
	Target string  `json:"target,omitempty"` // site to move to
	Demand float64 `json:"demand"`           // bytes per second
}

// AnycastMove is a part of a step.
type AnycastMove struct {
	Step    int    `json:"step"` // from 1
	Ingress string `json:"ingress"`
	From    string `json:"from,omitempty"`
	To      string `json:"to"`
}

// AnycastInstruction is an operator's. It stays in force until the instruction none revokes it.
type AnycastInstruction struct {
	Kind  string    `json:"instruction"`     // drain, maintenance, level or none
	Site  string    `json:"site,omitempty"`  // "": the process's own
	Level string    `json:"level,omitempty"` // of the instruction level
	Force bool      `json:"force,omitempty"` // for the last site known to be up, too
	At    time.Time `json:"at,omitzero"`     // when it was given
}

// AnycastBackend serves the requests to a site or a planner.
type AnycastBackend struct {
	Status func(ctx context.Context) (AnycastStatus, error)
	// Instruct carries out an operator's instruction.
	Instruct func(ctx context.Context, o AnycastInstruction) (AnycastStatus, error)
}

func (AnycastBackend) name() string { return "anycast" }

func (b AnycastBackend) handle(mux *http.ServeMux) {
	handleStatus(mux, b.name(), b.Status)
	mux.HandleFunc("POST /v1/anycast/instruction", func(w http.ResponseWriter, r *http.Request) {
		o, err := parseBody[AnycastInstruction](w, r)
		serveOne(w, r, with(b.Instruct, o, err))
	})
}

// Anycast returns the status of the process.
func (c *Client) Anycast(ctx context.Context) (AnycastStatus, error) {
	return ask[AnycastStatus](ctx, c, http.MethodGet, "/v1/anycast", nil)
}

// AnycastInstruct gives a site an instruction, and returns the state of the process after it. The error is ErrNotFound for an unknown site, ErrInvalid for
// an unknown level or instruction, ErrConflict for what the site refuses.
func (c *Client) AnycastInstruct(ctx context.Context, o AnycastInstruction) (AnycastStatus, error) {
	return ask[AnycastStatus](ctx, c, http.MethodPost, "/v1/anycast/instruction", o)
}
