// Package config is the request router's configuration: router.yaml, checked and with defaults filled in. Its keys are a
// contract: new ones may be added, none is renamed.
//
// Load and Parse report an error in one line, "file:line:column: key.path: problem (remedy)". Surprising but valid settings, such
// as a surrogate that can only be proxied, are reported in Config.Warnings. A VIP need not have a catch-all route: the router
// answers a request without a matching route with 404.
package config

import (
	"crypto/tls"
	"net/netip"
	"regexp"
	"time"

	"baton/document"
)

// Mode is how a VIP serves requests.
type Mode string

// The three methods compared by Boros et al. (section 5).
const (
	Handoff  Mode = "handoff"  // the session is spliced onto the surrogate
	Redirect Mode = "redirect" // 302 to the surrogate's own name
	Proxy    Mode = "proxy"    // an ordinary L7 proxy
	Reactive Mode = "reactive" // a controller hands the session over, by OpenFlow: their own method
)

// Protocol is what clients of a VIP speak.
type Protocol string

// The protocols of a VIP.
const (
	HTTP Protocol = "http" // HTTP/1.1 without TLS: each request is routed
	TLS  Protocol = "tls"  // the hello is routed, and its session with it; certificates and keys stay at the surrogates
	QUIC Protocol = "quic" // the same over UDP: HTTP/3, and whatever else has a TLS hello in QUIC
)

// Encrypted reports whether a session is routed as a whole, by its hello, because its requests cannot be read.
func (p Protocol) Encrypted() bool { return p == TLS || p == QUIC }

// Policy is how a surrogate of a pool is chosen.
type Policy string

// The policies of a pool.
const (
	RoundRobin    Policy = "round-robin"
	Weighted      Policy = "weighted"
	LeastSessions Policy = "least-sessions"
	Hash          Policy = "hash"
	Nearest       Policy = "nearest"
	FromFile      Policy = "file" // a policy that name servers and controllers have, too: see Shared
)

// HasZones reports whether the policy knows which surrogates are near to whom.
func (p Policy) HasZones() bool { return p == Nearest || p == FromFile }

// Reuse says which requests may use a leg that has served another client.
type Reuse string

// The kinds of reuse, as in HAProxy's http-reuse.
const (
	ReuseAlways Reuse = "always" // any
	ReuseSafe   Reuse = "safe"   // a client's first request takes a leg that has served nobody
	ReuseNever  Reuse = "never"  // a leg is closed with its client
)

// Pipelining says how to handle a request sent before the previous response is complete.
type Pipelining string

// The kinds of pipelining.
const (
	PipeliningHold Pipelining = "hold" // it waits, and is routed separately
	PipeliningPass Pipelining = "pass" // it follows the one before it
)

// Config is a validated router.yaml, immutable once loaded.
type Config struct {
	File     string // its name, for messages
	Listen   Listen
	Limits   Limits
	Timeouts Timeouts
	Access   []AccessLog // where requests are logged; none: nowhere
	VIPs     []VIP
	Pools    []Pool          // in the file's order
	Warnings []string        // one line each, in the form of errors
	Places   document.Places // of the values that messages name
}

// Listen is the router's own interfaces.
type Listen struct {
	Metrics string // host:port of the Prometheus listener, "" for none
	Control string // path of the unix socket for baton router status, sessions, ...
	State   string // directory on a BPF file system that keeps sessions across restarts
	Saved   string // directory that keeps changes by API, and what was discovered last; "" for none
}

// Limits bound the router's tables.
type Limits struct {
	Sessions int // splices and idle legs together
	Pending  int // undecided clients
}

// Timeouts are separate for each phase of a session.
type Timeouts struct {
	Handshake time.Duration // from the first byte of a request to its decision
	Idle      time.Duration // spliced, without packets in either direction
	Closing   time.Duration // one or both ends have sent FIN
	QUICIdle  time.Duration // a QUIC connection without datagrams in either direction: their ends cannot be seen
}

// VIP is an address and port that clients connect to.
type VIP struct {
	Address    netip.AddrPort
	Mode       Mode
	Controller *Controller // of mode reactive
	Protocol   Protocol
	TLS        []KeyPair // protocol http: clients use TLS, which the router ends with one of these; none: they do not
	Interfaces []string  // towards clients
	Pipelining Pipelining
	Routes     []Route // first match wins; only the last may match everything
	Unlogged   bool    // its requests are in no access log
	Line       int     // in the file
}

// Secure reports whether clients use TLS.
func (v *VIP) Secure() bool { return v.Protocol.Encrypted() || len(v.TLS) > 0 }

// KeyPair is a certificate of the router's own with its key.
type KeyPair struct {
	Certificate string // path of a PEM file with the certificate and its chain
	Key         string
	Pair        tls.Certificate // what Load has read; empty after Parse
}

// Route sends matching requests to a pool.
type Route struct {
	Match   Match
	Rewrite Rewrite
	Pool    string
	Line    int // in the file, for baton router explain
}

// Match holds if all conditions that are set hold. The zero value matches every request of HTTP, and every hello with a name.
type Match struct {
	Host       string         // lower case, no port; "*.example.net" matches any name below
	PathPrefix string         // compared with the raw path, byte by byte: nothing is decoded or normalised
	PathRegex  *regexp.Regexp // on the raw path without the query; not anchored unless it says so
	Methods    []string       // upper case
	Headers    []HeaderMatch

	// Of protocols tls and quic.
	SNI   string   // the name in the hello, as hello.Match compares it
	ALPN  []string // the client offers one of these
	NoSNI bool     // hellos without a name, which no other route matches
}

// HeaderMatch holds when a header of that name exists with that value.
type HeaderMatch struct {
	Name  string         // canonical form
	Value string         // exact, unless Regex is set; "" with no Regex: present
	Regex *regexp.Regexp // on the value of one header line; nil: exact
}

// Pool is a set of surrogates that can answer the same requests.
type Pool struct {
	Name      string
	Policy    Policy
	HashQuery []string // policy hash: query parameters to hash instead of the path
	Nearest   []Zone   // of policies that have zones: longest prefixes first, so that the first match wins
	Shared    *Shared  // policy file
	Legs      Legs
	Reuse     Reuse
	Encrypted bool // of VIPs with an encrypted protocol
	// ClientAddress needs legs that serve one client, unless it is a field.
	ClientAddress ClientAddress
	AddressMode   AddressMode // of a field; "" without
	AddFields     []AddedField
	QUICOnly      bool      // of VIPs of protocol quic alone: it has no legs
	Source        Source    // of what surrogates receive
	ServerID      *ServerID // in the surrogates' QUIC connection ids; nil: none
	Health        *Health   // nil: no active checks
	Surrogates    []Surrogate
	Discover      []Discover // more surrogates
	Line          int        // in the file
}

// Zone lists the surrogates nearest to a client prefix, best first.
type Zone struct {
	Prefix     netip.Prefix
	Surrogates []string
}

// LegsMode says when legs are opened.
type LegsMode string

// The modes of leg pools.
const (
	LegsReady    LegsMode = "ready"     // ahead of demand
	LegsOnDemand LegsMode = "on-demand" // when a request needs one
)

// Legs configures a surrogate's leg pool.
type Legs struct {
	Mode     LegsMode
	Min      int           // idle legs kept ready
	Max      int           // all legs, idle and spliced
	Idle     time.Duration // an idle leg is renewed after this; sooner if the surrogate closes earlier
	Requests int           // a leg is renewed after this many requests; 0: as learnt from the surrogate
	// Handshake is the RTT that a surrogate measures in a leg's handshake.
	Handshake time.Duration
	// Sources are the router's addresses that legs start from; none: the route's.
	Sources []netip.Addr
}

// SourcesTo are the sources of the surrogate's family.
func (l *Legs) SourcesTo(surrogate netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range l.Sources {
		if a.Is4() == surrogate.Is4() {
			out = append(out, a)
		}
	}
	return out
}

// Health is an active check: a request of HTTP, for an encrypted pool over TLS.
type Health struct {
	Path     string // "" for an encrypted pool: handshakes alone
	Host     string // Host header; "" for the surrogate's address, or the name of the handshake
	Interval time.Duration
	Timeout  time.Duration
	Rise     int // successes that bring a surrogate up
	Fall     int // failures that take it down
}

// Unspliced is the reason for which sessions of the VIP can only be proxied to the surrogate, judging by their addresses; "" if
// they can be spliced.
func Unspliced(v *VIP, s *Surrogate) string {
	switch {
	case v.Address.Addr().IsLoopback():
		return "the VIP is on loopback"
	case s.Address.Addr().IsLoopback():
		return "the surrogate is on loopback"
	case s.Address.Addr().Is4() != v.Address.Addr().Is4():
		return "the surrogate is of another address family than the VIP"
	}
	return ""
}

// Surrogate is an unmodified HTTP server.
type Surrogate struct {
	Name    string // unique in the file; used by baton router backend drain
	Address netip.AddrPort
	Weight  int    // 0 to 256; 0: no new sessions, whatever the policy
	Weighed bool   // by a command or a controller, so that the weight counts more than a shared policy's
	Public  string // mode redirect: scheme://host[:port] for clients; "" for http://Address
	Line    int    // in the file; 0: it is not from there

	// Priority is SRV's: those of a higher number get sessions only while none of a lower one is available.
	Priority int
	Origin   string // where it is from: "dns web.example.net:80", "api"; "": this file
}
