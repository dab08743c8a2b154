// Package outcome has the words for what became of a request or a hello that the kernel has left to user space: in metrics, in
// explanations, in the reference and in code.
package outcome

import (
	"slices"
	"strings"
)

// Outcome tells what became of a request.
type Outcome string

// Outcomes.
const (
	Spliced     Outcome = "spliced"      // to a surrogate, by the kernel
	Proxied     Outcome = "proxied"      // a socket has to read it, for none of the reasons below
	Refused     Outcome = "refused"      // for its form, or because it was late
	NoRoute     Outcome = "no route"     // answered: no route matches it
	NoSurrogate Outcome = "no surrogate" // answered: none of its pool is up
	Bypass      Outcome = "bypass"       // sent elsewhere by its pool's policy
	Pipelined   Outcome = "pipelined"    // proxied: another request came with it
	// These two are proxied, as the kernel cannot put fields into them.
	ClientField   Outcome = "client field"   // it has a field that the router sets
	NotInsertable Outcome = "not insertable" // its form
	// These are proxied, as nothing can be spliced.
	NoLeg          Outcome = "no leg"          // none of three surrogates had one in time
	NoPlace        Outcome = "no place"        // limits.sessions is reached
	LocalSurrogate Outcome = "local surrogate" // the surrogate is on this host
	OtherFamily    Outcome = "other family"    // the surrogate's address is of another family than the VIP
	Stalled        Outcome = "stalled"         // the rest of its head or hello does not come
	// Of connections that sockets have accepted by themselves, as no kernel program has seen them.
	Interface   Outcome = "interface"    // they come in on an interface that is not one of the VIP's
	LocalClient Outcome = "local client" // the client is on this host
	Mode        Outcome = "mode"         // the VIP's mode is proxy
)

// All are all outcomes of decisions.
var All = []Outcome{
	Spliced, Proxied, Refused, NoRoute, NoSurrogate, Bypass, Pipelined, ClientField, NotInsertable,
	NoLeg, NoPlace, LocalSurrogate, OtherFamily, Stalled,
}

// Reasons are those for which connections are proxied.
var Reasons = []Outcome{
	Proxied, Pipelined, ClientField, NotInsertable, NoLeg, NoPlace, LocalSurrogate, OtherFamily, Stalled,
	Interface, LocalClient, Mode,
}

// Shortages are the reasons that tell of a mistake or a limit, and not of what clients ask for.
var Shortages = []Outcome{Interface, NoLeg, NoPlace}

// IsProxied reports whether a socket reads the client's requests, and proxies them.
func (o Outcome) IsProxied() bool { return slices.Contains(Reasons, o) }

// List has all outcomes of decisions in one line.
func List() string { return joinWords(All) }

// ListReasons has all reasons in one line.
func ListReasons() string { return joinWords(Reasons) }

func joinWords(all []Outcome) string {
	words := make([]string, len(all))
	for i, o := range all {
		words[i] = string(o)
	}
	return strings.Join(words, ", ")
}
