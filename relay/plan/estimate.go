package plan

import (
	"math"
	"time"
)

// hop is a connection on the path of the bytes to the client.
type hop struct {
	rtt   time.Duration
	start int64   // bytes of its first flight
	rate  float64 // bytes per second, 0 if unknown
}

// lasts returns the time from the first byte's arrival to the last one's. Each flight is twice the one before (slow start), until flights
// fill the pipe or nothing is left. Without a rate this takes log2(size/start + 1) flights, rounded up, each but the last one round trip
// long. Once the pipe is full, bytes arrive at its rate.
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

// seconds converts a time, limited to some decades.
func seconds(s float64) time.Duration {
	return time.Duration(math.Min(s, 1e9) * float64(time.Second))
}

// times estimates a route. On a new connection the client's handshake and the last hop's connection, opened by the SYN over ready trunks,
// overlap, and the longer one counts. Without relays there is one handshake. After the first byte all hops carry bytes at the same time, so
// the slowest hop determines the duration.
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

// hop is the connection between two adjacent nodes with a known RTT.
func (q *Question) hop(from, to string, rtt time.Duration) hop {
	h := hop{rtt: rtt, start: q.Start, rate: q.Rates[Pair{to, from}]}
	if from == q.Client || to == q.Server {
		h.start = q.Window
	}
	return h
}
