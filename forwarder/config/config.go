// Package config reads the forwarder's configuration, forwarder.yaml: it validates it and fills in defaults. The keys are a contract: new ones
// may be added, none is renamed.
//
// Load and Parse report errors in one line, "file:line:column: key.path: what is wrong (what would be OK)". Config.Warnings lists what works,
// but perhaps not as expected.
package config

import (
	"time"

	"baton/openflow"
)

// FailMode is how packets are handled while no controller is connected [6.3.3].
type FailMode string

// The modes.
const (
	// Secure: flow entries stay in force; other packets are dropped.
	Secure FailMode = "secure"
	// Standalone: the forwarder becomes a learning bridge.
	Standalone FailMode = "standalone"
)

// Config is a validated forwarder.yaml. It is immutable.
type Config struct {
	File        string // its path, for messages
	Name        string // of the forwarder's pins, devices and sockets
	DatapathID  uint64 // 0: derived from the first port's MAC
	Ports       []Port // by number, at least one
	Local       string // the host's interface behind port LOCAL, "" for none; the forwarder makes it
	Controllers []Controller
	Listen      []Listener
	TLS         *TLS // nil: none
	FailMode    FailMode
	NormalStack bool // NORMAL passes packets to the host's stack, instead of a learning bridge
	Retry       Retry
	Limits      Limits
	Metrics     string // host:port of the Prometheus listener, "" for none
	Control     string // path of the unix socket for baton forwarder status, ...
	State       string // folder to store flow entries in, "" for none
	Warnings    []string

	// Datapaths are the forwarders of one process, each with a name, ports and endpoints of its own; nil: the process is this one forwarder,
	// and else only File, Name, Control, Metrics and Warnings of the whole count. Theirs have neither Control nor Metrics.
	Datapaths []*Config
}

// All returns the forwarders of the process.
func (c *Config) All() []*Config {
	if c.Datapaths == nil {
		return []*Config{c}
	}
	return c.Datapaths
}

// Port is a numbered interface of the host.
type Port struct {
	No        openflow.PortNo
	Interface string
	// HostSide: packets that the host sends by the interface come in by the port, and output is received by the host.
	HostSide bool
}

// Endpoint is an address to connect to or to listen at: "tcp:HOST:PORT", "tls:HOST:PORT" or "unix:PATH".
type Endpoint struct {
	Method  string // "tcp", "tls" or "unix"
	Address string // host:port or absolute path
}

// String returns the form in the file, which is ovs-ofctl's, too.
func (e Endpoint) String() string { return e.Method + ":" + e.Address }

// Peers are options for the controllers at an endpoint.
type Peers struct {
	// ReadOnly: they have role slave and cannot change it (role: slave).
	ReadOnly bool
	// Idle is how long a controller may be silent before it is sent an echo request, Dead how long before the channel ends.
	Idle, Dead time.Duration
}

// Controller is a controller to connect to.
type Controller struct {
	Connect Endpoint
	// Name must be in the controller's certificate; "": any that the authority has signed.
	Name string
	Peers
}

// Listener is an endpoint that controllers and tools connect to.
type Listener struct {
	Listen Endpoint
	Peers
}

// TLS are PEM files: the forwarder's certificate and key, and the authority of the peers' certificates.
type TLS struct{ Certificate, Key, Authority string }

// Retry is the delay before the next attempt to connect: it grows from Least to Most.
type Retry struct{ Least, Most time.Duration }

// Limits are capacities of the forwarder.
type Limits struct {
	Tables   int // numbered from 0
	Entries  int // in all tables together
	Groups   int
	Meters   int
	Cache    int // megaflows per processor
	Channels int // connections of others per endpoint
	Bindings int // size of the binding table; 0: none, and bind is refused
	Upcalls  int // bytes of packets that wait for the process, a power of two
}
