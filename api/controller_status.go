package api

import (
	"context"
	"net/http"
)

// ControllerStatus is the status of a controller. Counters start with the process.
type ControllerStatus struct {
	Process

	Listen     []string        `json:"listen"`               // for switches
	Northbound string          `json:"northbound,omitempty"` // address
	Store      ControllerStore `json:"store"`

	Switches []ControllerSwitch `json:"switches"`
	Links    int                `json:"links"` // in both directions
	Hosts    int                `json:"hosts"`
	Paths    ControllerPaths    `json:"paths"`

	Packets    uint64 `json:"packets"`         // packet-ins that were handled
	Overload   uint64 `json:"packets_dropped"` // packet-ins that were dropped, as a switch sends more than is handled
	FlowMods   uint64 `json:"flow_mods"`
	PacketOuts uint64 `json:"packet_outs"`

	Discovery   uint64            `json:"discovery"`   // frames sent
	Answered    uint64            `json:"answered"`    // ARP requests and neighbour solicitations
	Flooded     uint64            `json:"flooded"`     // frames sent out of all ports of hosts
	Limited     uint64            `json:"limited"`     // frames above a port's limits
	Forwarded   uint64            `json:"forwarded"`   // packets that the controller has sent on
	Undelivered uint64            `json:"undelivered"` // packets that it could not send on
	Moves       uint64            `json:"moves"`       // of hosts and addresses that were accepted
	Refused     map[string]uint64 `json:"refused"`     // by reason

	Surrogates []ControllerSurrogate `json:"surrogates,omitempty"`
	Reactive   *ControllerReactive   `json:"reactive,omitempty"` // nil: the mode is off
}

// ControllerReactive is what a controller has done in the reactive mode.
type ControllerReactive struct {
	Live       int               `json:"live"`              // sessions that are handed over, and those that are about to be
	Began      uint64            `json:"began"`             // handoffs
	Done       map[string]uint64 `json:"done"`              // handed-over sessions, by surrogate
	Failed     map[string]uint64 `json:"failed"`            // handoffs, by reason: the request router has served the sessions
	Ended      uint64            `json:"ended"`             // handed-over sessions that are over
	Unanswered map[string]uint64 `json:"unanswered"`        // handed-over sessions whose surrogate has not begun to answer in time, by surrogate
	Proxied    uint64            `json:"proxied"`           // sessions that request routers have served themselves
	Forwarded  uint64            `json:"packets_forwarded"` // that passed the controller
	Dropped    uint64            `json:"packets_dropped"`   // that may not pass
	Lost       uint64            `json:"packets_lost"`      // for which there was no way
}

// ControllerStore is where a controller keeps what it cannot derive.
type ControllerStore struct {
	Kind       string `json:"kind"`   // file or etcd
	Master     bool   `json:"master"` // this controller is
	Generation uint64 `json:"generation"`
	Holder     string `json:"holder,omitempty"` // the master
	Answers    bool   `json:"answers"`
	Error      string `json:"error,omitempty"`
	Pending    int    `json:"pending"` // records that are not written yet: lost if the controller is killed
}

// ControllerPaths are the paths that a controller has installed.
type ControllerPaths struct {
	Cache    bool   `json:"cache"`
	Trees    int    `json:"trees"`
	Entries  int    `json:"entries"`
	Cached   int    `json:"cached"` // pairs of hosts
	Hits     uint64 `json:"hits"`
	Misses   uint64 `json:"misses"`
	Reroutes uint64 `json:"reroutes"` // of trees
	Failures uint64 `json:"failures"` // entries that a switch has not taken
}

// ControllerBackend serves the requests to a controller.
type ControllerBackend struct {
	Status   func(ctx context.Context) (ControllerStatus, error)
	Topology func(ctx context.Context) (ControllerTopology, error)
}

func (ControllerBackend) name() string { return "controller" }

func (b ControllerBackend) handle(mux *http.ServeMux) {
	handleStatus(mux, b.name(), b.Status)
	mux.HandleFunc("GET /v1/controller/topology", func(w http.ResponseWriter, r *http.Request) { serveOne(w, r, b.Topology) })
}

// Controller returns the status of the controller.
func (c *Client) Controller(ctx context.Context) (ControllerStatus, error) {
	return ask[ControllerStatus](ctx, c, http.MethodGet, "/v1/controller", nil)
}

// ControllerTopology returns the network as the controller knows it.
func (c *Client) ControllerTopology(ctx context.Context) (ControllerTopology, error) {
	return ask[ControllerTopology](ctx, c, http.MethodGet, "/v1/controller/topology", nil)
}
