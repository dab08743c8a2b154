// Package discover finds surrogates that are not in router.yaml: by DNS, in a file that changes, by a controller, and by changes
// over the control socket.
//
// A Source yields sets of surrogates; the Runner keeps the last set of each, whatever happens to its source later. Merge, which is pure,
// makes the configuration in force of the file, the sets and the changes: it is the only place that knows all three. The router puts it in
// force as it does a reloaded file.
package discover

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"baton/router/config"
)

// Source is where sets of surrogates come from. Another kind of source needs this method alone, and a case in the router's New.
type Source interface {
	// Run reports each outcome until ctx is done: a set, or why there is none. It reports one as soon as it can.
	Run(ctx context.Context, report func(Outcome))
}

// Outcome is a result of a source.
type Outcome struct {
	Set *Set      // nil: the last one stays
	Err error     // why there is none, or why it is not complete; a *Failure has a kind
	Due time.Time // of the next outcome; zero: when something happens
}

// Set is what a source has, as a whole.
type Set struct {
	Surrogates []Surrogate
	// Zones are for policy nearest, after the file's own. None: those of the set before stay.
	Zones []config.Zone
}

// Surrogate is a surrogate of a source.
type Surrogate struct {
	Name     string         `json:"name"` // "": its address, after the source's prefix
	Address  netip.AddrPort `json:"address"`
	Weight   int            `json:"weight"`
	Priority int            `json:"priority,omitempty"`
	Public   string         `json:"public,omitempty"`
}

// FailureKind is a class of failures, for metrics.
type FailureKind string

// The failures of sources.
const (
	NXDomain    FailureKind = "nxdomain"    // the name does not exist
	NoData      FailureKind = "nodata"      // it has no such records
	ServFail    FailureKind = "servfail"    // the resolver could not find out
	Refused     FailureKind = "refused"     // the resolver does not answer this host, or not this question
	Timeout     FailureKind = "timeout"     // it does not answer at all
	Unreachable FailureKind = "unreachable" // no packet can be sent to it
	Malformed   FailureKind = "malformed"   // an answer, or a file, cannot be read
	Missing     FailureKind = "missing"     // there is no such file
	Lost        FailureKind = "lost"        // the connection to the controller has ended
	TooMany     FailureKind = "too-many"    // more surrogates than a pool can have
	Other       FailureKind = "other"
)

// Failure is why a source has no set.
type Failure struct {
	Kind FailureKind
	Text string
}

func (f *Failure) Error() string { return f.Text }

func failed(kind FailureKind, format string, args ...any) *Failure {
	return &Failure{kind, fmt.Sprintf(format, args...)}
}

// same reports whether two sets have the same content.
func (s *Set) same(o *Set) bool {
	return slices.Equal(s.Surrogates, o.Surrogates) && slices.EqualFunc(s.Zones, o.Zones, func(a, b config.Zone) bool {
		return a.Prefix == b.Prefix && slices.Equal(a.Surrogates, b.Surrogates)
	})
}
