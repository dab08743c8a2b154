package flight

import (
	"bytes"
	"container/list"
	"net/netip"
	"time"

	"baton/packet/quic"
)

// maxPackets is how many Initial packets a flight may have. Clients send one in a datagram.
const maxPackets = 64

// flight is what has come of one client hello.
type flight struct {
	key    key
	prefix netip.Prefix
	begun  time.Duration
	turn   *list.Element // in the order of all
	place  *list.Element // in its prefix
	keys   *quic.Keys    // nil before an Initial; kept, as to derive them is most of what a datagram costs
	hello  assembly
	opened []opened
	held   []datagram
	size   int // bytes of held
}

type opened struct {
	number uint32
	sum    uint64 // of the packet
}

type datagram struct {
	bytes   []byte
	initial bool // has an Initial that could be opened
}

// reset makes a flight that is not held the beginning of another one, and keeps its buffers.
func (f *flight) reset(k key, now time.Duration) {
	f.hello.reset()
	*f = flight{key: k, prefix: PrefixOf(k.tuple.Client.Addr()), begun: now, hello: f.hello, opened: f.opened[:0]}
}

// seen tells whether the packet has been read before. A server discards a number that it knows, whatever is in the packet (RFC 9000
// section 12.3), so two packets of one number are not read as both.
func (f *flight) seen(number uint32, sum uint64) (repeated bool, why Reason) {
	for _, o := range f.opened {
		if o.number == number {
			if o.sum != sum {
				return false, Contradiction
			}
			return true, None
		}
	}
	if len(f.opened) >= maxPackets {
		return false, TooLarge
	}
	f.opened = append(f.opened, opened{number, sum})
	return false, None
}

// hold keeps a copy of a datagram, if it fits. Those of 0-RTT packets alone make room for Initials, the last first.
func (f *flight) hold(b []byte, initial bool, l *Limits) bool {
	for i := len(f.held) - 1; i >= 0 && initial && !f.fits(b, l); i-- {
		if d := f.held[i]; !d.initial {
			f.size -= len(d.bytes)
			f.held = append(f.held[:i], f.held[i+1:]...)
		}
	}
	if !f.fits(b, l) {
		return false
	}
	if !initial {
		for _, d := range f.held {
			if bytes.Equal(d.bytes, b) {
				return true
			}
		}
	}
	f.held = append(f.held, datagram{bytes.Clone(b), initial})
	f.size += len(b)
	return true
}

func (f *flight) fits(b []byte, l *Limits) bool {
	return len(f.held) < l.Datagrams && f.size+len(b) <= l.Bytes
}
