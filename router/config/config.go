// Package config is the request router's configuration: what the user writes in router.yaml, checked and with its
// defaults filled in. The names are a contract; they are added to, never renamed.
//
// Load and Parse refuse what cannot work with one line, "file:line:column: key.path: what is wrong (what would be right)". What
// works but not as one might expect, such as a surrogate that can only be proxied, is told in Config.Warnings. A VIP
// need not have a route that matches everything: a request that no route matches is answered 404 by the router itself.
package config

import (
	"net/netip"
	"regexp"
	"time"

	"baton/document"
)

// Mode is how a VIP answers.
type Mode string

// The three contenders of Boros et al. (section 5).
const (
	Handoff  Mode = "handoff"  // the session is spliced onto the surrogate
	Redirect Mode = "redirect" // 302 to the surrogate's own name
	Proxy    Mode = "proxy"    // an ordinary L7 proxy
)

// Policy is how a pool picks a surrogate.
type Policy string

// The policies of a pool.
const (
	RoundRobin    Policy = "round-robin"
	Weighted      Policy = "weighted"
	LeastSessions Policy = "least-sessions"
	Hash          Policy = "hash"
	Nearest       Policy = "nearest"
)

// Reuse says which legs of a pool a request may take that have served another client.
type Reuse string

// The kinds of reuse, as HAProxy's http-reuse has them.
const (
	ReuseAlways Reuse = "always" // any
	ReuseSafe   Reuse = "safe"   // a client's first request takes a leg that has served nobody
	ReuseNever  Reuse = "never"  // a leg ends with its client
)

// Pipelining says what becomes of a request that comes before the response to the one before it is complete.
type Pipelining string

// The kinds of pipelining.
const (
	PipeliningHold Pipelining = "hold" // it waits, and is routed by itself
	PipeliningPass Pipelining = "pass" // it goes where the one before it went
)

// Config is a validated router.yaml. It is never changed after Load has returned it.
type Config struct {
	File     string // where it was read, for messages
	Listen   Listen
	Limits   Limits
	Timeouts Timeouts
	Access   []AccessLog // where requests are logged; none: nowhere
	VIPs     []VIP
	Pools    []Pool          // in the file's order
	Warnings []string        // one line each, of the same form as an error
	Places   document.Places // of the values that messages name
}

// Listen says where the router itself can be talked to.
type Listen struct {
	Metrics string // host:port of the Prometheus listener, "" for none
	Control string // path of the unix socket for baton router status, sessions, ...
	State   string // directory on a BPF file system that keeps sessions across restarts
}

// Limits bound what the router holds.
type Limits struct {
	Sessions int // splices and idle legs together
	Pending  int // client legs whose request is not yet decided
}

// Timeouts are separate for each phase of a session.
type Timeouts struct {
	Handshake time.Duration // client leg: from the first byte of a request to a decision
	Idle      time.Duration // spliced, nothing seen either way
	Closing   time.Duration // one or both ends have said FIN
}

// VIP is an address and port that clients connect to.
type VIP struct {
	Address    netip.AddrPort
	Mode       Mode
	Interfaces []string // where clients come in
	Pipelining Pipelining
	Routes     []Route // first match wins; at most one, the last, matches everything
	Unlogged   bool    // its requests are in no access log
	Line       int     // in the file
}

// Route sends the requests that match to a pool.
type Route struct {
	Match Match
	Pool  string
	Line  int // in the file, for baton router explain
}

// Match holds when each condition that is set holds. The zero value matches every request.
type Match struct {
	Host       string         // lower case, no port; "*.example.net" matches any name below
	PathPrefix string         // compared with the raw path, byte by byte: nothing is decoded or normalised
	PathRegex  *regexp.Regexp // on the raw path without the query; not anchored unless it says so
	Methods    []string       // upper case
	Headers    []HeaderMatch
}

// HeaderMatch holds when a header of that name exists with that value.
type HeaderMatch struct {
	Name  string         // canonical form
	Value string         // exact, unless Regex is set; "" with no Regex: present
	Regex *regexp.Regexp // on the value of one header line; nil: exact
}

// Pool is a set of surrogates that can answer the same requests.
type Pool struct {
	Name       string
	Policy     Policy
	HashQuery  []string // policy hash: query parameters to hash instead of the path
	Nearest    []Zone   // policy nearest: the longest prefixes first, so that the first that holds the client wins
	Legs       Legs
	Reuse      Reuse
	Health     *Health // nil: no active checks
	Surrogates []Surrogate
	Line       int // in the file
}

// Zone names the surrogates that are nearest to a client prefix, best first.
type Zone struct {
	Prefix     netip.Prefix
	Surrogates []string
}

// Legs bounds a surrogate's leg pool.
type Legs struct {
	Min      int           // idle legs kept ready
	Max      int           // legs in all, idle and spliced
	Idle     time.Duration // an idle leg is renewed after this; shorter when the surrogate turns out to close earlier
	Requests int           // a leg is renewed after this many requests; 0: when the surrogate says so
	// Handshake is the round trip that a surrogate measures in a leg's handshake.
	Handshake time.Duration
}

// Health is an active HTTP check.
type Health struct {
	Path     string
	Host     string // Host header; "" for the surrogate's address
	Interval time.Duration
	Timeout  time.Duration
	Rise     int // successes that bring a surrogate up
	Fall     int // failures that take it down
}

// Unspliced says why sessions of the VIP can only be proxied to the surrogate, as far as their addresses tell; "" when they do
// not.
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
	Name    string // unique in the file: what baton router backend drain takes
	Address netip.AddrPort
	Weight  int    // 0 to 256; 0: chosen for nothing new, whatever the policy
	Public  string // mode redirect: scheme://host[:port] that clients are sent to; "" for http://Address
	Line    int    // in the file
}
