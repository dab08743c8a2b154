// Package config is the configuration of a site and of the planner that maps traffic to sites: anycast.yaml, checked and with its defaults
// filled in. The keys are a contract: keys are added, never renamed.
//
// Load and Parse report an error on one line, "file:line:column: key.path: what is wrong (what to write instead)". A setting that works but
// may surprise is listed in Config.Warnings.
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
	Name     string // of this site, or of a planner that is no site
	Listen   Listen
	TLS      TLS      // for connections between sites and the planner; zero: no exchange
	Site     *Site    // nil: a planner alone
	Planner  *Planner // nil: a site alone
	Warnings []string
}

// Listen has the addresses of the listeners.
type Listen struct {
	Metrics string // host:port of the Prometheus listener, "" for none
	Control string // path of the unix socket for baton anycast status, drain, ...
	Sites   string // host:port where the planner and other sites fetch this site's report, "" for none
}

// TLS authenticates sites and the planner to each other: TLS 1.3 with certificates on both ends.
type TLS struct {
	Certificate string // PEM files
	Key         string
	Authority   string // authority that signed the peers' certificates
}

// Site announces service addresses.
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
	Drain time.Duration // how long to drain for maintenance before the withdrawal
	State string        // file that keeps an instruction and the flap budget over a restart, "" for none
	Stop  time.Duration // how long to drain at a clean exit; 0: withdraw at once
}

// BGP configures the sessions with the routers.
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
	Local           netip.Addr // by the routing table
	AS              uint32
	IPv4, IPv6      bool // families
	PasswordFile    string
	Password        string        // RFC 2385, of Load; "" for none
	GTSM            bool          // only packets from one hop away
	Multihop        int           // TTL of an external session that is not directly connected; 0: 1
	Keepalive, Hold time.Duration // whole seconds
	Retry           time.Duration // between attempts to connect
	Restart         time.Duration // how long routers keep the routes after this end disappears; 0: not at all
}

// Internal reports whether the peer is in the site's own AS.
func (p *Peer) Internal(b *BGP) bool { return p.AS == b.AS }

// Addresses are added to an interface while the process runs.
type Addresses struct {
	Interface string
	Addresses []netip.Prefix
}

// Check is a health check of the service. Exactly one of HTTP, TCP and Command is set.
type Check struct {
	Name     string
	HTTP     *url.URL // 2xx and 3xx pass
	Host     string   // of the request, "" for that of the URL
	TCP      string   // host:port
	Command  []string // exit status 0 passes
	Interval time.Duration
	Timeout  time.Duration
	Rise     int // successes in a row until it is up
	Fall     int // failures in a row until it is down
}

// Measure is a load measurement. The site's load is the greatest of them, as a share of the capacity.
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
	Interval time.Duration // polling interval
	Stale    time.Duration // a report that is older counts as none
	Settle   time.Duration // after a step, before the next
	Step     float64       // maximum share of the total demand that a step moves
	Move     float64       // cost of interrupting a byte in flight
	Sites    []Served
	Map      *Map // the planner proposes levels, and routers choose the site
}

// Served is a site as the planner sees it.
type Served struct {
	Name     string
	URL      *url.URL // of its report; nil: a site of a map that always counts as up
	Capacity float64  // bytes per second
	Ports    []Exit   // of Map
	Line     int
}

// Exit is the port of a forwarder that leads to a site.
type Exit struct {
	Forwarder uint64 // datapath identifier
	Port      uint32
	MAC       [6]byte // of the next hop; zero: unchanged
}

// Map is the static map: forwarders send the packets of an ingress port to the site chosen for it.
type Map struct {
	Listen    string // host:port for OpenFlow 1.3 switches
	TLS       bool   // forwarders must present certificates, as sites do
	Addresses []netip.Prefix
	Table     uint8
	Priority  uint16
	Ingresses []Ingress
}

// Ingress is a port where clients' packets enter.
type Ingress struct {
	Name      string
	Forwarder uint64 // datapath identifier
	Port      uint32
	Live      time.Duration      // duration of a download: so many seconds of the demand are in flight
	Cost      map[string]float64 // cost per byte, by site; 0 if absent
	Line      int
}
