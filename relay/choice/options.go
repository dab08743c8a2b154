package choice

import (
	"net/netip"
	"time"

	"baton/relay/plan"
)

// MostPeers is how many peers ways may lead over: relays are measured in pairs.
const MostPeers = 16

// Bounds of what a Chooser holds and has measured.
const (
	mostDestinations = 4096
	// Pace is from one probe of a relay to the next.
	Pace = 200 * time.Millisecond
	// leastAge is how long a destination keeps its place in a full table, so that one who asks for everything drives out nobody.
	leastAge = time.Minute
	// expiry is how many refreshes a destination is remembered that nobody asks for.
	expiry = 3
	// retry is after what a relay is asked again that could not be.
	retry = 10 * time.Second
)

// Peer is a relay that this one opens trunks to.
type Peer struct {
	Name    string
	Cloud   string
	Address netip.AddrPort // of its listener for trunks
}

// Options say what is chosen among, and how.
type Options struct {
	Self  string // this relay's name
	Cloud string
	Peers []Peer // those behind MostPeers are left out
	// Fixed are servers that entries name: they are kept, and never forgotten. Allowed says whether this relay may connect to one of
	// the others.
	Fixed   []netip.AddrPort
	Learn   bool // other destinations are taken, too
	Allowed func(netip.AddrPort) bool

	Clouds  plan.Clouds
	Most    int           // relays of a way, this one among them
	Margin  float64       // by how much a way must be better than the one in use: 0.1 is a tenth
	Dwell   time.Duration // how long a relay must have been there, after it was not, until it is used again
	Refresh time.Duration // from one measurement to the next, at least
	Start   int64         // bytes that a trunk sends at first; 0: as any connection
}

// sameRules tells whether the same measurements lead to the same ways.
func (o *Options) sameRules(n *Options) bool {
	return o.Self == n.Self && o.Cloud == n.Cloud && o.Clouds == n.Clouds && o.Most == n.Most
}
