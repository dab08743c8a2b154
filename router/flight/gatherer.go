package flight

import (
	"bytes"
	"container/list"
	"hash/maphash"
	"net/netip"
	"time"

	"baton/packet/quic"
)

// Limits bound what is held.
type Limits struct {
	Datagrams int           // held of a flight; one more may make its hello whole
	Bytes     int           // of those datagrams
	Hello     int           // bytes of a hello
	Wait      time.Duration // for the rest of a hello, from its first datagram on
	Share     int           // flights of a prefix of sources: an IPv4 /24 or IPv6 /56
	Total     int           // flights
}

// Defaults hold hellos of 4 KiB and more in full datagrams, and need 64 MiB at most.
var Defaults = Limits{Datagrams: 4, Bytes: 8 << 10, Hello: 16 << 10, Wait: 3 * time.Second, Share: 64, Total: 2048}

// Of a connection id that a client chooses, RFC 9000 section 7.2. Servers may choose shorter ones, and Retry is one of their ways.
const minClientID = 8

// usualPayload is the room for the frames of a packet, in bytes: what an Ethernet frame carries.
const usualPayload = 1500

// Tuple is where a datagram came from, and where it went.
type Tuple struct {
	Client, VIP netip.AddrPort
}

// key names a flight. A client may begin several connections from one port, and no datagram of one bears on another.
type key struct {
	tuple   Tuple
	version quic.Version
	length  uint8
	id      [quic.MaxID]byte
}

// Gatherer holds the flights whose hello is not whole. It is not safe for concurrent use.
type Gatherer struct {
	limits  Limits
	flights map[key]*flight
	order   list.List // *flight, oldest first
	shares  *shares
	counts  Counts
	seed    maphash.Seed

	spare   *flight // for the next datagram of no flight
	payload []byte  // of the packet that is being read
	out     [][]byte
	message []byte
}

// New makes a Gatherer that holds nothing. All limits must be above zero.
func New(l Limits) *Gatherer {
	return &Gatherer{
		limits: l, flights: make(map[key]*flight), shares: newShares(l.Total, l.Share), seed: maphash.MakeSeed(),
		spare: new(flight), payload: make([]byte, 0, usualPayload),
	}
}

// Len is how many flights are held.
func (g *Gatherer) Len() int { return len(g.flights) }

// Counts gives the counters.
func (g *Gatherer) Counts() Counts { return g.counts }

// Expire forgets the flights whose time is over. Add does so too.
func (g *Gatherer) Expire(now time.Duration) {
	for e := g.order.Front(); e != nil; e = g.order.Front() {
		f := e.Value.(*flight)
		if now-f.begun < g.limits.Wait {
			return
		}
		g.forget(f)
		g.counts.Expired++
	}
}

// Add takes a datagram of a client that has no surrogate yet. The time is that since any moment that stays the same. The datagram
// is not kept, but copied if it is held.
func (g *Gatherer) Add(t Tuple, datagram []byte, now time.Duration) Result {
	g.Expire(now)
	r := Result{}
	first, why := g.survey(datagram)
	r.Packet = first
	if why != None {
		return g.refuse(r, why)
	}
	k := key{tuple: t, version: first.Version, length: uint8(len(first.Destination))}
	copy(k.id[:], first.Destination)
	f, held := g.flights[k], true
	if f == nil {
		f, held = g.spare, false
		f.reset(k, now)
	}
	added, opened, why := g.read(f, datagram)
	if why != None {
		if held && opened {
			g.forget(f)
		}
		return g.refuse(r, why)
	}
	if message, whole := f.hello.message(); whole {
		return g.finish(r, f, held, message, datagram)
	}
	if opened && added == 0 && held {
		return r // nothing new: the server need not see it
	}
	if why := g.keep(f, held, datagram, opened); why != None {
		return g.refuse(r, why)
	}
	return r
}

// survey reads the headers of a datagram, which must be of one connection: servers should ignore what is behind another's packet
// (RFC 9000 section 12.2), and may not. Behind the first packet there may also be bytes that are none.
func (g *Gatherer) survey(datagram []byte) (first quic.Packet, why Reason) {
	initial, seen := false, false
	for p, err := range quic.Packets(datagram) {
		switch {
		case !seen && err != nil:
			return quic.Packet{}, Malformed
		case err != nil || seen && p.Kind == quic.Short:
			continue
		case !seen:
			first, seen = p, true
		case p.Version != first.Version || !bytes.Equal(p.Destination, first.Destination):
			return first, Malformed
		}
		if p.Kind == quic.Initial {
			initial = true
			if len(p.Token) == 0 && len(p.Destination) < minClientID {
				return first, Malformed
			}
		}
	}
	switch {
	case !seen:
		return first, Malformed
	case first.Kind == quic.Unknown:
		return first, UnknownVersion
	case first.Kind != quic.Initial && first.Kind != quic.ZeroRTT:
		return first, Unexpected
	case initial && len(datagram) < quic.MinDatagram:
		return first, Small
	}
	return first, None
}

// read adds what the Initials of a datagram have to the flight's hello: how many bytes are new, and whether any Initial could be
// opened. A flight is only changed by packets that can.
func (g *Gatherer) read(f *flight, datagram []byte) (added int, opened bool, why Reason) {
	initial := false
	for p, err := range quic.Packets(datagram) {
		if err != nil || p.Kind != quic.Initial {
			continue
		}
		initial = true
		n, ok, why := g.open(f, &p)
		added += n
		opened = opened || ok
		if why != None {
			return added, opened, why
		}
	}
	if initial && !opened {
		return 0, false, Forged
	}
	return added, opened, None
}

// open reads one Initial.
func (g *Gatherer) open(f *flight, p *quic.Packet) (added int, opened bool, why Reason) {
	if f.keys == nil {
		keys, err := quic.ClientKeys(p.Version, p.Destination)
		if err != nil {
			return 0, false, Forged // only a library that refuses its primitives
		}
		f.keys = keys
	}
	payload, number, err := f.keys.Open(g.payload[:0], p)
	g.payload = payload[:0]
	switch err {
	case nil:
	case quic.ErrReserved:
		return 0, true, Malformed
	default:
		return 0, false, None
	}
	repeated, why := f.seen(number, maphash.Bytes(g.seed, p.Bytes))
	if repeated {
		g.counts.Repeated++
	}
	if repeated || why != None {
		return 0, true, why
	}
	for frame, err := range quic.Frames(payload) {
		if err != nil {
			return added, true, Malformed
		}
		switch frame.Type {
		case quic.ConnectionClose:
			return added, true, Closed
		case quic.Crypto:
			n, why := f.hello.add(frame.Offset, frame.Data, g.limits.Hello)
			added += n
			if why != None {
				return added, true, why
			}
		}
	}
	return added, true, None
}

// finish hands out a flight whose hello is whole.
func (g *Gatherer) finish(r Result, f *flight, held bool, message, datagram []byte) Result {
	g.message = append(g.message[:0], message...)
	g.out = g.out[:0]
	for _, d := range f.held {
		g.out = append(g.out, d.bytes)
	}
	g.out = append(g.out, datagram)
	if held {
		g.forget(f)
	}
	g.counts.Hellos++
	r.Outcome, r.Message, r.Datagrams = Hello, g.message, g.out
	return r
}

// keep holds a datagram of a flight whose hello is not whole, and the flight with it if it is a new one.
func (g *Gatherer) keep(f *flight, held bool, datagram []byte, initial bool) Reason {
	var victim *flight
	if !held {
		var why Reason
		if victim, why = g.shares.room(f.prefix); why != None {
			return why
		}
	}
	if !f.hold(datagram, initial, &g.limits) {
		if !initial {
			g.counts.Unheld++
			return None
		}
		if held {
			g.forget(f)
		}
		return TooLarge
	}
	if held {
		return None
	}
	if victim != nil {
		g.forget(victim)
		g.counts.Evicted++
	}
	g.flights[f.key] = f
	f.turn = g.order.PushBack(f)
	g.shares.add(f)
	g.spare = new(flight)
	return None
}

func (g *Gatherer) forget(f *flight) {
	delete(g.flights, f.key)
	g.order.Remove(f.turn)
	g.shares.remove(f)
}

func (g *Gatherer) refuse(r Result, why Reason) Result {
	g.counts.Refused[why]++
	r.Outcome, r.Reason = Refused, why
	return r
}
