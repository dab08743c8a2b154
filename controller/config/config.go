// Package config is the controller's configuration: what the user writes in controller.yaml, checked and with its defaults filled in. The keys are a
// contract: keys are added, never renamed.
//
// Load and Parse refuse what cannot work with one line for each mistake, "file:line:column: key.path: what is wrong (what to write instead)".
package config

import (
	"crypto/tls"
	"time"

	"baton/controller/lldp"
	"baton/controller/northbound"
	"baton/controller/paths"
	"baton/controller/store"
	"baton/openflow"
)

// Config is a validated controller.yaml. It is never changed after Load has returned it.
type Config struct {
	File       string // where it was read, for messages
	Name       string // of this controller among several
	Listen     Listen
	TLS        TLS                  // of the switches' channels; zero: none
	Northbound *northbound.Settings // nil: none
	Store      store.Settings
	Discovery  Discovery
	Switches   []Switch
	Only       bool // no other switches than Switches
	Paths      Paths
	CDN        *CDN // nil: only a network
	Warnings   []string

	// Of the files that are named, of Load.
	Key      lldp.Key    // nil: a random one
	Identity *tls.Config // nil: without TLS
}

// Listen has the addresses of the listeners.
type Listen struct {
	OpenFlow []Endpoint
	Metrics  string // host:port for Prometheus; "": none
	Control  string // path of the unix socket for baton controller status
}

// Endpoint is where switches connect to: tcp:HOST:PORT, tls:HOST:PORT or unix:PATH.
type Endpoint struct{ Method, Address string }

func (e Endpoint) String() string { return e.Method + ":" + e.Address }

// TLS authenticates switches and the controller to each other.
type TLS struct{ Certificate, Key, Authority string }

// Discovery is of links.
type Discovery struct {
	Secret   string // file, the same for several controllers; "": a random one
	Interval time.Duration
}

// Switch is a switch that has a name, or ports for hosts alone.
type Switch struct {
	ID   uint64
	Name string
	Core bool              // has the actions that join sessions, though it does not say so
	Edge []openflow.PortNo // ports for hosts alone
}

// Paths is how paths are installed.
type Paths struct {
	Cache  bool
	Spread paths.Spread
}
