package router

import (
	"container/list"
	"net/netip"
	"slices"
	"time"

	"baton/packet"
	"baton/router/head"
)

// pending is a client whose request is being read in user space: its segments, as they came, and none acknowledged.
type pending struct {
	client, vip netip.AddrPort
	base        packet.Seq // of the request's first byte
	first       time.Time
	segments    []segment // by sequence number
	bytes       int
	looked      int         // bytes at the last look
	decided     bool        // being decided: what comes in addition is kept for the replay
	bad         *head.Error // why it is to be refused, until somebody is there to do it

	held   int // bytes, by holding's account
	source *source
	place  *list.Element // among the source's undecided clients; nil: decided
}

type segment struct {
	frame []byte // with the virtio-net header in front
	seq   packet.Seq
	data  []byte // its payload
}

// Limits of what one client can make the router hold. A client sends its initial window without an ACK: ten segments, of
// up to 9 kB on jumbo links.
const (
	maxPendingBytes    = 128 << 10
	maxPendingSegments = 64
)

// wants tells whether a segment of so many bytes is to be kept: it may be there already. It does not fit when the client sends more
// than it may.
func (p *pending) wants(seq packet.Seq, size int) (keep, fits bool) {
	for _, have := range p.segments {
		if have.seq == seq && len(have.data) >= size {
			return false, true
		}
		if seq.Less(have.seq) {
			break
		}
	}
	if seq.Sub(p.base) > maxPendingBytes {
		return false, true // of an earlier session: the client does not miss it
	}
	fits = p.bytes+size <= maxPendingBytes && len(p.segments) < maxPendingSegments
	return fits, fits
}

// add keeps a segment that is wanted.
func (p *pending) add(s segment) {
	at := slices.IndexFunc(p.segments, func(have segment) bool { return s.seq.Less(have.seq) })
	if at < 0 {
		at = len(p.segments)
	}
	p.bytes += len(s.data)
	p.segments = slices.Insert(p.segments, at, s)
}

// ends tells whether the segment, which has a FIN, is the last of all, and none before it is missing.
func (p *pending) ends(last segment) bool {
	return p.base.Add(uint32(len(p.contiguous()))) == last.seq.Add(uint32(len(last.data)))
}

// contiguous gives the request's bytes from its start up to the first gap.
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
