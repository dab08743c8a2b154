// Package config is a relay's configuration: what the user writes in relay.yaml, checked and with its defaults filled in. The
// names are a contract; they are added to, never renamed.
//
// Load and Parse refuse what cannot work with one line, "file:line:column: key.path: what is wrong (what would be right)". What
// works but not as one might expect is told in Config.Warnings.
package config

import (
	"net/netip"
	"time"

	"baton/document"
	"baton/relay/plan"
)

// Config is a validated relay.yaml. It is never changed after Load has returned it.
type Config struct {
	File     string // where it was read, for messages
	Name     string // of this relay, by which its peers know it
	Cloud    string // whose network it is in; "" when that is of no interest
	Workers  int    // event loops; 0: one for each processor
	Metrics  string // host:port of the Prometheus listener, "" for none
	Control  string // path of the unix socket for baton relay status, flows, ...
	Limits   Limits
	Timeouts Timeouts
	Trunks   *Trunks // accepted here; nil: none
	Peers    []Peer  // relays that trunks are opened to, in the file's order
	Entries  []Entry // where flows come in
	Choose   Choose  // how, where an entry leaves the way to the relay
	// Return are the interfaces towards servers that are to see their clients' addresses: their packets come back here, and are given to
	// the relay. Needed for ClientAddress Spoofed.
	Return   []string
	Allow    []Allow // servers that flows may go to from here, besides an Entry's Destination; empty: to none
	Warnings []string
}

// Limits bound what the relay holds.
type Limits struct {
	Flows     int // at one time, on all workers
	Early     int // onward connections begun by a SYN whose client has not been accepted
	PerSource int // of these, for one client address
	Pipe      int // bytes that a direction of a flow holds at most between its sockets
}

// Timeouts are separate for each phase of a flow.
type Timeouts struct {
	Connect time.Duration // the onward connection
	Header  time.Duration // what a flow begins with: PROXY, SOCKS, CONNECT, a trunk's header
	Early   time.Duration // from a SYN to its accept
	Idle    time.Duration // no byte either way; 0: none
	Unacked time.Duration // bytes that a peer does not acknowledge, and probes of one that is silent (TCP_USER_TIMEOUT)
	Reset   time.Duration // how long bytes in front of a reset that is passed on may take to be acknowledged
	Stop    time.Duration // how long flows may go on after SIGTERM
}

// Security is how a trunk is protected.
type Security string

// The kinds of trunks.
const (
	TLS       Security = "tls"       // TLS 1.3, certificates of both ends
	Plaintext Security = "plaintext" // the header's keyed MAC alone; bytes can be read and changed on the way
)

// Credentials are what relays know each other by.
type Credentials struct {
	Security    Security
	Certificate string // PEM files, of TLS
	Key         string
	Authority   string // file of CA certificates that signed the peers'; a peer's name is among its certificate's DNS names
	SecretFile  string // of Plaintext: base64 or hex
	Secret      []byte // what Load has found in SecretFile, at least 32 bytes; nil of TLS, and of what Parse returns
}

// Tuning is what is set on the sockets of trunks alone.
type Tuning struct {
	Congestion string // a kernel's name of an algorithm, "" for the system's
	Buffer     int    // bytes of SO_RCVBUF and SO_SNDBUF: the window between the relays; 0: the system's
	Start      Start
}

// Start is the first window of a trunk.
type Start struct {
	Learn bool // between Least and Most by what flows have found; otherwise always Most
	Least int  // segments
	Most  int  // segments; 0: the system's, nothing is set
	Rate  int  // bytes per second that one trunk is paced at, at most; 0: as its algorithm has it
}

// Trunks are accepted from other relays. A listener is for one family alone, as an Entry's.
type Trunks struct {
	Listen      []netip.AddrPort
	Credentials Credentials
	Tuning      Tuning
	Waiting     int // trunks that have no flow, on all workers
}

// Peer is a relay that trunks are opened to.
type Peer struct {
	Name        string
	Address     netip.AddrPort
	Cloud       string
	Credentials Credentials
	Tuning      Tuning
	Ready       Ready
	Line        int // in the file
}

// Ready bounds the trunks that are kept ready for a peer, on all workers together.
type Ready struct {
	Min, Max int
	Age      time.Duration // a trunk is replaced when it has waited this long
	Probe    time.Duration // TCP keepalive of one that waits
}

// Mode is how an entry learns where a flow is to go.
type Mode string

// The modes of an entry.
const (
	Plain       Mode = "plain"       // to Destination
	Transparent Mode = "transparent" // to where the client has sent its SYN (TPROXY)
	Proxy       Mode = "proxy"       // to where a PROXY protocol header (v1 or v2) says
	SOCKS5      Mode = "socks5"      // RFC 1928, without authentication: for tests and one's own machines
	Connect     Mode = "connect"     // HTTP CONNECT, likewise
)

// EarlySYN says when the onward connection begins.
type EarlySYN string

// The kinds of early SYN.
const (
	EarlyOff     EarlySYN = "off"
	Optimistic   EarlySYN = "optimistic"    // the client is answered at once; of a server that refuses it learns by a reset
	ConnectFirst EarlySYN = "connect-first" // the client is answered when the server has
)

// ClientAddress is what the server sees as its client.
type ClientAddress string

// What servers may see.
const (
	Hidden      ClientAddress = "relay"       // the relay's address
	Spoofed     ClientAddress = "transparent" // the client's: the way back must lead over the relay
	ProxyHeader ClientAddress = "proxy-v2"    // the relay's, and the client's in a PROXY v2 header in front
)

// Entry is a listener for flows. Its address is for one family alone: "[::]" is not IPv4 (IPV6_V6ONLY).
type Entry struct {
	Name          string
	Listen        netip.AddrPort
	Mode          Mode
	Destination   netip.AddrPort // of Plain
	Intercept     *Intercept     // of Transparent; nil: the user steers packets to the listener himself
	Interfaces    []string       // where clients come in: needed for EarlySYN and Intercept
	EarlySYN      EarlySYN
	Via           []string // relays in the order of the way, the first of them a peer; empty: the server is connected to from here
	Auto          bool     // the relay chooses the way for each server, see Choose; Via is empty
	ClientAddress ClientAddress
	Congestion    string // towards the client and, from here, the server; "" for the system's
	Line          int    // in the file
}

// Choose says how ways are chosen for the entries that leave it to the relay.
type Choose struct {
	Clouds  plan.Clouds   // whether a way may pass relays of several clouds
	Most    int           // relays of a way, this one among them
	Refresh time.Duration // from one measurement of a distance to the next, or longer where there are many
	Margin  float64       // by how much a way must be better than the one in use: 0.1 is a tenth
	Dwell   time.Duration // how long a relay that was out of reach must be in reach until it is used again
}

// Intercept says which packets of an entry's interfaces are for its listener.
type Intercept struct {
	Destinations []netip.Prefix
	Ports        []document.Ports // at least one
}

// Allow is a set of servers.
type Allow struct {
	Prefix netip.Prefix
	Ports  []document.Ports // empty: all
}
