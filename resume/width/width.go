// Package width decides over how many connections at a time to fetch a file whose connections break again and again, and when to start
// each. It is pure: callers pass the time.
//
// Each new connection costs a handshake and TCP's slow start (Al-Qudah et al., "Anycast-Aware Transport for Content Delivery Networks",
// section 3.2). As long as that is a small share of a connection's life, one connection is enough. Otherwise others fetch other parts of
// the file in parallel, out of phase, so that together they fill the path. An idle spare connection would save one or two round trips of
// the handshake; a connection that carries a part of the file also saves the slow start.
package width

import (
	"math"
	"slices"
	"time"
)

// Path is the state of the connections so far.
type Path struct {
	Life   time.Duration // average life of a connection until it breaks
	Breaks float64       // number of breaks that Life is based on
	Trip   time.Duration // round trip
	Start  time.Duration // from the start of a connection to its first byte of content
	Rate   float64       // best rate of all connections together, in bytes per second
	Bytes  float64       // average bytes that a connection receives in its life; 0: unknown

	Pressed bool // the rate has fallen although nothing broke recently
}

// initial is what a connection sends in its first round trip: ten segments (RFC 6928).
const initial = 10 * 1448

// enough is the share of the path above which a single connection is sufficient.
const enough = 0.995

// spare is by how much the connections together should exceed the path, because they are not evenly out of phase.
const spare = 1.25

// If each connection gets less than most of the path, add one: the others fill the path when it breaks.
const most = 0.95

// crowd is how many more connections there may be than slow start alone requires: a factor, by the share of its life that a connection
// loses to its start.
const crowd = 2.5

// Lanes returns the number of connections that fill the path, at most limit. It is 1 while nothing has broken, and small while little is
// known.
//
// What slow start alone would allow is an upper bound: parallel connections and losses end it early. So the bytes that connections really
// received count, within limits: on a full path each further connection takes bytes from the others.
func (p Path) Lanes(limit int) int {
	if p.Breaks <= 0 || p.Rate <= 0 || p.Life <= 0 {
		return 1
	}
	share := p.share()
	if share >= enough {
		return 1
	}
	wanted := spare / share
	if full := p.Rate * p.Life.Seconds(); p.Bytes > 0 {
		wanted = max(wanted, min(spare*full/p.Bytes, (1+crowd*(1-share))*wanted))
	}
	wanted = math.Ceil(wanted)
	if share < most {
		wanted++
	}
	return max(1, int(min(float64(limit), float64(p.bold()), wanted)))
}

// A life is brief if it is at most this many times a connection's start, and very brief at half of that: then one break is enough to open
// more than one other connection.
const brief = 8

// certain is the number of breaks after which the estimate is reliable.
const certain = 3

// bold returns how many connections the current knowledge justifies.
func (p Path) bold() int {
	switch {
	case p.Breaks >= certain:
		return math.MaxInt
	case p.Breaks >= 1.5 || p.Life <= brief/2*p.Start:
		return 8
	case p.Life <= brief*p.Start:
		return 4
	}
	return 2
}

// share returns the part of the path's rate that a single connection gets over its life, considering only slow start: losses reduce it, but
// they also reduce the measured rate.
func (p Path) share() float64 {
	full := p.Rate * p.Life.Seconds()
	left := (p.Life - p.Start).Seconds()
	trip := p.Trip.Seconds()
	got, window := 0.0, float64(initial)
	for ; left > 0 && window < p.Rate*trip; left -= trip {
		got += window * min(1, left/trip)
		window *= 2
	}
	got += max(0, left) * p.Rate
	return min(1, max(got, initial)/max(full, initial))
}

// Cost returns how long the path could have been used while a new connection becomes fast: handshake and slow start.
func (p Path) Cost() time.Duration {
	if p.Rate <= 0 {
		return p.Start
	}
	trip := p.Trip.Seconds()
	cost := 0.0
	for window := float64(initial); window < p.Rate*trip; window *= 2 {
		cost += trip - window/p.Rate
	}
	return p.Start + time.Duration(cost*float64(time.Second))
}

// settled is how many times the cost of a break a download must last for a second connection to be useful.
const settled = 8

// Ahead reports whether a second connection pays before anything has broken, with this many bytes missing: if a single break would cost
// more than half a percent of the remaining time, and there is enough time for a second connection to become fast.
func (p Path) Ahead(missing int64) bool {
	if p.Rate <= 0 || p.Trip <= 0 {
		return false
	}
	cost, rest := p.Cost().Seconds(), float64(missing)/p.Rate
	return rest >= settled*cost && cost > (1-enough)*rest
}

// gain is how much all connections together may have in flight, relative to the bandwidth-delay product. Parallel slow starts would fill
// the path's queue: then new connections start slower, the first ones keep the queue, and bytes behind a hole are lost with the connection.
// If others fill the queue the measured round trips are longer, and so is the product. When one of a few connections breaks the others'
// data in flight has to fill the path: they may have more.
//
// While one of a few is in slow start the queue must stay empty: a sender that sees growing round trips leaves slow start (HyStart, RFC
// 9406), and its connection stays thin for the rest of its life, useless when another one breaks. Of many connections one always is in slow
// start.
// 9406), and its connection stays thin for the rest of its life, of no use when another one breaks. Of many one always is.
const (
	gain         = 1.25
	gainOfFew    = 1.6
	few          = 3
	gainOfStarts = 1.05
)

// short is a round trip below the delay of acknowledgements: such a path is always full.
const short = 5 * time.Millisecond

// Hold returns how much each connection may have in flight, given their recent values, including those that are being opened: one in slow
// start, and one that is not. 0: no limit. While lives are brief, and few have ended, the measured rate is not the path's. A connection in
// slow start soon has twice as much plus ten segments; the others share the rest equally.
func (p Path) Hold(flights []int64) (starting, running int64) {
	n := len(flights)
	if p.Trip < short || p.Breaks > 0 && p.Breaks < certain && p.Life <= brief*p.Start || n < 2 {
		return 0, 0
	}
	holds := p.Rate * p.Trip.Seconds()
	left := int64(gain * holds)
	if n <= few {
		left = int64(gainOfFew * holds)
	}
	starting = max(left/int64(n), 2*initial)
	flights = slices.Sorted(slices.Values(flights))
	if n <= few && p.Starting(flights[0], n) {
		left = int64(gainOfStarts * holds)
	}
	for i, b := range flights {
		each := left / int64(n-i)
		if each <= initial+2*b {
			return starting, max(each, 2*initial)
		}
		left -= initial + 2*b
	}
	return starting, max(left, 2*initial)
}

// Starting reports whether one of n connections with this much in flight is in slow start, or left it with too little.
func (p Path) Starting(flight int64, connections int) bool {
	return float64(flight) < p.Rate*p.Trip.Seconds()/float64(2*connections)
}

// Expected returns how many bytes one of several connections receives in its life.
func (p Path) Expected() int64 {
	alone := p.share() * p.Rate * p.Life.Seconds()
	if p.Bytes > 0 {
		alone = min(alone, max(p.Bytes, initial))
	}
	return int64(alone)
}
