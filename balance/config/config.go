// Package config is the configuration of baton balance: the user's balance.yaml, checked and with defaults. Its keys are a contract.
//
// Load and Parse refuse an unusable file with one line for each mistake, "file:line:column: key.path: what is wrong (what would be valid)".
// Config.Warnings lists what works, but not as one might expect.
package config

import (
	"net/netip"
	"slices"
	"time"

	"baton/document"
)

// Datapath forwards the packets.
type Datapath string

// The datapaths.
const (
	Baton       Datapath = "baton" // Baton's forwarder
	OpenVSwitch Datapath = "ovs"   // an Open vSwitch bridge, with standard OpenFlow 1.3
)

// Method selects the link of a new flow.
type Method string

// The methods. Those of the kernel need Baton's datapath.
const (
	Even       Method = "even"        // kernel: weighted round-robin that skips links far above their share, and leaves none idle
	RoundRobin Method = "round-robin" // kernel: weighted round-robin
	Least      Method = "least"       // kernel: fewest active flows for the weight
	Fastest    Method = "fastest"     // kernel: shortest handshakes for the number of flows (peak EWMA)
	Hash       Method = "hash"        // a select group: weighted hash of the flow
	Controller Method = "controller"  // the paper's algorithm 1: a packet-in for each flow, weighted round-robin
)

// Config is a validated balance.yaml. It does not change after Load has returned it.
type Config struct {
	File     string // for messages
	Name     string // of pins, tables, sockets
	Datapath Datapath
	Method   Method
	Links    []Link        // in the file's order: their OpenFlow ports are 2, 3, …
	Rules    []Rule        // in the file's order: the first match applies
	Affinity time.Duration // how long new flows to a server use the link of the last one; 0: not at all
	Weights  Weights
	Internal Internal
	Probe    Probe
	Limits   Limits
	Control  string // path of the unix socket for baton balance status
	Metrics  string // host:port for Prometheus; "": none
	State    string // folder for what survives a reboot: the bytes that count against caps
	Warnings []string

	Places document.Places
}

// Link is an uplink.
type Link struct {
	Name      string
	Interface string
	Weight    int          // relative capacity; 0: measured
	Tier      int          // only the lowest tier with a usable link is used
	Gateways  []netip.Addr // at most one for each IP version; none: from the routing tables
	Resolvers []netip.Addr // none: those of the host's resolver
	Cap       *Cap         // nil: not metered
	Probe     *Probe       // nil: the general one
	Line      int          // in the file
}

// Cap bounds the bytes that a link may carry in a period.
type Cap struct {
	Bytes uint64
	Every Period
	Day   int  // first day of a period: of the month, or of the week (Monday is 1)
	Hard  bool // beyond the cap the link is not used at all; else only as a last resort
}

// Period is the time after which a cap counts from 0 again.
type Period string

// The periods.
const (
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// Rule says which links some flows may use.
type Rule struct {
	Name        string
	To          []netip.Prefix // none: everywhere
	Services    []Service      // none: all
	Application *Application   // nil: all
	Links       []string       // names of the allowed links; none: all
	Otherwise   Otherwise      // if none of Links is usable
	Method      Method         // "": the general one
	Affinity    time.Duration
	Line        int // in the file
}

// Otherwise is what happens to flows without a usable link.
type Otherwise string

// The choices.
const (
	Any  Otherwise = "any"  // they use any link
	Drop Otherwise = "drop" // they wait, as if the host were offline
)

// Service is a transport protocol and a range of server ports.
type Service struct {
	Protocol    uint8  // 6 or 17
	First, Last uint16 // 0 and 65535: all
}

// Application selects sockets of the host by one of these.
type Application struct {
	User   string // name or number
	Cgroup string // path below the root of cgroup v2
}

// Weights controls measured weights.
type Weights struct {
	Every       time.Duration // how often they are updated
	Least, Most int           // bounds in percent of the mean
}

// Internal is the host's own side.
type Internal struct {
	Interface  string
	IPv4, IPv6 netip.Prefix // the host's address with its network, which also contains the gateways' addresses
	Priority   int          // of the first routing rule
	Table      int          // number of the first routing table
}

// Probe says how to find out whether a link works.
type Probe struct {
	Off   bool
	URL   string // of a page that answers 204; any other answer is a captive portal. "": the gateway is probed (ARP, neighbour discovery)
	Every time.Duration
	Dead  time.Duration // a link without an answer for this long is not usable
}

// Limits bound memory.
type Limits struct{ Flows int }

// Applications returns the applications that rules name, each once, in the rules' order. The class of one is its index from 1, and the
// number of the internal gateway for its flows. Class 0 is everything else.
func (c *Config) Applications() []Application {
	var out []Application
	for _, r := range c.Rules {
		if r.Application != nil && !slices.Contains(out, *r.Application) {
			out = append(out, *r.Application)
		}
	}
	return out
}

// Gateway4 returns the IPv4 address of a class's gateway: the internal network's usable addresses in order, without the host's own. It is
// not valid if the network is too small.
func (i Internal) Gateway4(class int) netip.Addr {
	last := lastAddress(i.IPv4)
	return gateway(i.IPv4, class, func(a netip.Addr) bool { return a != last }) // the broadcast address
}

// Gateway6 is Gateway4 for IPv6.
func (i Internal) Gateway6(class int) netip.Addr {
	return gateway(i.IPv6, class, func(netip.Addr) bool { return true })
}

// gateway counts from the second address: the first is the network's own, and the routers' anycast address in IPv6.
func gateway(p netip.Prefix, class int, usable func(netip.Addr) bool) netip.Addr {
	for a := p.Masked().Addr().Next(); p.Contains(a) && usable(a); a = a.Next() {
		if a == p.Addr() {
			continue
		}
		if class == 0 {
			return a
		}
		class--
	}
	return netip.Addr{}
}

func lastAddress(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
