package api

import (
	"context"
	"net/http"
	"net/netip"
	"time"
)

// BalanceStatus is the status of a balance. Counters start with the process.
type BalanceStatus struct {
	Process

	Datapath string        `json:"datapath"`
	Method   string        `json:"method"`
	Internal string        `json:"internal"` // the internal interface
	Links    []BalanceLink `json:"links"`

	Flows    Usage             `json:"flows"`    // remembered
	Verdicts map[string]uint64 `json:"verdicts"` // packets, by the switch's verdict
	Resets   uint64            `json:"resets"`   // connections ended because their link was lost
}

// BalanceLink is a link and its traffic.
type BalanceLink struct {
	Name      string       `json:"name"`
	Interface string       `json:"interface"`
	Port      uint32       `json:"port"`  // OpenFlow
	State     string       `json:"state"` // "used", "standby", or why it is not usable: "no interface", "no carrier", "no address", "no gateway", "dead", "portal", "over its cap"
	Since     time.Time    `json:"since"`
	Tier      int          `json:"tier"`
	Weight    int          `json:"weight"`
	Measured  bool         `json:"measured"` // the weight is measured
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Gateways  []netip.Addr `json:"gateways,omitempty"`
	Resolvers []netip.Addr `json:"resolvers,omitempty"`
	MTU       int          `json:"mtu"`

	Active       uint64        `json:"active"`      // flows that send or receive
	Flows        uint64        `json:"flows"`       // remembered
	Connections  uint64        `json:"connections"` // TCP connections opened over it
	RTT          time.Duration `json:"rtt_ns"`      // of handshakes; 0: unknown
	Loss         float64       `json:"loss"`        // share of retransmitted segments
	Sent         uint64        `json:"sent"`        // bytes of the interface, in total
	Received     uint64        `json:"received"`
	SentRate     float64       `json:"sent_rate"` // bits per second over the last seconds
	ReceivedRate float64       `json:"received_rate"`
	Capacity     float64       `json:"capacity"` // bits per second, measured; 0: unknown
	Cap          *BalanceCap   `json:"cap,omitempty"`
}

// The states of a usable link.
const (
	BalanceUsed    = "used"
	BalanceStandby = "standby" // links of a lower tier are used
)

// Usable reports whether new flows can use the link.
func (l *BalanceLink) Usable() bool { return l.State == BalanceUsed || l.State == BalanceStandby }

// BalanceCap is how much of its cap a link has used.
type BalanceCap struct {
	Used  uint64    `json:"used"` // bytes
	Bytes uint64    `json:"bytes"`
	Until time.Time `json:"until"`
}

// BalanceBackend serves the requests to a balance.
type BalanceBackend struct {
	Status func(ctx context.Context) (BalanceStatus, error)
}

func (BalanceBackend) name() string { return "balance" }

func (b BalanceBackend) handle(mux *http.ServeMux) {
	handleStatus(mux, b.name(), b.Status)
}

// Balance returns the status of the balance.
func (c *Client) Balance(ctx context.Context) (BalanceStatus, error) {
	return ask[BalanceStatus](ctx, c, http.MethodGet, "/v1/balance", nil)
}
