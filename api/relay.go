package api

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/netip"
	"time"
)

// RelayStatus is a relay at a glance. Counters are since its start.
type RelayStatus struct {
	Process

	Features []Feature `json:"features"`
	Cloud    string    `json:"cloud,omitempty"`
	Stopping bool      `json:"stopping,omitempty"` // it accepts no new flows, and ends with the last one

	Flows   Usage         `json:"flows"` // including probes
	Workers []RelayWorker `json:"workers"`
	Entries []RelayEntry  `json:"entries"`          // in the order of the configuration; then removed ones that have flows
	Trunks  *RelayTrunks  `json:"trunks,omitempty"` // accepted from other relays; nil: none are
	Peers   []RelayPeer   `json:"peers"`            // in the order of the configuration
	Choice  *RelayChoice  `json:"choice,omitempty"` // nil: no entry has via: auto

	Packets map[string]uint64 `json:"packets,omitempty"` // at the entries' interfaces, by verdict; empty without programs in the kernel
	Starts  []RelayStart      `json:"starts,omitempty"`  // initial windows of trunks; empty likewise
}

// RelayWorker is an event loop of a relay.
type RelayWorker struct {
	Worker           int               `json:"worker"`
	Live             int               `json:"live"`  // flows and probes
	Flows            uint64            `json:"flows"` // started
	Early            uint64            `json:"early"` // started by a SYN
	Probes           uint64            `json:"probes"`
	Rerouted         uint64            `json:"rerouted"` // flows sent by another route because relays did not reach their server
	Refused          map[string]uint64 `json:"refused"`  // flows whose server was unavailable, by status
	Expired          map[string]uint64 `json:"expired"`  // flows and trunks that timed out, by what they waited for
	Copied           uint64            `json:"copied"`   // bytes
	Spliced          uint64            `json:"spliced"`  // bytes
	Pipes            int               `json:"pipes"`
	WithoutPipe      uint64            `json:"without_pipe"`       // splices replaced by copies for lack of a pipe
	Full             uint64            `json:"full"`               // times that accepting was suspended
	BadClientHeaders uint64            `json:"bad_client_headers"` // PROXY, SOCKS5 or CONNECT, at entries
	BadTrunkHeaders  uint64            `json:"bad_trunk_headers"`  // of incoming trunks
	BadHandshakes    uint64            `json:"bad_handshakes"`     // of incoming TLS trunks
}

// RelayEntry is an entry.
type RelayEntry struct {
	Name          string         `json:"name"`
	Open          bool           `json:"open"` // all workers listen
	Listen        netip.AddrPort `json:"listen,omitzero"`
	Mode          string         `json:"mode,omitempty"` // as in the configuration; "": the entry was removed
	Destination   netip.AddrPort `json:"destination,omitzero"`
	Via           []string       `json:"via,omitempty"`
	Auto          bool           `json:"auto,omitempty"` // via: auto
	EarlySYN      string         `json:"early_syn,omitempty"`
	ClientAddress string         `json:"client_address,omitempty"`
	Live          int            `json:"live"`  // flows
	Flows         uint64         `json:"flows"` // started
}

// RelayTrunks is the listener for other relays' trunks.
type RelayTrunks struct {
	Listen   []netip.AddrPort `json:"listen"`
	Open     bool             `json:"open"` // all workers listen
	Security string           `json:"security"`
	Waiting  Usage            `json:"waiting"` // idle trunks
	Live     int              `json:"live"`    // flows
	Flows    uint64           `json:"flows"`   // started
}

// RelayPeer is a relay to open trunks to.
type RelayPeer struct {
	Name     string         `json:"name"`
	Address  netip.AddrPort `json:"address"`
	Cloud    string         `json:"cloud,omitempty"`
	Security string         `json:"security"`
	RTT      time.Duration  `json:"rtt_ns,omitempty"` // the minimum over workers, of their last trunk's handshake; 0: none
	Down     bool           `json:"down"`             // all workers failed in their last attempt to open a trunk
	Failure  string         `json:"failure,omitempty"`
	Failed   time.Time      `json:"failed,omitzero"` // when it failed

	Ready    int    `json:"ready"`    // trunks
	Opening  int    `json:"opening"`  // trunks
	Waiting  int    `json:"waiting"`  // flows that wait for a trunk
	Opened   uint64 `json:"opened"`   // trunks
	Taken    uint64 `json:"taken"`    // flows that found a ready trunk
	Missed   uint64 `json:"missed"`   // flows that had to wait for one
	Stale    uint64 `json:"stale"`    // ready ones that the peer closed
	Unopened uint64 `json:"unopened"` // failed attempts
	Broken   uint64 `json:"broken"`   // before an answer
	Replayed uint64 `json:"replayed"` // flows moved to another trunk after that
}

// RelayStart is the initial window of the trunks on one path.
type RelayStart struct {
	Trunks        string         `json:"trunks"`           // to: opened to a peer; at: accepted at an address; from: accepted from an address
	Address       netip.AddrPort `json:"address"`          // port 0: any
	Window        int            `json:"window,omitempty"` // segments; 0: the system's
	Established   uint64         `json:"established"`      // trunks
	Flights       uint64         `json:"flights"`          // completed first flights
	Sent          uint64         `json:"sent"`             // their segments
	Retransmitted uint64         `json:"retransmitted"`    // segments
	Refused       uint64         `json:"refused"`          // settings that the kernel rejected
}

// RelayFlow is a flow.
type RelayFlow struct {
	Client     netip.AddrPort `json:"client"`           // who opened it, possibly at another relay
	Server     netip.AddrPort `json:"server,omitzero"`  // possibly behind other relays; not valid: not known yet
	ID         string         `json:"id,omitempty"`     // 32 hexadecimal digits, the same on all relays of its route; "": this is the only one
	Entry      string         `json:"entry,omitempty"`  // "": it came by a trunk
	Passed     []string       `json:"passed,omitempty"` // relays before this one
	Via        []string       `json:"via,omitempty"`    // relays after this one
	Probe      bool           `json:"probe,omitempty"`  // no flow: a distance is measured
	Stage      string         `json:"stage"`            // header, connecting, moving, ending or refused
	Worker     int            `json:"worker"`
	Since      time.Time      `json:"since"`
	IdleFor    time.Duration  `json:"idle_ns"`     // since bytes moved
	FromClient uint64         `json:"from_client"` // bytes
	FromServer uint64         `json:"from_server"` // bytes
}

// RelayStopResult is the state when a relay starts to stop.
type RelayStopResult struct {
	Flows  int           `json:"flows"`      // that remain
	AtMost time.Duration `json:"at_most_ns"` // until the remaining ones are reset
}

// RelayBackend is the interface of a relay to the control socket.
type RelayBackend struct {
	Status    func(ctx context.Context) (RelayStatus, error)
	Plan      func(ctx context.Context, r RelayPlanRequest) (RelayPlan, error)
	Distances func(ctx context.Context) (RelayDistances, error)
	// Stop makes the relay end with its last flow.
	Stop func(ctx context.Context) (RelayStopResult, error)
	// Flows calls yield for each flow, until it returns false: the client is gone.
	Flows func(ctx context.Context, yield func(RelayFlow) bool) error
}

func (RelayBackend) name() string { return "relay" }

func (b RelayBackend) handle(mux *http.ServeMux) {
	handleStatus(mux, b.name(), b.Status)
	mux.HandleFunc("GET /v1/relay/flows", func(w http.ResponseWriter, r *http.Request) {
		serveLines(w, r, b.Flows)
	})
	mux.HandleFunc("POST /v1/relay/plan", func(w http.ResponseWriter, r *http.Request) {
		q, err := parsePlan(w, r)
		serveOne(w, r, with(b.Plan, q, err))
	})
	mux.HandleFunc("GET /v1/relay/distances", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Distances)
	})
	mux.HandleFunc("POST /v1/relay/stop", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Stop)
	})
}

func parsePlan(w http.ResponseWriter, r *http.Request) (RelayPlanRequest, error) {
	q, err := parseBody[RelayPlanRequest](w, r)
	switch {
	case err != nil:
	case !q.Client.IsValid() || !q.Server.IsValid():
		err = fmt.Errorf("%w: client and server are needed", ErrInvalid)
	}
	return q, err
}

// Relay returns the relay's status.
func (c *Client) Relay(ctx context.Context) (RelayStatus, error) {
	return ask[RelayStatus](ctx, c, http.MethodGet, "/v1/relay", nil)
}

// RelayFlows yields the flows of a relay, and errors as [Client.RouterSessions] does.
func (c *Client) RelayFlows(ctx context.Context) iter.Seq2[RelayFlow, error] {
	return lines[RelayFlow](ctx, c, "/v1/relay/flows")
}

// RelayPlan returns the relays that flows should pass. The error is ErrInvalid for an invalid request.
func (c *Client) RelayPlan(ctx context.Context, r RelayPlanRequest) (RelayPlan, error) {
	return ask[RelayPlan](ctx, c, http.MethodPost, "/v1/relay/plan", r)
}

// RelayDistances returns the distances of peers and servers from the relay.
func (c *Client) RelayDistances(ctx context.Context) (RelayDistances, error) {
	return ask[RelayDistances](ctx, c, http.MethodGet, "/v1/relay/distances", nil)
}

// RelayStop makes the relay refuse new flows, and end with the last one.
func (c *Client) RelayStop(ctx context.Context) (RelayStopResult, error) {
	return ask[RelayStopResult](ctx, c, http.MethodPost, "/v1/relay/stop", nil)
}
