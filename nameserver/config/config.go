// Package config is the name server's configuration: what the user writes in nameserver.yaml, checked and with its defaults filled in. The keys are a
// contract: keys are added, never renamed.
//
// Load and Parse refuse what cannot work with one line for each mistake, "file:line:column: key.path: what is wrong (what to write instead)".
package config

import (
	"net/netip"
	"time"

	"baton/document"
	"baton/policy"
	"baton/policy/health"
)

// Config is a validated nameserver.yaml. It is never changed after Load has returned it.
type Config struct {
	File       string // where it was read, for messages
	Name       string // NSID, and in the status; "": none
	Control    string // path of the unix socket for baton nameserver status
	Metrics    string // host:port for Prometheus; "": none
	Listen     []netip.AddrPort
	Sockets    int // for UDP, on each address; 0: as many as processors
	UDP        UDP
	TCP        TCP
	Cookies    Cookies
	Subnet     bool // client subnets are heeded
	Limits     Limits
	Zones      []Zone
	Services   []Service
	Health     *health.Check // nil: all surrogates count as up
	Policy     *policy.Config
	Controller *Controller // nil: the state of the surrogates is from the checks alone
	Warnings   []string

	places document.Places
}

// UDP bounds datagrams.
type UDP struct {
	Size   int // longest answer
	Buffer int // of a socket, for queries that wait
}

// TCP bounds connections.
type TCP struct {
	Connections int
	PerNetwork  int // from one /24 or /56
	Idle        time.Duration
}

// Cookies authenticate the addresses of clients.
type Cookies struct {
	Off     bool
	File    string     // of secrets, for several servers behind one address; "": one of this process
	Secrets [][16]byte // of File, of Load
}

// Limits bound like answers to a network over UDP.
type Limits struct {
	Rate    int // a second; 0: no limits
	Slip    int
	Prefix4 int
	Prefix6 int
	Exempt  []netip.Prefix
}

// Zone is a zone that is served.
type Zone struct {
	Name     string // absolute, in lower case
	File     string
	Transfer []netip.Prefix // clients that may have all of it
	Key      string         // path of the key files without their ends; "": none
	Keys     string         // folder with the key files; "": none. Without both answers are not signed
	Routed   []Routed
	Path     string // in the configuration, for messages
}

// Routed is a name whose addresses are chosen for each client.
type Routed struct {
	Name    string // absolute, in lower case
	Service string
	Path    string // in the configuration, for messages
}

// Wrong is a mistake at a value of the configuration.
func (c *Config) Wrong(path, problem, valid string) error {
	return c.places.Wrong(path, problem, valid)
}
