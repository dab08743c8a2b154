// Package width says over how many connections at a time a file is fetched whose connections break again and again, and when each begins. It
// is pure: times are passed in.
//
// Each new connection costs its handshake and TCP's slow start (Al-Qudah et al., "Anycast-Aware Transport for Content Delivery Networks",
// section 3.2). As long as that is a small share of a connection's life, one is enough. Otherwise others run beside it, at other
// parts of the file and at other points of their lives, so that together they fill what the path has. A connection that waits in
// reserve would save a round trip or two of the handshake; one that carries a part of the file saves the slow start as well.
package width

import (
	"math"
	"slices"
	"time"
)

// Path is what is known of the connections so far.
type Path struct {
	Life   time.Duration // of a connection, on the average, until it breaks
	Breaks float64       // that Life was found from
	Trip   time.Duration // round trip
	Start  time.Duration // from the beginning of a connection to its first byte of content
	Rate   float64       // bytes per second that came over all connections together, at best
	Bytes  float64       // that a connection brought in its life, on the average; 0: not known

	Pressed bool // the rate has fallen, and nothing has broken lately
}

// initial is what a connection sends in its first round trip: ten segments (RFC 6928).
const initial = 10 * 1448

// enough is the share of the path that one connection has to get for no other to be worth its cost.
const enough = 0.995

// spare is by how much connections together are to outdo the path, as they are not evenly spread over their lives.
const spare = 1.25

// Connections of which each gets less than most of the path are one more: when one breaks the others fill the path.
const most = 0.95

// crowd is how many more connections there may be than slow start alone would want: so many times as many, by the share of its life that a
// connection loses to its start.
const crowd = 2.5

// Lanes is the number of connections that fill the path, at most so many. It is 1 while nothing has broken, and small as long as little
// is known.
//
// What slow start alone would give is a bound from above: connections that run beside each other, and losses, end it early. So what
// connections really brought counts, as long as the number is not out of all proportion: on a full path each connection more takes
// from the others.
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

// A life is brief if it is so many times a connection's start at most, and very brief if it is half of that: one break tells enough then to
// open more than one other connection.
const brief = 8

// certain is how many breaks tell all that they can.
const certain = 3

// bold is how many connections there may be by how much is known.
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

// share is how much of the path's rate a single connection gets over its life, by slow start alone: losses make it less, but they
// make the rate that was seen less as well.
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

// Cost is how long the path could have been used in the time in which a new connection has become as fast as it is: handshake and slow start.
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

// settled is how many times the cost of a break a download has to take for a second connection to be of use in it.
const settled = 8

// Ahead tells whether a second connection pays although nothing has broken, when so many bytes are missing: if a single break would
// cost more than half a percent of the time that they take, and there is enough of it for a second connection to become fast.
func (p Path) Ahead(missing int64) bool {
	if p.Rate <= 0 || p.Trip <= 0 {
		return false
	}
	cost, rest := p.Cost().Seconds(), float64(missing)/p.Rate
	return rest >= settled*cost && cost > (1-enough)*rest
}

// gain is how much all connections may have under way together, times what the path holds. Slow starts that run beside each other would fill the
// path's queue: new connections take longer to begin then, those that were there first keep it, and what is lost behind a hole is
// lost with the connection. Where others fill the queue the round trips that are seen are longer, and so is what the path holds. When one of a
// few breaks what the others have under way has to fill the path: they may have more.
//
// While one of a few is in its slow start the queue has to stay empty: a sender that sees round trips grow ends its slow start there (HyStart, RFC
// 9406), and its connection stays thin for the rest of its life, of no use when another one breaks. Of many one always is.
const (
	gain         = 1.25
	gainOfFew    = 1.6
	few          = 3
	gainOfStarts = 1.05
)

// short is a round trip that is shorter than what acknowledgements may be delayed by: such a path is full whatever it holds.
const short = 5 * time.Millisecond

// Hold is how many bytes each of some connections may have under way that have had so many under way lately, those that are being opened among them:
// one that is in its slow start, and one that is not. 0: any number. While lives are brief, and few have ended, the rate that was seen is not the
// path's. A connection has at most twice as much before long, and ten segments: the others have the rest, to equal parts.
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

// Starting tells whether one of so many connections, that has so much under way, is in its slow start, or has come out of it with too little.
func (p Path) Starting(flight int64, connections int) bool {
	return float64(flight) < p.Rate*p.Trip.Seconds()/float64(2*connections)
}

// Expected is how many bytes a connection of several brings in its life.
func (p Path) Expected() int64 {
	alone := p.share() * p.Rate * p.Life.Seconds()
	if p.Bytes > 0 {
		alone = min(alone, max(p.Bytes, initial))
	}
	return int64(alone)
}
