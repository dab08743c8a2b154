package choice

import (
	"net/netip"
	"time"

	"baton/relay/plan"
)

// MostPeers limits the peers on routes: relays are measured in pairs.
const MostPeers = 16

// Limits of a Chooser.
const (
	mostDestinations = 4096
	// Pace is the interval between probes of a relay.
	Pace = 200 * time.Millisecond
	// leastAge is the age at which a destination may be evicted from a full table, so that a scan does not evict those in use.
	leastAge = time.Minute
	// expiry is the number of refresh intervals after which an unused destination is dropped.
	expiry = 3
	// retry is the delay before an unreachable relay is asked again.
	retry = 10 * time.Second
)

// Peer is a relay that this one opens trunks to.
type Peer struct {
	Name    string
	Cloud   string
	Address netip.AddrPort // of its trunk listener
}

// Options are the settings of a Chooser.
type Options struct {
	Self  string // this relay's name
	Cloud string
	Peers []Peer // those after MostPeers are ignored
	// Fixed are servers that entries name; they do not expire. Allowed reports whether this relay may connect to another server.
	Fixed   []netip.AddrPort
	Learn   bool // other destinations are added
	Allowed func(netip.AddrPort) bool

	Clouds  plan.Clouds
	Most    int           // relays on a route, including this one
	Margin  float64       // by how much a route must be better than the one in use: 0.1 is 10 %
	Dwell   time.Duration // how long a relay must be up again before it is used
	Refresh time.Duration // minimum interval between measurements
	Start   int64         // bytes that a trunk sends at first; 0: as any connection
}

// sameRules reports whether equal measurements lead to equal routes.
func (o *Options) sameRules(n *Options) bool {
	return o.Self == n.Self && o.Cloud == n.Cloud && o.Clouds == n.Clouds && o.Most == n.Most
}
