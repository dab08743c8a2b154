// Package config is the forwarder's configuration: what the user writes in forwarder.yaml, checked and with its defaults filled
// in. The names are a contract; they are added to, never renamed.
//
// Load and Parse refuse what cannot work with one line, "file:line:column: key.path: what is wrong (what would be right)". What
// works but not as one might expect is told in Config.Warnings.
package config

import (
	"time"

	"baton/openflow"
)

// FailMode is what happens to packets while no controller can be reached [6.3.3].
type FailMode string

// The modes.
const (
	// Secure: flow entries stay and go on; what they do not match is dropped.
	Secure FailMode = "secure"
	// Standalone: the forwarder learns addresses and switches by them.
	Standalone FailMode = "standalone"
)

// Config is a validated forwarder.yaml. It is never changed after Load has returned it.
type Config struct {
	File        string // where it was read, for messages
	Name        string // of the forwarder: of its pins, devices and sockets
	DatapathID  uint64 // 0: made of the first port's MAC
	Ports       []Port // by their numbers, at least one
	Local       string // the host's interface that is the port LOCAL, "" for none; the forwarder makes it
	Controllers []Controller
	Listen      []Listener
	TLS         *TLS // nil: none
	FailMode    FailMode
	NormalStack bool // NORMAL leaves a packet to the host's stack; else it is a learning bridge
	Retry       Retry
	Limits      Limits
	Metrics     string // host:port of the Prometheus listener, "" for none
	Control     string // path of the unix socket for baton forwarder status, ...
	State       string // folder where flow entries survive a restart, "" for nowhere
	Warnings    []string
}

// Port is an interface of the host with its number.
type Port struct {
	No        openflow.PortNo
	Interface string
	// HostSide: what the host sends by the interface comes in by the port, and what goes out of it is received by the host.
	HostSide bool
}

// Endpoint is where a channel goes to or comes in: written "tcp:HOST:PORT", "tls:HOST:PORT" or "unix:PATH", whether it is
// connected to or listened on.
type Endpoint struct {
	Method  string // "tcp", "tls" or "unix"
	Address string // host:port or the absolute path
}

// String is the form in the file, which is also what ovs-ofctl takes.
func (e Endpoint) String() string { return e.Method + ":" + e.Address }

// Peers are what is true of the controllers at an endpoint.
type Peers struct {
	// ReadOnly: they have the role slave and get no other (role: slave).
	ReadOnly bool
	// Idle is how long a controller may say nothing before it is asked for an echo, and Dead how long before the channel ends.
	Idle, Dead time.Duration
}

// Controller is connected to.
type Controller struct {
	Connect Endpoint
	// Name is the one that a controller's certificate must be for, "" for any that the authority has signed.
	Name string
	Peers
}

// Listener is where controllers and tools connect to the forwarder.
type Listener struct {
	Listen Endpoint
	Peers
}

// TLS are the PEM files of the forwarder's certificate and key, and of the authority that must have signed the peers'.
type TLS struct{ Certificate, Key, Authority string }

// Retry is how long after a failure the next attempt to connect comes: each time longer, from Least to Most.
type Retry struct{ Least, Most time.Duration }

// Limits bound what the forwarder holds.
type Limits struct {
	Tables   int // from table 0 on
	Entries  int // in all tables together
	Groups   int
	Meters   int
	Cache    int // exact flows that each processor remembers
	Channels int // that others open at each endpoint, at once
	Bindings int // flows whose link the kernel remembers; 0: none, and the action bind is refused
}
