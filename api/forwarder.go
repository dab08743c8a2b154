package api

import (
	"context"
	"net/http"
	"time"
)

// ForwarderStatus is an OpenFlow switch at a glance.
type ForwarderStatus struct {
	Process

	DatapathID string `json:"datapath_id"` // 16 hexadecimal digits
	FailMode   string `json:"fail_mode"`

	Ports     []ForwarderPort     `json:"ports"`
	Endpoints []ForwarderEndpoint `json:"endpoints"` // in the order of the configuration, controllers first
	Tables    []ForwarderTable    `json:"tables"`    // those that have an entry, or had a packet
	Entries   Usage               `json:"entries"`
	Groups    Usage               `json:"groups"`
	Meters    Usage               `json:"meters"`
	Bindings  *ForwarderBindings  `json:"bindings,omitempty"` // nil: no flows are remembered
	Journal   *ForwarderJournal   `json:"journal,omitempty"`  // nil: nothing is kept on disk

	Packets       map[string]uint64 `json:"packets"`        // by verdict
	MegaflowsHit  uint64            `json:"megaflows_hit"`  // packets whose path through the tables was cached
	MicroflowsHit uint64            `json:"microflows_hit"` // packets of flows that were bound for, which needed no tables
	UpcallsLost   uint64            `json:"upcalls_lost"`   // packets for controllers that user space was too slow for
	CopiesLost    uint64            `json:"copies_lost"`    // that the kernel could not make
}

// ForwarderBindings is what an OpenFlow switch remembers of flows whose link it has bound.
type ForwarderBindings struct {
	Flows Usage                  `json:"flows"`
	Ports []ForwarderBindingPort `json:"ports"`
}

// ForwarderBindingPort is a port that flows are bound for.
type ForwarderBindingPort struct {
	Port       string        `json:"port"`
	Interface  string        `json:"interface"`
	Flows      uint64        `json:"flows"`  // that are remembered
	Active     uint64        `json:"active"` // of them
	RTT        time.Duration `json:"rtt_ns"` // of handshakes, a moving mean; 0: not known
	SYNs       uint64        `json:"syns"`   // that began a flow
	SYNRepeats uint64        `json:"syn_repeats"`
	Sent       uint64        `json:"sent_bytes"`
	Received   uint64        `json:"received_bytes"`
}

// ForwarderPort is a port of an OpenFlow switch.
type ForwarderPort struct {
	Number    string                 `json:"number"` // or LOCAL
	Interface string                 `json:"interface"`
	Present   bool                   `json:"present"` // the interface is there
	Up        bool                   `json:"up"`      // and frames can be sent
	Config    []string               `json:"config"`  // of port mods, as in port_down, no_recv
	MAC       string                 `json:"mac,omitempty"`
	Counters  *ForwarderPortCounters `json:"counters,omitempty"` // of the interface, since it is there
}

// ForwarderPortCounters are those of an interface.
type ForwarderPortCounters struct {
	RxPackets uint64 `json:"rx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	RxDropped uint64 `json:"rx_dropped"`
	TxPackets uint64 `json:"tx_packets"`
	TxBytes   uint64 `json:"tx_bytes"`
	TxDropped uint64 `json:"tx_dropped"`
}

// ForwarderEndpoint is where an OpenFlow switch has channels to its controllers.
type ForwarderEndpoint struct {
	Endpoint  string             `json:"endpoint"` // as in tcp:192.0.2.7:6653
	Listens   bool               `json:"listens"`  // others connect to it
	Channels  []ForwarderChannel `json:"channels"` // that are up
	LastError string             `json:"last_error,omitempty"`
	Failed    time.Time          `json:"failed,omitzero"` // when that was

	Opened           uint64 `json:"opened"`   // channels, since the start
	Received         uint64 `json:"received"` // messages
	Refused          uint64 `json:"refused"`  // of them, those answered with an error
	Sent             uint64 `json:"sent"`     // messages but packet-ins
	PacketIns        uint64 `json:"packet_ins"`
	PacketInsDropped uint64 `json:"packet_ins_dropped"` // that there was no room for
	Rejected         uint64 `json:"rejected"`           // connections that there was no room for
}

// ForwarderChannel is an OpenFlow channel that is up.
type ForwarderChannel struct {
	Peer  string    `json:"peer,omitempty"`
	Role  string    `json:"role"` // equal, master or slave
	Since time.Time `json:"since"`
}

// ForwarderTable is a flow table.
type ForwarderTable struct {
	Table   int    `json:"table"`
	Entries int    `json:"entries"`
	Lookups uint64 `json:"lookups"` // packets of the wire
	Misses  uint64 `json:"misses"`  // of them, those that met no entry
}

// ForwarderJournal is what keeps flow entries on disk.
type ForwarderJournal struct {
	Records int   `json:"records"`
	Bytes   int64 `json:"bytes"`
}

// ForwarderBackend is what an OpenFlow switch answers.
type ForwarderBackend struct {
	Status func(ctx context.Context) (ForwarderStatus, error)
	Trace  func(ctx context.Context, r ForwarderTraceRequest) (ForwarderTrace, error)
}

func (ForwarderBackend) name() string { return "forwarder" }

func (b ForwarderBackend) handle(mux *http.ServeMux) {
	handleStatus(mux, b.name(), b.Status)
	mux.HandleFunc("POST /v1/forwarder/trace", func(w http.ResponseWriter, r *http.Request) {
		q, err := parseBody[ForwarderTraceRequest](w, r)
		serveOne(w, r, with(b.Trace, q, err))
	})
}

// Forwarder asks how the OpenFlow switch is.
func (c *Client) Forwarder(ctx context.Context) (ForwarderStatus, error) {
	return ask[ForwarderStatus](ctx, c, http.MethodGet, "/v1/forwarder", nil)
}

// ForwarderTrace asks why a packet goes where it goes. The error is ErrInvalid for a packet or port that there is not.
func (c *Client) ForwarderTrace(ctx context.Context, r ForwarderTraceRequest) (ForwarderTrace, error) {
	return ask[ForwarderTrace](ctx, c, http.MethodPost, "/v1/forwarder/trace", r)
}
