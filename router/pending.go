package router

import (
	"net/netip"
	"time"

	"baton/packet"
)

// pending is a client whose request is being read in user space: its segments, as they came, and none acknowledged.
type pending struct {
	client, vip netip.AddrPort
	base        packet.Seq // of the request's first byte
	first       time.Time
	segments    []segment // by sequence number
	bytes       int
	looked      int  // bytes at the last look
	decided     bool // being decided: what comes in addition is kept for the replay
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

// add keeps a segment unless it is there already. False: the client sends more than it may.
func (p *pending) add(s segment) bool {
	at := len(p.segments)
	for i, have := range p.segments {
		if have.seq == s.seq && len(have.data) >= len(s.data) {
			return true
		}
		if s.seq.Less(have.seq) {
			at = i
			break
		}
	}
	if s.seq.Sub(p.base) > maxPendingBytes {
		return true // of an earlier session: the client does not miss it
	}
	if p.bytes+len(s.data) > maxPendingBytes || len(p.segments) >= maxPendingSegments {
		return false
	}
	p.bytes += len(s.data)
	p.segments = append(p.segments, segment{})
	copy(p.segments[at+1:], p.segments[at:])
	p.segments[at] = s
	return true
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
