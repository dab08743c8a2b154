package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Relay is a relay that a route may pass.
type Relay struct {
	Name  string
	Cloud string // label; "" is a label, too
}

// Clouds is the policy for routes through several clouds.
type Clouds string

// The policies. The benefit of mixing was measured once, on two clouds: "beneficial in some of the evaluated scenarios" (section 4.5);
// hence PreferOne is the default.
const (
	PreferOne Clouds = "prefer" // within one cloud, unless mixing is faster by Question.Margin
	AnyCloud  Clouds = "any"    // the fastest
	OneCloud  Clouds = "one"    // within one cloud
)

// Question is the input of a plan. A zero field means its default.
type Question struct {
	Client, Server string // end points, as named in RTTs
	Relays         []Relay
	RTTs           Matrix
	Rates          map[Pair]float64 // bytes per second from one node to another, where known

	Clouds Clouds
	Margin float64       // by how much a mixed route must be faster; default 0.1: 10 %
	Near   time.Duration // distances that differ by less count as equal; default 1 ms
	Most   int           // relays on a route; default 3, at most 8
	Gain   float64       // factor by which each further relay must divide the longest trunk; default 1.25

	Size   int64   // bytes from the server to the client by which routes are compared; default 1 MB
	Sizes  []int64 // bytes for which times are estimated; default 10 kB, 100 kB, 1 MB, 10 MB and 50 MB (those of the paper's programs)
	Window int64   // initial window of a new connection outside the relays, bytes; default 10 segments (RFC 6928)
	Start  int64   // initial window of a trunk, bytes; default Window
}

// Limits of a question.
const (
	mostRelays = 256
	mostHops   = 8 // relays in a trunk's header
	mostSizes  = 32
	segment    = 1460 // bytes, over Ethernet and IPv4
)

func (q Question) withDefaults() Question {
	if q.Clouds == "" {
		q.Clouds = PreferOne
	}
	if q.Margin == 0 {
		q.Margin = 0.1
	}
	if q.Near == 0 {
		q.Near = time.Millisecond
	}
	if q.Most == 0 {
		q.Most = 3
	}
	if q.Gain == 0 {
		q.Gain = 1.25
	}
	if q.Size == 0 {
		q.Size = 1e6
	}
	if q.Sizes == nil {
		q.Sizes = []int64{1e4, 1e5, 1e6, 1e7, 5e7}
	}
	if q.Window == 0 {
		q.Window = 10 * segment
	}
	if q.Start == 0 {
		q.Start = q.Window
	}
	return q
}

// check validates a question with its defaults.
func (q *Question) check() error {
	if q.Client == q.Server {
		return fmt.Errorf("client and server are both %q", q.Client)
	}
	if len(q.Relays) == 0 {
		return errors.New("there are no relays")
	}
	if len(q.Relays) > mostRelays {
		return fmt.Errorf("%d relays are too many (at most %d)", len(q.Relays), mostRelays)
	}
	seen := make(map[string]bool, len(q.Relays))
	for _, r := range q.Relays {
		switch {
		case seen[r.Name]:
			return fmt.Errorf("relay %q appears twice", r.Name)
		case r.Name == q.Client || r.Name == q.Server:
			return fmt.Errorf("%q is a relay and an end point", r.Name)
		}
		seen[r.Name] = true
	}
	for _, p := range sorted(q.Rates) {
		if rate := q.Rates[p]; !(rate > 0) || math.IsInf(rate, 0) {
			return fmt.Errorf("rate %s: %g bytes per second is invalid", p, rate)
		}
	}
	if err := q.RTTs.check(); err != nil {
		return err
	}
	return q.checkOptions()
}

func (q *Question) checkOptions() error {
	switch {
	case !slices.Contains([]Clouds{PreferOne, AnyCloud, OneCloud}, q.Clouds):
		return fmt.Errorf("clouds %q: want one of prefer, any, one", q.Clouds)
	case !(q.Margin >= 0) || q.Margin > 10:
		return fmt.Errorf("margin %g: want 0 to 10", q.Margin)
	case q.Near < 0 || q.Near > longestRTT:
		return fmt.Errorf("near %s: want 0 to %s", q.Near, longestRTT)
	case q.Most < 1 || q.Most > mostHops:
		return fmt.Errorf("at most %d relays: want 1 to %d", q.Most, mostHops)
	case !(q.Gain >= 1) || q.Gain > 1000:
		return fmt.Errorf("gain %g: want 1 to 1000", q.Gain)
	case len(q.Sizes) > mostSizes:
		return fmt.Errorf("%d sizes are too many (at most %d)", len(q.Sizes), mostSizes)
	}
	for _, n := range append(slices.Clone(q.Sizes), q.Size, q.Window, q.Start) {
		if n <= 0 {
			return fmt.Errorf("%d bytes: want more than 0", n)
		}
	}
	return nil
}

// clouds are the labels of the relays, sorted.
func (q *Question) clouds() []string {
	var out []string
	for _, r := range q.Relays {
		out = append(out, r.Cloud)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// named returns the relays ordered by name: it breaks ties, so that the order in the file does not matter.
func (q *Question) named() []Relay {
	return slices.SortedFunc(slices.Values(q.Relays), func(a, b Relay) int { return strings.Compare(a.Name, b.Name) })
}
