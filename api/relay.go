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
	Stopping bool      `json:"stopping,omitempty"` // it takes no new flows, and ends with the last one

	Flows   Usage         `json:"flows"` // probes included
	Workers []RelayWorker `json:"workers"`
	Entries []RelayEntry  `json:"entries"`          // in the order of the configuration; then those that are gone and have flows
	Trunks  *RelayTrunks  `json:"trunks,omitempty"` // of other relays; nil: none are accepted
	Peers   []RelayPeer   `json:"peers"`            // in the order of the configuration
	Choice  *RelayChoice  `json:"choice,omitempty"` // nil: no entry leaves its way to the relay

	Packets map[string]uint64 `json:"packets,omitempty"` // at the entries' interfaces, by verdict; empty without programs in the kernel
	Starts  []RelayStart      `json:"starts,omitempty"`  // how trunks begin; empty likewise
}

// RelayWorker is an event loop of a relay.
type RelayWorker struct {
	Worker           int               `json:"worker"`
	Live             int               `json:"live"`  // flows and probes
	Flows            uint64            `json:"flows"` // begun
	Early            uint64            `json:"early"` // of them, by a SYN
	Probes           uint64            `json:"probes"`
	Rerouted         uint64            `json:"rerouted"` // times that a flow was sent by another way, as relays did not reach its server
	Refused          map[string]uint64 `json:"refused"`  // flows whose server could not be had, by status
	Expired          map[string]uint64 `json:"expired"`  // flows and trunks that have waited too long, by what for
	Copied           uint64            `json:"copied"`   // bytes
	Spliced          uint64            `json:"spliced"`  // bytes
	Pipes            int               `json:"pipes"`
	WithoutPipe      uint64            `json:"without_pipe"`       // splices that had to be copies
	Full             uint64            `json:"full"`               // times that no more was accepted for a while
	BadClientHeaders uint64            `json:"bad_client_headers"` // PROXY, SOCKS5 or CONNECT, at entries
	BadTrunkHeaders  uint64            `json:"bad_trunk_headers"`  // of incoming trunks
	BadHandshakes    uint64            `json:"bad_handshakes"`     // of TLS trunks that came in
}

// RelayEntry is where flows come in.
type RelayEntry struct {
	Name          string         `json:"name"`
	Open          bool           `json:"open"` // all workers listen
	Listen        netip.AddrPort `json:"listen,omitzero"`
	Mode          string         `json:"mode,omitempty"` // as in the configuration; "": it is gone
	Destination   netip.AddrPort `json:"destination,omitzero"`
	Via           []string       `json:"via,omitempty"`
	Auto          bool           `json:"auto,omitempty"` // the relay chooses
	EarlySYN      string         `json:"early_syn,omitempty"`
	ClientAddress string         `json:"client_address,omitempty"`
	Live          int            `json:"live"`  // flows
	Flows         uint64         `json:"flows"` // begun
}

// RelayTrunks is where the trunks of other relays come in.
type RelayTrunks struct {
	Listen   []netip.AddrPort `json:"listen"`
	Open     bool             `json:"open"` // all workers listen
	Security string           `json:"security"`
	Waiting  Usage            `json:"waiting"` // trunks without a flow
	Live     int              `json:"live"`    // flows
	Flows    uint64           `json:"flows"`   // begun
}

// RelayPeer is a relay that trunks are opened to.
type RelayPeer struct {
	Name     string         `json:"name"`
	Address  netip.AddrPort `json:"address"`
	Cloud    string         `json:"cloud,omitempty"`
	Security string         `json:"security"`
	RTT      time.Duration  `json:"rtt_ns,omitempty"` // the least that a worker's last trunk has measured in its handshake; 0: there was none
	Down     bool           `json:"down"`             // no worker's last attempt to open a trunk was a success
	Failure  string         `json:"failure,omitempty"`
	Failed   time.Time      `json:"failed,omitzero"` // when that was

	Ready    int    `json:"ready"`    // trunks
	Opening  int    `json:"opening"`  // trunks
	Waiting  int    `json:"waiting"`  // flows without a trunk
	Opened   uint64 `json:"opened"`   // trunks
	Taken    uint64 `json:"taken"`    // when a flow wanted one
	Missed   uint64 `json:"missed"`   // flows that had to wait for one
	Stale    uint64 `json:"stale"`    // closed by the peer while they waited
	Unopened uint64 `json:"unopened"` // attempts that have failed
	Broken   uint64 `json:"broken"`   // before they had brought an answer
	Replayed uint64 `json:"replayed"` // flows that were put on another one then
}

// RelayStart is the first window of the trunks of one path.
type RelayStart struct {
	Trunks        string         `json:"trunks"`           // to: those to a peer; at: those accepted at an address; from: those that come from one
	Address       netip.AddrPort `json:"address"`          // port 0: all
	Window        int            `json:"window,omitempty"` // segments; 0: the system's
	Established   uint64         `json:"established"`      // trunks
	Flights       uint64         `json:"flights"`          // first ones that are over
	Sent          uint64         `json:"sent"`             // segments of them
	Retransmitted uint64         `json:"retransmitted"`    // segments of first flights
	Refused       uint64         `json:"refused"`          // settings that the kernel did not take
}

// RelayFlow is one that a relay has.
type RelayFlow struct {
	Client     netip.AddrPort `json:"client"`           // who has opened it, however far away
	Server     netip.AddrPort `json:"server,omitzero"`  // who is to answer it; none: it is not known yet
	ID         string         `json:"id,omitempty"`     // 32 hexadecimal digits, the same on all relays of its way; "": there is one relay
	Entry      string         `json:"entry,omitempty"`  // where it came in; "": by a trunk
	Passed     []string       `json:"passed,omitempty"` // relays in front of this one
	Via        []string       `json:"via,omitempty"`    // relays behind it
	Probe      bool           `json:"probe,omitempty"`  // nobody's flow: a distance is measured
	Stage      string         `json:"stage"`            // header, connecting, moving, ending or refused
	Worker     int            `json:"worker"`
	Since      time.Time      `json:"since"`
	IdleFor    time.Duration  `json:"idle_ns"`     // since bytes have moved
	FromClient uint64         `json:"from_client"` // bytes
	FromServer uint64         `json:"from_server"` // bytes
}

// RelayStopResult is how things are when a relay has begun to stop.
type RelayStopResult struct {
	Flows  int           `json:"flows"`      // that are left
	AtMost time.Duration `json:"at_most_ns"` // what is left of them then is reset
}

// RelayBackend is what a relay answers.
type RelayBackend struct {
	Status    func(ctx context.Context) (RelayStatus, error)
	Plan      func(ctx context.Context, r RelayPlanRequest) (RelayPlan, error)
	Distances func(ctx context.Context) (RelayDistances, error)
	// Stop has the relay end when its flows have.
	Stop func(ctx context.Context) (RelayStopResult, error)
	// Flows calls yield for each, and stops when yield returns false: the client has gone.
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

// Relay asks how the relay is.
func (c *Client) Relay(ctx context.Context) (RelayStatus, error) {
	return ask[RelayStatus](ctx, c, http.MethodGet, "/v1/relay", nil)
}

// RelayFlows yields the flows of a relay as it finds them, and errors as [Client.RouterSessions] does.
func (c *Client) RelayFlows(ctx context.Context) iter.Seq2[RelayFlow, error] {
	return lines[RelayFlow](ctx, c, "/v1/relay/flows")
}

// RelayPlan asks which relays flows should pass. The error is ErrInvalid for a question that has no answer.
func (c *Client) RelayPlan(ctx context.Context, r RelayPlanRequest) (RelayPlan, error) {
	return ask[RelayPlan](ctx, c, http.MethodPost, "/v1/relay/plan", r)
}

// RelayDistances asks how far peers and servers are from the relay.
func (c *Client) RelayDistances(ctx context.Context) (RelayDistances, error) {
	return ask[RelayDistances](ctx, c, http.MethodGet, "/v1/relay/distances", nil)
}

// RelayStop has the relay take no new flows, and end with the last of those that it has.
func (c *Client) RelayStop(ctx context.Context) (RelayStopResult, error) {
	return ask[RelayStopResult](ctx, c, http.MethodPost, "/v1/relay/stop", nil)
}
