// Package config is a relay's configuration: relay.yaml, checked and with its defaults.
//
// Load and Parse refuse an invalid file with one line per mistake, "file:line:column: key.path: what is wrong (what would be valid)". Valid
// but surprising settings are in Config.Warnings.
package config

import (
	"net/netip"
	"time"

	"baton/document"
	"baton/relay/plan"
)

// Config is a validated relay.yaml. It does not change after Load.
type Config struct {
	File     string // path, for messages
	Name     string // of this relay, as its peers know it
	Cloud    string // the network it is in; "" if that does not matter
	Workers  int    // event loops; 0: one per processor
	Metrics  string // host:port of the Prometheus listener, "" for none
	Control  string // path of the unix socket for baton relay status, flows, ...
	Limits   Limits
	Timeouts Timeouts
	Trunks   *Trunks // accept trunks here; nil: do not
	Peers    []Peer  // relays to open trunks to, in the file's order
	Entries  []Entry // where flows come in
	Choose   Choose  // for entries with via: auto
	// Return are the interfaces towards servers that see their clients' addresses: packets of these servers are steered to the relay.
	// Required by ClientAddress Spoofed.
	Return   []string
	Allow    []Allow // servers that flows may connect to from here, besides an Entry's Destination; empty: none
	Warnings []string
}

// Limits bound what the relay holds.
type Limits struct {
	Flows     int // at a time, on all workers
	Early     int // onward connections opened by a SYN whose client is not accepted yet
	PerSource int // of these, per client address
	Pipe      int // bytes that a direction of a flow may hold between its sockets
}

// Timeouts are separate for each phase of a flow.
type Timeouts struct {
	Connect time.Duration // the onward connection
	Header  time.Duration // the header of a flow: PROXY, SOCKS5, CONNECT, or a trunk's
	Early   time.Duration // from a SYN to accept
	Idle    time.Duration // no byte either way; 0: none
	Unacked time.Duration // unacknowledged bytes, and keepalive probes of an idle peer (TCP_USER_TIMEOUT)
	Reset   time.Duration // to acknowledge the bytes in front of a forwarded reset
	Stop    time.Duration // for flows to end after SIGTERM
}

// Security is the protection of a trunk.
type Security string

// The kinds of trunks.
const (
	TLS       Security = "tls"       // TLS 1.3 with certificates on both ends
	Plaintext Security = "plaintext" // only the header's keyed MAC: bytes can be read and changed on the path
)

// Credentials authenticate relays to each other.
type Credentials struct {
	Security    Security
	Certificate string // PEM files, of TLS
	Key         string
	Authority   string // file of the CA certificates that signed the peers'; a peer's name is among its certificate's DNS names
	SecretFile  string // of Plaintext: base64 or hex
	Secret      []byte // read from SecretFile by Load, at least 32 bytes; nil for TLS and after Parse
}

// Tuning is the socket settings of trunks.
type Tuning struct {
	Congestion string // algorithm as the kernel names it, "" for the system's
	Buffer     int    // bytes of SO_RCVBUF and SO_SNDBUF: the window between the relays; 0: the system's
	Start      Start
}

// Start is the initial window of a trunk.
type Start struct {
	Learn bool // between Least and Most, learnt from earlier flows; otherwise always Most
	Least int  // segments
	Most  int  // segments; 0: the system's
	Rate  int  // pacing limit of one trunk, bytes per second; 0: none
}

// Trunks configures the listeners for trunks of other relays. Each is for one address family, as an Entry's is.
type Trunks struct {
	Listen      []netip.AddrPort
	Credentials Credentials
	Tuning      Tuning
	Waiting     int // idle trunks, on all workers
}

// Peer is a relay to open trunks to.
type Peer struct {
	Name        string
	Address     netip.AddrPort
	Cloud       string
	Credentials Credentials
	Tuning      Tuning
	Ready       Ready
	Line        int // in the file
}

// Ready bounds the ready trunks to a peer, on all workers together.
type Ready struct {
	Min, Max int
	Age      time.Duration // idle time after which a trunk is replaced
	Probe    time.Duration // TCP keepalive of a ready trunk
}

// Mode is how an entry learns a flow's destination.
type Mode string

// The modes of an entry.
const (
	Plain       Mode = "plain"       // to Destination
	Transparent Mode = "transparent" // to the destination of the client's SYN (TPROXY)
	Proxy       Mode = "proxy"       // to the destination in a PROXY protocol header (v1 or v2)
	SOCKS5      Mode = "socks5"      // RFC 1928, without authentication: for tests and your own machines
	Connect     Mode = "connect"     // HTTP CONNECT, likewise
)

// EarlySYN is when the onward connection is opened.
type EarlySYN string

// The kinds of early SYN.
const (
	EarlyOff     EarlySYN = "off"
	Optimistic   EarlySYN = "optimistic"    // the client is answered at once, and reset if the server refuses
	ConnectFirst EarlySYN = "connect-first" // the client is answered after the server
)

// ClientAddress is the client address that the server sees.
type ClientAddress string

// What servers may see.
const (
	Hidden      ClientAddress = "relay"       // the relay's address
	Spoofed     ClientAddress = "transparent" // the client's: the return route must lead through the relay
	ProxyHeader ClientAddress = "proxy-v2"    // the relay's, with the client's in a PROXY v2 header
)

// Entry is a listener for flows. Its address is for one family: "[::]" excludes IPv4 (IPV6_V6ONLY).
type Entry struct {
	Name          string
	Listen        netip.AddrPort
	Mode          Mode
	Destination   netip.AddrPort // of Plain
	Intercept     *Intercept     // of Transparent; nil: the user steers packets to the listener
	Interfaces    []string       // towards clients: required by EarlySYN and Intercept
	EarlySYN      EarlySYN
	Via           []string // relays along the route, the first of them a peer; empty: connect from here
	Auto          bool     // the relay chooses the route for each server, see Choose; Via is empty
	ClientAddress ClientAddress
	Congestion    string // towards the client and, from here, the server; "" for the system's
	Line          int    // in the file
}

// Choose configures how routes are chosen for entries with via: auto.
type Choose struct {
	Clouds  plan.Clouds   // whether a route may mix clouds
	Most    int           // relays on a route, including this one
	Refresh time.Duration // interval between measurements of a distance, longer if there are many
	Margin  float64       // by how much a route must be better than the one in use: 0.1 is 10 %
	Dwell   time.Duration // how long a relay must be reachable again before it is used
}

// Intercept selects the packets on an entry's interfaces that go to its listener.
type Intercept struct {
	Destinations []netip.Prefix
	Ports        []document.Ports // at least one
}

// Allow is a set of servers.
type Allow struct {
	Prefix netip.Prefix
	Ports  []document.Ports // empty: all
}
