// Package outcome has the words for what became of a request or a hello that the kernel has left to user space: in metrics, in
// explanations, in the reference and in code.
package outcome

import "strings"

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
)

// All are all outcomes.
var All = []Outcome{
	Spliced, Proxied, Refused, NoRoute, NoSurrogate, Bypass, Pipelined, ClientField, NotInsertable,
	NoLeg, NoPlace, LocalSurrogate, OtherFamily, Stalled,
}

// List has all outcomes in one line.
func List() string { return joinWords(All) }

func joinWords(all []Outcome) string {
	words := make([]string, len(all))
	for i, o := range all {
		words[i] = string(o)
	}
	return strings.Join(words, ", ")
}
