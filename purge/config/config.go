// Package config is the purge's configuration: what the user writes in purge.yaml, checked and with its defaults filled in. The keys
// are a contract: keys are added, never renamed.
//
// Load and Parse refuse what cannot work with one line, "file:line:column: key.path: what is wrong (what to write instead)".
package config

import (
	"net/netip"

	"baton/document"
	"baton/purge/policy"
)

// Config is a validated purge.yaml. It is never changed after Load has returned it.
type Config struct {
	File     string   // where it was read, for messages
	Control  string   // path of the unix socket for baton purge status
	Metrics  string   // host:port for Prometheus; "": none
	Cgroups  []string // control groups whose processes' connections are watched, as paths in their hierarchy; "/" is the whole host
	Limits   Limits
	Policies []Policy // in the file's order: the first that matches a connection applies
}

// Limits bound memory.
type Limits struct {
	Marks int // connections that may be marked at one time
}

// Policy selects connections and defines when they are dormant.
type Policy struct {
	Name      string
	Addresses []netip.Prefix // of this host's servers
	Ports     []document.Ports
	Exempt    []netip.Prefix // clients whose connections are never ended
	DryRun    bool           // nothing is ended, only counted and logged
	policy.Policy
	Line int // in the file
}
