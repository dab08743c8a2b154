package upcall

import (
	"container/list"
	"net/netip"
	"slices"
	"time"

	"baton/packet"
	"baton/router/head"
	"baton/router/outcome"
)

// pending is a client whose request user space is reading: its segments as received, none acknowledged.
type pending struct {
	client, vip netip.AddrPort
	base        packet.Seq // first sequence number of the request
	ack         packet.Seq // what its first packet acknowledges: with base it tells connections on the same ports apart
	first       time.Time
	segments    []segment // in order of sequence numbers
	bytes       int
	decided     bool            // being decided, or on its way to a socket: further segments are kept for the replay
	bad         *head.Error     // the refusal, while it waits for a goroutine
	givenUp     outcome.Outcome // of a request that the kernel cannot edit, while it waits for a goroutine

	timer *time.Timer // while its head or hello is not whole; nil: none was started
	timed int         // bytes when it was started
	waits time.Time   // when it was started

	held   int // bytes charged to holding
	source *source
	place  *list.Element // in the source's undecided clients; nil: decided
}

func (p *pending) key() clientKey { return clientKey{p.client, p.vip} }

// startTimer calls f after a time, unless it is started again or stopped before.
func (p *pending) startTimer(after time.Duration, f func()) {
	p.timed, p.waits = p.bytes, time.Now()
	if p.timer == nil {
		p.timer = time.AfterFunc(after, f)
		return
	}
	p.timer.Reset(after)
}

func (p *pending) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// isSilent reports whether nothing has come since the timer was started.
func (p *pending) isSilent() bool { return p.bytes == p.timed }

type segment struct {
	frame []byte // with its virtio-net header
	seq   packet.Seq
	data  []byte // its payload
}

// Limits of one client. A client sends its initial window without an ACK: ten segments of up to 9 kB on jumbo links.
const (
	maxPendingBytes    = 128 << 10
	maxPendingSegments = 64
)

// accepts reports whether to keep a segment of so many bytes: false for a duplicate. It does not fit when the client exceeds its
// limits.
func (p *pending) accepts(seq packet.Seq, size int) (keep, fits bool) {
	for _, have := range p.segments {
		if have.seq == seq && len(have.data) >= size {
			return false, true
		}
		if seq.Less(have.seq) {
			break
		}
	}
	if seq.Sub(p.base) > maxPendingBytes {
		return false, true // of an earlier session, and not missed
	}
	fits = p.bytes+size <= maxPendingBytes && len(p.segments) < maxPendingSegments
	return fits, fits
}

// add keeps an accepted segment.
func (p *pending) add(s segment) {
	at := slices.IndexFunc(p.segments, func(have segment) bool { return s.seq.Less(have.seq) })
	if at < 0 {
		at = len(p.segments)
	}
	p.bytes += len(s.data)
	p.segments = slices.Insert(p.segments, at, s)
}

// expectsReset reports whether an RST with this number is the client's (RFC 5961, 3.2): it follows what has come of
// the request, which begins at base. p may be nil: nothing has come.
func (p *pending) expectsReset(base, rst packet.Seq) bool {
	if p == nil {
		return rst == base
	}
	return rst == base || slices.ContainsFunc(p.segments, func(s segment) bool {
		return s.seq.Add(uint32(len(s.data))) == rst
	})
}

// isWholeWith reports whether all bytes before the end of a segment, which has a FIN, are here.
func (p *pending) isWholeWith(last *segment) bool {
	return p.base.Add(uint32(len(p.contiguous()))) == last.seq.Add(uint32(len(last.data)))
}

// firstBytes is the number of the request's bytes in its first segment.
func (p *pending) firstBytes() int {
	if len(p.segments) == 0 || p.segments[0].seq != p.base {
		return 0
	}
	return len(p.segments[0].data)
}

// contiguous returns the request's bytes up to the first gap.
func (p *pending) contiguous() []byte {
	if len(p.segments) == 1 && p.segments[0].seq == p.base {
		return p.segments[0].data
	}
	var out []byte
	next := p.base
	for _, s := range p.segments {
		if next.Less(s.seq) {
			break
		}
		if skip := next.Sub(s.seq); int(skip) < len(s.data) {
			out = append(out, s.data[skip:]...)
			next = s.seq.Add(uint32(len(s.data)))
		}
	}
	return out
}
