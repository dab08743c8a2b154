// Package config is the configuration of a site's announcements and of the planner that maps traffic to sites: what the user writes in
// anycast.yaml, checked and with its defaults filled in. The names are a contract; they are added to, never renamed.
//
// Load and Parse refuse what cannot work with one line, "file:line:column: key.path: what is wrong (what would be right)". What
// works but may surprise is listed in Config.Warnings.
package config

import (
	"net/netip"
	"net/url"
	"time"

	"baton/anycast/level"
)

// Config is a validated anycast.yaml. It is never changed after Load has returned it. It is a site's, a planner's or both.
type Config struct {
	File     string // where it was read, for messages
	Name     string // of this site, or of the planner where it is no site's
	Listen   Listen
	Identity Identity // of sites and the planner for each other; zero: no exchange
	Site     *Site    // nil: a planner alone
	Planner  *Planner // nil: a site alone
	Warnings []string
}

// Listen says the listeners.
type Listen struct {
	Metrics string // host:port of the Prometheus listener, "" for none
	Control string // path of the unix socket for baton anycast status, drain, ...
	Sites   string // host:port where the planner and other sites ask for this site's report, "" for none
}

// Identity is what sites and the planner know each other by: TLS 1.3, certificates of both ends.
type Identity struct {
	Certificate string // PEM files
	Key         string
	CA          string // whose certificates the others have
}

// Site is where service addresses are announced from.
type Site struct {
	Prefixes  []netip.Prefix // of the service, in the file's order; none without BGP
	BGP       BGP            // AS 0: no BGP, as in a static map
	Addresses *Addresses     // nil: the service's addresses are on the host already
	Checks    []Check
	Loads     []Measure
	Control   level.Rules // ladder, dwell, flap budget
	Planner   string      // name of the planner whose proposals are accepted, "" for none
	Others    []Other     // sites that announce the same prefixes
	// Limits on what a site accepts. A report, a measurement or a proposal older than Stale is ignored.
	Stale time.Duration
	Poll  time.Duration // of Others
	Drain time.Duration // how long the drain level stays before withdrawal, for maintenance
	State string        // file that keeps an instruction and the flap budget over a restart, "" for none
	Stop  time.Duration // how long the drain level stays at a clean end of the process; 0: withdrawn at once
}

// BGP is the sessions with the routers.
type BGP struct {
	AS          uint32
	RouterID    netip.Addr // IPv4
	Communities []uint32   // on every announcement
	NextHop4    netip.Addr // invalid: this end of each session
	NextHop6    netip.Addr
	Peers       []Peer
}

// Peer is a router. The session is always opened by this end.
type Peer struct {
	Name            string
	Address         netip.Addr
	Port            uint16
	Local           netip.Addr // invalid: as the routes have it
	AS              uint32
	IPv4, IPv6      bool // families
	PasswordFile    string
	Password        string        // RFC 2385, of Load; "" for none
	GTSM            bool          // RFC 5082: packets of one hop alone
	Multihop        int           // TTL of an external session that is not directly connected; 0: 1
	Keepalive, Hold time.Duration // whole seconds
	Retry           time.Duration // between attempts to connect
	Restart         time.Duration // RFC 4724: how long routes stay when this end vanishes; 0: they go at once
}

// Internal reports whether the peer is of the site's own AS.
func (p *Peer) Internal(b *BGP) bool { return p.AS == b.AS }

// Addresses are put on an interface while the process runs.
type Addresses struct {
	Interface string
	Addresses []netip.Prefix
}

// Check is one look at the service, and what it takes to believe it. Exactly one of HTTP, TCP and Command is set.
type Check struct {
	Name     string
	HTTP     *url.URL // 2xx and 3xx are well
	Host     string   // of the request, "" for that of the URL
	TCP      string   // host:port
	Command  []string // exit code 0 is well
	Interval time.Duration
	Timeout  time.Duration
	Rise     int // successes in a row until it is well
	Fall     int // failures in a row until it is not
}

// Measure is one measurement of how full the site is. The site's load is the greatest of them, as a share of the capacity.
type Measure struct {
	Name     string
	Metrics  *url.URL // a Prometheus exposition, or
	Command  []string // prints one number, or
	Device   string   // a network interface: bytes per second sent
	Metric   string   // name of the series in Metrics
	Labels   map[string]string
	Rate     bool    // Metric or Command is a counter; its growth per second counts
	Capacity float64 // in the measurement's unit
	Interval time.Duration
	Timeout  time.Duration
}

// Other is a site that announces the same prefixes.
type Other struct {
	Name string
	URL  *url.URL
}

// Planner maps traffic to sites.
type Planner struct {
	Interval time.Duration // between looks at sites
	Stale    time.Duration // a report that is older counts as none
	Settle   time.Duration // after a step, before the next
	Step     float64       // share of all demand that one step moves at most
	Move     float64       // bytes of cost for each byte in flight that a move interrupts
	Sites    []Served
	Map      *Map // nil: sites are given levels, and routers decide
}

// Served is a site as the planner sees it.
type Served struct {
	Name     string
	URL      *url.URL // of its report; nil in a map, for one that is always up
	Capacity float64  // bytes per second
	Ports    []Exit   // of Map
	Line     int
}

// Exit is where a forwarder reaches a site.
type Exit struct {
	Forwarder uint64 // datapath identifier
	Port      uint32
	MAC       [6]byte // of the next hop; zero: the frame's stays
}

// Map is the static map: forwarders send what comes in at an ingress port to the site that is chosen for it.
type Map struct {
	Listen    string // host:port for OpenFlow 1.3 switches
	TLS       bool   // they show certificates, as sites do
	Addresses []netip.Prefix
	Table     uint8
	Priority  uint16
	Ingresses []Ingress
}

// Ingress is a point where clients' packets come in.
type Ingress struct {
	Name      string
	Forwarder uint64 // datapath identifier
	Port      uint32
	Live      time.Duration      // how long a download lasts: so many seconds of its demand are under way
	Cost      map[string]float64 // by site: of a byte; 0 where nothing is said
	Line      int
}
