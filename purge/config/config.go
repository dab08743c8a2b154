// Package config is the purge's configuration: what the user writes in purge.yaml, checked and with its defaults filled in. The names
// are a contract; they are added to, never renamed.
//
// Load and Parse refuse what cannot work with one line, "file:line:column: key.path: what is wrong (what would be right)".
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
	Policies []Policy // in the file's order: the first that wants a connection has it
}

// Limits bound what is held.
type Limits struct {
	Marks int // connections that may be waited for at one time
}

// Policy says which connections it is about, and when one of them is dormant.
type Policy struct {
	Name      string
	Addresses []netip.Prefix // of servers of this host
	Ports     []document.Ports
	Exempt    []netip.Prefix // clients that are spared
	DryRun    bool           // nothing is ended, only counted and told
	policy.Policy
	Line int // in the file
}
