package relay

import "time"

// pipe is Pied Piper's ideal (section 3.1, figure 5a): the request goes through at once, and the answer's bytes come back at the rate of
// the bottleneck, without headers.
func (w route) pipe(size int64) time.Duration {
	slowest := w.legs[0].rate
	for _, l := range w.legs[1:] {
		slowest = min(slowest, l.rate)
	}
	return w.rtt() + time.Duration(float64(size)*8/float64(slowest)*float64(time.Second))
}

// firstByte is when a new connection can have its first byte at the earliest: the client's handshake with the first relay goes on while
// the last one connects to the server, and no other has to be waited for.
func (w route) firstByte() time.Duration {
	return w.rtt() + max(w.legs[0].rtt, w.legs[len(w.legs)-1].rtt)
}

// Of a TCP segment with timestamps in a frame of 1514 bytes.
const (
	segment = 1448
	frame   = 1514

	initialWindow = 10 // segments, RFC 6928
)

// reachable is the least that a new connection can take whose ends are what they are: client and server open their windows from ten
// segments over the first and the last leg, which overlap, and bytes have headers.
func (w route) reachable(size int64) time.Duration {
	first, last := w.legs[0], w.legs[len(w.legs)-1]
	return w.firstByte() + max(first.slowStart(size), last.slowStart(size), leg{rate: first.rate}.slowStart(size))
}

// slowStart is the time from the first to the last byte of a leg, without losses, where each round trip carries twice the one before until
// the leg is full.
func (l leg) slowStart(size int64) (t time.Duration) {
	left := (size + segment - 1) / segment
	for flight := int64(initialWindow); ; flight *= 2 {
		n := min(flight, left)
		sending := time.Duration(float64(n*frame*8) / float64(l.rate) * float64(time.Second))
		if left -= n; left == 0 {
			return t + sending
		}
		t += max(l.rtt, sending)
	}
}
