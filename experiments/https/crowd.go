package https

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"baton/packet"
)

// crowd is any number of clients that say something to a server and take its answer, a line. They have no sockets, and so send their
// segments in any order.
type crowd struct {
	socket *socket
	ports  pool
	epoch  time.Time // of its clock
	random *rand.Rand
	loss   float64 // share of the segments that are lost, both ways

	talks  map[netip.AddrPort]*talk
	active []*talk // those that wait for something
	looked time.Duration
}

// talk is a client's connection.
type talk struct {
	to     netip.AddrPort
	stream []byte
	pieces []piece // in the order of sending
	stays  bool    // it is not closed after the answer
	done   func(*talk)

	self      netip.AddrPort
	state     state
	began     time.Duration
	due       time.Duration // when to send the next piece, or all again
	sent      int           // pieces
	start     packet.Seq    // of the stream
	una, rcv  packet.Seq
	tsecr     uint32
	answer    []byte
	repeated  int
	reset     bool // by the other side
	connected time.Duration
	ended     time.Duration
}

// piece is a part of a stream that is sent at once, in segments.
type piece struct {
	from, to int
	after    time.Duration // the piece before
}

type state uint8

const (
	connecting state = iota
	talking
	answered // and stays open
	over
)

const (
	segmentSize = 1400 // bytes of a segment
	synAgain    = time.Second
	sayAgain    = 300 * time.Millisecond // at first; then doubled
	giveUp      = 10 * time.Second
	lookEvery   = 2 * time.Millisecond
)

func newCrowd(s *socket, first netip.Addr) *crowd {
	return &crowd{socket: s, ports: pool{first: first}, epoch: time.Now(), random: rand.New(rand.NewPCG(rand.Uint64(), 0)),
		talks: make(map[netip.AddrPort]*talk)}
}

func (c *crowd) now() time.Duration { return time.Since(c.epoch) }

// begin starts a talk.
func (c *crowd) begin(t *talk, now time.Duration) error {
	t.self = c.ports.take()
	for c.talks[t.self] != nil {
		t.self = c.ports.take()
	}
	t.began, t.due = now, now+synAgain
	t.start = packet.Seq(c.random.Uint32())
	t.una = t.start
	c.talks[t.self] = t
	c.active = append(c.active, t)
	return c.syn(t, now)
}

// again says the same in a talk that has been answered, and stays.
func (c *crowd) again(t *talk, now time.Duration) {
	if t.state != answered {
		return
	}
	t.began, t.due, t.state, t.sent, t.repeated = now, now, talking, 0, 0
	t.start = t.start.Add(uint32(len(t.stream)))
	t.una, t.answer = t.start, nil
	c.active = append(c.active, t)
}

func (c *crowd) syn(t *talk, now time.Duration) error {
	options := packet.Options{}.AppendMSS(1460).AppendSACKPermitted().AppendTimestamps(clock(now), 0).AppendNOP(1).AppendWindowScale(7)
	if t.self.Addr().Is6() {
		options = packet.Options{}.AppendMSS(1440).AppendSACKPermitted().AppendTimestamps(clock(now), 0).AppendNOP(1).AppendWindowScale(7)
	}
	return c.put(packet.Spec{Src: t.self, Dst: t.to, Seq: t.start - 1, Flags: packet.SYN, Options: options})
}

// clock is the clock of timestamps: milliseconds, and never 0, as that stands for none.
func clock(now time.Duration) uint32 { return uint32(now/time.Millisecond) + 1 }

func (c *crowd) put(p packet.Spec) error {
	p.Window = 0xffff
	if c.loss > 0 && c.random.Float64() < c.loss {
		return nil
	}
	return c.socket.send(p)
}

// say sends an acknowledgement, with bytes of the stream if there are any.
func (c *crowd) say(t *talk, from, to int, flags packet.Flags, now time.Duration) error {
	return c.put(packet.Spec{Src: t.self, Dst: t.to, Seq: t.start.Add(uint32(from)), Ack: t.rcv, Flags: flags | packet.ACK,
		Options: packet.Options{}.AppendNOP(2).AppendTimestamps(clock(now), t.tsecr), Payload: t.stream[from:to]})
}

func (c *crowd) sayAll(t *talk, from, to int, now time.Duration) error {
	for ; from < to; from += segmentSize {
		if err := c.say(t, from, min(from+segmentSize, to), packet.PSH, now); err != nil {
			return err
		}
	}
	return nil
}

// next sends the pieces that are due.
func (c *crowd) next(t *talk, now time.Duration) error {
	for t.sent < len(t.pieces) {
		p := t.pieces[t.sent]
		if err := c.sayAll(t, p.from, p.to, now); err != nil {
			return err
		}
		if t.sent++; t.sent < len(t.pieces) && t.pieces[t.sent].after > 0 {
			t.due = now + t.pieces[t.sent].after
			return nil
		}
	}
	t.due = now + sayAgain
	return nil
}

// look does what is due, and forgets talks that wait for nothing.
func (c *crowd) look(now time.Duration) error {
	c.looked = now
	for _, t := range c.active {
		switch {
		case t.state == answered, t.state == over, now < t.due:
		case now-t.began > giveUp:
			if err := c.put(packet.Spec{Src: t.self, Dst: t.to, Seq: t.una, Flags: packet.RST}); err != nil {
				return err
			}
			c.end(t, now)
		case t.state == connecting:
			t.repeated++
			t.due = now + synAgain
			if err := c.syn(t, now); err != nil {
				return err
			}
		case t.sent < len(t.pieces):
			if err := c.next(t, now); err != nil {
				return err
			}
		default:
			t.due = now + sayAgain<<t.repeated
			t.repeated++
			if err := c.sayAll(t, int(t.una.Sub(t.start)), len(t.stream), now); err != nil {
				return err
			}
		}
	}
	c.active = slices.DeleteFunc(c.active, func(t *talk) bool { return t.state == answered || t.state == over })
	return nil
}

func (c *crowd) end(t *talk, now time.Duration) {
	t.state, t.ended = over, now
	delete(c.talks, t.self)
	t.done(t)
}

// take handles a segment.
func (c *crowd) take(f packet.Frame, now time.Duration) error {
	if c.loss > 0 && c.random.Float64() < c.loss {
		return nil
	}
	t, tcp := c.talks[f.Dst], f.TCP()
	flags, seq, payload := tcp.Flags(), tcp.Seq(), f.Payload()
	switch {
	case t == nil || f.Src != t.to:
		if flags.Has(packet.RST) || !flags.Has(packet.FIN) && len(payload) == 0 {
			return nil
		}
		return c.socket.send(packet.Spec{Src: f.Dst, Dst: f.Src, Seq: tcp.Ack(), Flags: packet.RST}) // of a talk that is over
	case flags.Has(packet.RST):
		if t.state == connecting && tcp.Ack() != t.start || t.state != connecting && seq != t.rcv {
			return nil // of an earlier one
		}
		t.reset = true
		c.end(t, now)
		return nil
	case t.state == connecting:
		if !flags.Has(packet.SYN|packet.ACK) || tcp.Ack() != t.start {
			return nil
		}
		t.rcv, t.state, t.connected = seq+1, talking, now
		t.tsecr, _, _ = tcp.Options().Timestamps()
		if err := c.say(t, 0, 0, 0, now); err != nil {
			return err
		}
		return c.next(t, now)
	}
	return c.hear(t, f, now)
}

// hear handles a segment of a connection that is established.
func (c *crowd) hear(t *talk, f packet.Frame, now time.Duration) error {
	tcp, payload := f.TCP(), f.Payload()
	if ack := tcp.Ack(); t.una.Less(ack) && ack.LessEq(t.start.Add(uint32(len(t.stream)))) {
		t.una = ack
	}
	fin := tcp.Flags().Has(packet.FIN)
	if len(payload) == 0 && !fin {
		return nil
	}
	if tcp.Seq() != t.rcv {
		return c.say(t, len(t.stream), len(t.stream), 0, now) // a repetition, or behind a gap
	}
	t.tsecr, _, _ = tcp.Options().Timestamps()
	t.answer = append(t.answer, payload...)
	t.rcv = t.rcv.Add(uint32(len(payload)))
	if fin {
		t.rcv++
		t.una = t.start.Add(uint32(len(t.stream))) // it closes after the last byte
		err := c.say(t, len(t.stream), len(t.stream), packet.FIN, now)
		c.end(t, now)
		return err
	}
	if t.stays && t.state == talking && bytes.HasSuffix(t.answer, []byte("\n")) {
		t.state, t.ended = answered, now
		t.done(t)
	}
	return c.say(t, len(t.stream), len(t.stream), 0, now)
}

// drive begins talks as next returns them, which may have none for the moment, until it has no more and nobody waits.
func (c *crowd) drive(ctx context.Context, next func(waiting int, now time.Duration) (t *talk, more bool)) error {
	more := true
	for more || len(c.active) > 0 {
		now := c.now()
		for more {
			var t *talk
			if t, more = next(len(c.active), now); t == nil {
				break
			}
			if err := c.begin(t, now); err != nil {
				return err
			}
		}
		for wait := true; ; wait = false {
			f, ok, err := c.socket.receive(wait)
			if err != nil {
				return err
			}
			now = c.now()
			if ok {
				if err := c.take(f, now); err != nil {
					return err
				}
			}
			if !ok || now-c.looked >= lookEvery {
				break
			}
		}
		if now-c.looked >= lookEvery {
			if err := c.look(now); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}
