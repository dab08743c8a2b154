package api

import (
	"context"
	"net/http"
	"net/netip"
	"time"
)

// BalanceStatus is a balance at a glance. Counters are since its start.
type BalanceStatus struct {
	Process

	Datapath string        `json:"datapath"`
	Method   string        `json:"method"`
	Internal string        `json:"internal"` // interface
	Links    []BalanceLink `json:"links"`

	Flows    Usage             `json:"flows"`    // that are remembered
	Verdicts map[string]uint64 `json:"verdicts"` // packets, by what the switch made of them
	Resets   uint64            `json:"resets"`   // connections ended because their link had gone
}

// BalanceLink is a link and what goes over it.
type BalanceLink struct {
	Name      string       `json:"name"`
	Interface string       `json:"interface"`
	Port      uint32       `json:"port"`  // OpenFlow
	State     string       `json:"state"` // "used", "standby", or why it is not: "no interface", "no carrier", "no address", "no gateway", "dead", "portal", "over its cap"
	Since     time.Time    `json:"since"`
	Tier      int          `json:"tier"`
	Weight    int          `json:"weight"`
	Measured  bool         `json:"measured"` // the weight is
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Gateways  []netip.Addr `json:"gateways,omitempty"`
	Resolvers []netip.Addr `json:"resolvers,omitempty"`
	MTU       int          `json:"mtu"`

	Active       uint64        `json:"active"`      // flows that send or receive
	Flows        uint64        `json:"flows"`       // that are remembered
	Connections  uint64        `json:"connections"` // TCP, that were begun by it
	RTT          time.Duration `json:"rtt_ns"`      // of handshakes; 0: not known
	Loss         float64       `json:"loss"`        // share of segments sent twice
	Sent         uint64        `json:"sent"`        // bytes of the interface, ever
	Received     uint64        `json:"received"`
	SentRate     float64       `json:"sent_rate"` // bits per second, of the last seconds
	ReceivedRate float64       `json:"received_rate"`
	Capacity     float64       `json:"capacity"` // bits per second, as measured; 0: not known
	Cap          *BalanceCap   `json:"cap,omitempty"`
}

// The states of a link that new flows can have.
const (
	BalanceUsed    = "used"
	BalanceStandby = "standby" // links of a lower tier are used
)

// Usable says whether new flows can have the link.
func (l *BalanceLink) Usable() bool { return l.State == BalanceUsed || l.State == BalanceStandby }

// BalanceCap is how much of its cap a link has used.
type BalanceCap struct {
	Used  uint64    `json:"used"` // bytes
	Bytes uint64    `json:"bytes"`
	Until time.Time `json:"until"`
}

// BalanceBackend is what a balance answers.
type BalanceBackend struct {
	Status func(ctx context.Context) (BalanceStatus, error)
}

func (BalanceBackend) name() string { return "balance" }

func (b BalanceBackend) handle(mux *http.ServeMux) {
	handleStatus(mux, b.name(), b.Status)
}

// Balance asks how the balance is.
func (c *Client) Balance(ctx context.Context) (BalanceStatus, error) {
	return ask[BalanceStatus](ctx, c, http.MethodGet, "/v1/balance", nil)
}
