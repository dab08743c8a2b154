package plan

import (
	"math"
	"time"
)

// hop is a connection that bytes pass on their way to the client.
type hop struct {
	rtt   time.Duration
	start int64   // bytes of its first flight
	rate  float64 // bytes per second, 0 when it is not known
}

// lasts returns the time from the first byte's arrival to the last one's. A flight is twice the one before it (slow start), until
// flights fill the pipe or nothing is left: without a rate these are log2(size/start + 1) flights, rounded up, each but the last a
// round trip long; after the pipe is full, bytes come at its rate.
func (h hop) lasts(size int64) time.Duration {
	left, flight, rounds := float64(size), float64(h.start), 0
	for flight < left && (h.rate == 0 || flight < h.rate*h.rtt.Seconds()) {
		left -= flight
		flight *= 2
		rounds++
	}
	t := time.Duration(rounds) * h.rtt
	if h.rate > 0 {
		t += seconds(left / h.rate)
	}
	return t
}

// seconds is a time of at most some decades: an estimate that is longer is of no use.
func seconds(s float64) time.Duration {
	return time.Duration(math.Min(s, 1e9) * float64(time.Second))
}

// times estimates a way. In a new connection the client's handshake is over when its first byte may go, and the last hop's, begun by the
// SYN with trunks being ready, when that byte may go on: they overlap, and the longer one counts. Without relays there is the one
// handshake. The bytes that follow the first one pass all hops at once, so that the slowest hop says how long they take.
func (q *Question) times(hops []hop) Times {
	var t time.Duration
	for _, h := range hops {
		t += h.rtt
	}
	first := t + max(hops[0].rtt, hops[len(hops)-1].rtt)
	total := func(size int64) time.Duration {
		var slowest time.Duration
		for _, h := range hops {
			slowest = max(slowest, h.lasts(size))
		}
		return first + slowest
	}
	out := Times{RTT: Span(t), New: Span(first), Warm: Span(t), size: total(q.Size)}
	for _, size := range q.Sizes {
		out.Sizes = append(out.Sizes, Span(total(size)))
	}
	return out
}

// hop is the connection between two nodes in a row, whose RTT is known.
func (q *Question) hop(from, to string, rtt time.Duration) hop {
	h := hop{rtt: rtt, start: q.Start, rate: q.Rates[Pair{to, from}]}
	if from == q.Client || to == q.Server {
		h.start = q.Window
	}
	return h
}
