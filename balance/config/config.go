// Package config is the configuration of baton balance: what the user writes in balance.yaml, checked and with its defaults filled in.
// The names are a contract; they are added to, never renamed.
//
// Load and Parse refuse what cannot work with one line, "file:line:column: key.path: what is wrong (what would be right)". What works but
// not as one might expect is told in Config.Warnings.
package config

import (
	"net/netip"
	"slices"
	"time"

	"baton/document"
)

// Datapath is what forwards the packets.
type Datapath string

// The datapaths.
const (
	Baton       Datapath = "baton" // Baton's forwarder
	OpenVSwitch Datapath = "ovs"   // a bridge of Open vSwitch, by plain OpenFlow 1.3
)

// Method is how a new flow gets its link.
type Method string

// The methods. The kernel's own are those of Baton's datapath alone.
const (
	Even       Method = "even"        // the kernel: weighted round robin among those that have not much more than their share, and none is left idle
	RoundRobin Method = "round-robin" // the kernel: weighted round robin
	Least      Method = "least"       // the kernel: fewest flows for the weight
	Fastest    Method = "fastest"     // the kernel: shortest handshakes for the flows that there are (peak EWMA)
	Hash       Method = "hash"        // a select group: by a hash of the flow, weighted
	Controller Method = "controller"  // the paper's algorithm 1: a packet-in for each flow, weighted round robin
)

// Config is a validated balance.yaml. It is never changed after Load has returned it.
type Config struct {
	File     string // where it was read, for messages
	Name     string // of pins, devices' tables, sockets
	Datapath Datapath
	Method   Method
	Links    []Link        // in the file's order: their OpenFlow ports are 2, 3, …
	Rules    []Rule        // in the file's order: the first that wants a flow has it
	Affinity time.Duration // a new flow to a server goes where one went in this time; 0: it need not
	Weights  Weights
	Internal Internal
	Probe    Probe
	Limits   Limits
	Control  string // path of the unix socket for baton balance status
	Metrics  string // host:port for Prometheus; "": none
	State    string // folder of what outlives a restart of the host: the bytes that count against caps
	Warnings []string

	places func(key string) document.Place
}

// Link is an uplink.
type Link struct {
	Name      string
	Interface string
	Weight    int          // relative capacity; 0: measured
	Tier      int          // those of the lowest tier with a usable link are used
	Gateways  []netip.Addr // one of each IP version at most; none: as the routing tables say
	Resolvers []netip.Addr // none: as the host's resolver says
	Cap       *Cap         // nil: not metered
	Probe     *Probe       // nil: the configuration's
	Line      int          // in the file
}

// Cap is how many bytes a link may carry in a period.
type Cap struct {
	Bytes uint64
	Every Period
	Day   int  // of the month, or of the week from Monday, 1, that a period begins at
	Hard  bool // beyond it the link is not used at all; else it is as of the last tier
}

// Period is how long until a cap counts from 0 again.
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
	Links       []string       // by name, no others; none: all
	Otherwise   Otherwise      // when none of Links is usable
	Method      Method         // "": the configuration's
	Affinity    time.Duration
	Line        int // in the file
}

// Otherwise is what happens to flows whose links are not usable.
type Otherwise string

// The choices.
const (
	Any  Otherwise = "any"  // they use all links
	Drop Otherwise = "drop" // they wait, as if the host were not connected
)

// Service is a transport protocol and a range of ports of servers.
type Service struct {
	Protocol    uint8  // 6 or 17
	First, Last uint16 // 0 and 65535: all
}

// Application is which sockets of the host a rule is about: one of these.
type Application struct {
	User   string // by name or number
	Cgroup string // as a path below the root of cgroup v2
}

// Weights are how measured weights follow the links.
type Weights struct {
	Every       time.Duration // how often they are looked at
	Least, Most int           // percent of the mean that a measured weight is bounded by
}

// Inside is the host's own side.
type Internal struct {
	Interface  string
	IPv4, IPv6 netip.Prefix // the host's address, and its network; the gateways' addresses are in it
	Priority   int          // of the first routing rule
	Table      int          // number of the first routing table
}

// Probe is how it is found out whether a link leads anywhere.
type Probe struct {
	Off   bool
	URL   string // of something that answers 204; anything else is a captive portal. "": the gateway is asked (ARP, neighbour discovery)
	Every time.Duration
	Dead  time.Duration // without an answer for that long a link is not usable
}

// Limits bound what is held.
type Limits struct{ Flows int }

// Applications are what the rules distinguish, each once, in the rules' order: the class of one is its place from 1, which is also the
// number of the inside gateway that its flows go to. Class 0 is everything else.
func (c *Config) Applications() []Application {
	var out []Application
	for _, r := range c.Rules {
		if r.Application != nil && !slices.Contains(out, *r.Application) {
			out = append(out, *r.Application)
		}
	}
	return out
}

// Gateway4 is the IPv4 address of a class's gateway: of those of the inside network that a host may have, in their order and without
// our own, the one at that place. It is not valid when the network has no room for it.
func (i Internal) Gateway4(class int) netip.Addr {
	last := lastAddress(i.IPv4)
	return gateway(i.IPv4, class, func(a netip.Addr) bool { return a != last }) // which is the broadcast address
}

// Gateway6 is Gateway4 for IPv6.
func (i Internal) Gateway6(class int) netip.Addr {
	return gateway(i.IPv6, class, func(netip.Addr) bool { return true })
}

// gateway counts from the second address on: the first is the network's own, of which all routers have a share in IPv6.
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
