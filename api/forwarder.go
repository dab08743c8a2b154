package api

import (
	"context"
	"net/http"
	"time"
)

// ForwarderStatus is the status of an OpenFlow switch.
type ForwarderStatus struct {
	Process

	DatapathID string `json:"datapath_id"` // 16 hexadecimal digits
	FailMode   string `json:"fail_mode"`

	Ports     []ForwarderPort     `json:"ports"`
	Endpoints []ForwarderEndpoint `json:"endpoints"` // in the configuration's order, controllers first
	Tables    []ForwarderTable    `json:"tables"`    // with an entry, or with a packet so far
	Entries   Usage               `json:"entries"`
	Groups    Usage               `json:"groups"`
	Meters    Usage               `json:"meters"`
	Bindings  *ForwarderBindings  `json:"bindings,omitempty"` // nil: no binding table
	Journal   *ForwarderJournal   `json:"journal,omitempty"`  // nil: nothing is stored on disk

	Packets       map[string]uint64 `json:"packets"`        // by verdict
	MegaflowsHit  uint64            `json:"megaflows_hit"`  // packets served by the flow cache's second level
	MicroflowsHit uint64            `json:"microflows_hit"` // packets of bound flows served by its first level
	UpcallsLost   uint64            `json:"upcalls_lost"`   // packets for controllers lost because user space was too slow
	CopiesLost    uint64            `json:"copies_lost"`    // failed to be made

	// Datapaths are the switches of a process that has several, by name. Of the whole only Process and Entries count then.
	Datapaths []ForwarderStatus `json:"datapaths,omitempty"`
}

// ForwarderBindings is the binding table of an OpenFlow switch.
type ForwarderBindings struct {
	Flows Usage                  `json:"flows"`
	Ports []ForwarderBindingPort `json:"ports"`
}

// ForwarderBindingPort is a port that flows are bound to.
type ForwarderBindingPort struct {
	Port       string        `json:"port"`
	Interface  string        `json:"interface"`
	Flows      uint64        `json:"flows"`  // bound
	Active     uint64        `json:"active"` // of them
	RTT        time.Duration `json:"rtt_ns"` // of handshakes, a moving average; 0: unknown
	SYNs       uint64        `json:"syns"`   // that opened a flow
	SYNRepeats uint64        `json:"syn_repeats"`
	Sent       uint64        `json:"sent_bytes"`
	Received   uint64        `json:"received_bytes"`
}

// ForwarderPort is a port of an OpenFlow switch.
type ForwarderPort struct {
	Number    string                 `json:"number"` // or LOCAL
	Interface string                 `json:"interface"`
	Present   bool                   `json:"present"` // the interface exists
	Up        bool                   `json:"up"`      // and can send
	Config    []string               `json:"config"`  // set by port mods, such as port_down, no_recv
	MAC       string                 `json:"mac,omitempty"`
	Counters  *ForwarderPortCounters `json:"counters,omitempty"` // of the interface, since it exists
}

// ForwarderPortCounters are the counters of an interface.
type ForwarderPortCounters struct {
	RxPackets uint64 `json:"rx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	RxDropped uint64 `json:"rx_dropped"`
	TxPackets uint64 `json:"tx_packets"`
	TxBytes   uint64 `json:"tx_bytes"`
	TxDropped uint64 `json:"tx_dropped"`
}

// ForwarderEndpoint is an endpoint of an OpenFlow switch's channels to controllers.
type ForwarderEndpoint struct {
	Endpoint  string             `json:"endpoint"` // such as tcp:192.0.2.7:6653
	Listens   bool               `json:"listens"`  // for connections of others
	Channels  []ForwarderChannel `json:"channels"` // up
	LastError string             `json:"last_error,omitempty"`
	Failed    time.Time          `json:"failed,omitzero"` // time of the error

	Opened           uint64 `json:"opened"`   // channels, since the start
	Received         uint64 `json:"received"` // messages
	Refused          uint64 `json:"refused"`  // messages answered with an error
	Sent             uint64 `json:"sent"`     // messages without packet-ins
	PacketIns        uint64 `json:"packet_ins"`
	PacketInsDropped uint64 `json:"packet_ins_dropped"` // because the queue was full
	Rejected         uint64 `json:"rejected"`           // connections above the limit
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
	Lookups uint64 `json:"lookups"` // packets on the wire
	Misses  uint64 `json:"misses"`  // of them, without a matching entry
}

// ForwarderJournal is the file that stores flow entries.
type ForwarderJournal struct {
	Records int   `json:"records"`
	Bytes   int64 `json:"bytes"`
}

// ForwarderBackend serves the requests to an OpenFlow switch.
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

// Forwarder returns the status of the OpenFlow switch.
func (c *Client) Forwarder(ctx context.Context) (ForwarderStatus, error) {
	return ask[ForwarderStatus](ctx, c, http.MethodGet, "/v1/forwarder", nil)
}

// ForwarderTrace traces a packet. The error is ErrInvalid for an invalid packet or unknown port.
func (c *Client) ForwarderTrace(ctx context.Context, r ForwarderTraceRequest) (ForwarderTrace, error) {
	return ask[ForwarderTrace](ctx, c, http.MethodPost, "/v1/forwarder/trace", r)
}
