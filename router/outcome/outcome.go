// Package outcome has the words for what became of a request or a hello that the kernel has left to user space: in metrics, in
// explanations, in the reference and in code.
package outcome

import "strings"

// Outcome tells what became of a request.
type Outcome string

// Outcomes.
const (
	Spliced     Outcome = "spliced"      // to a surrogate, by the kernel
	Proxied     Outcome = "proxied"      // no leg could be had, or a socket has to read it
	Refused     Outcome = "refused"      // for its form, or because it was late
	NoRoute     Outcome = "no route"     // answered: no route matches it
	NoSurrogate Outcome = "no surrogate" // answered: none of its pool is up
	Bypass      Outcome = "bypass"       // sent elsewhere by its pool's policy
	Pipelined   Outcome = "pipelined"    // proxied: another request came with it
	// These two are proxied, as the kernel cannot put fields into them.
	ClientField   Outcome = "client field"   // it has a field that the router sets
	NotInsertable Outcome = "not insertable" // its form
)

// All are all outcomes.
var All = []Outcome{Spliced, Proxied, Refused, NoRoute, NoSurrogate, Bypass, Pipelined, ClientField, NotInsertable}

// List has all outcomes in one line.
func List() string {
	words := make([]string, len(All))
	for i, o := range All {
		words[i] = string(o)
	}
	return strings.Join(words, ", ")
}
