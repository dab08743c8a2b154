package scale

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"baton/packet"
)

// crowd is any number of HTTP clients, one session each. Of a session it remembers 16 bytes; a socket would cost two
// kilobytes, and a file of which a process may have some thousands only.
type crowd struct {
	first    uint32                    // the address of the first clients
	server   func(client int) endpoint // whom a client asks
	clients  []client
	request  []byte
	expected [len(noName)]byte
	waiting  map[int]wait // clients, for an answer
	counts   counts
	random   *rand.Rand
	epoch    time.Time // of its clock
	send     func(*segment) error
}

type client struct {
	snd, rcv uint32
	tsecr    uint32
	left     uint16 // bytes of the answer that are still to come
	state    state
}

type state uint8

const (
	closed state = iota
	connecting
	asked
	answering // the answer has begun
	idle
	ended // by the other side
)

// wait is when a client began to wait, and when something was last sent for it.
type wait struct{ since, sent time.Duration }

// counts are of what should not happen.
type counts struct {
	Repeated int // segments sent again, as no answer came within repeatAfter
	Ended    int // sessions that the other side ended
	Foreign  int // answers that belong to another client
	Silent   int // requests that were not answered within giveUpAfter
}

// portBits is the logarithm of the sessions of each client address; ports are from there on.
const portBits = 14

// repeatAfter is a client's retransmission timeout. Linux' first one is a second, too.
const repeatAfter = time.Second

const giveUpAfter = 10 * time.Second

func newCrowd(first uint32, n int, server func(client int) endpoint, send func(*segment) error) *crowd {
	return &crowd{first: first, server: server, clients: make([]client, n), waiting: make(map[int]wait), send: send, epoch: time.Now(),
		random: rand.New(rand.NewPCG(rand.Uint64(), 0)), request: []byte("GET " + pathPrefix + noName + " HTTP/1.1\r\nHost: idle\r\n\r\n")}
}

func (c *crowd) endpoint(i int) endpoint {
	return endpoint{c.first + uint32(i>>portBits), 1<<portBits + uint16(i&(1<<portBits-1))}
}

// number is the client that has an end point; -1: none.
func (c *crowd) number(e endpoint) int {
	i := int(e.address-c.first)<<portBits + int(e.port) - 1<<portBits
	if e.address < c.first || e.port < 1<<portBits || e.port >= 2<<portBits || i >= len(c.clients) {
		return -1
	}
	return i
}

// connect begins a client's session.
func (c *crowd) connect(i int, now time.Duration) error {
	c.clients[i] = client{snd: c.random.Uint32(), state: connecting}
	return c.begin(i, now)
}

// ask sends the request of a client that is connected and has no other under way.
func (c *crowd) ask(i int, now time.Duration) error {
	c.clients[i].state = asked
	return c.begin(i, now)
}

func (c *crowd) begin(i int, now time.Duration) error {
	c.waiting[i] = wait{now, now}
	return c.say(i, now)
}

// repeat sends again what was not answered in time. Of an answer that has begun the rest is the server's to repeat.
func (c *crowd) repeat(now time.Duration) error {
	for i, w := range c.waiting {
		if now-w.since >= giveUpAfter {
			c.counts.Silent++
			c.clients[i].state = ended
			delete(c.waiting, i)
			continue
		}
		if now-w.sent < repeatAfter || c.clients[i].state == answering {
			continue
		}
		c.counts.Repeated++
		c.waiting[i] = wait{w.since, now}
		if err := c.say(i, now); err != nil {
			return err
		}
	}
	return nil
}

// say sends what a client's state calls for, also for the second time.
func (c *crowd) say(i int, now time.Duration) error {
	s := &c.clients[i]
	out := segment{from: c.endpoint(i), to: c.server(i), seq: s.snd, ack: s.rcv, flags: packet.ACK, options: timestamps,
		tsval: clock(now), tsecr: s.tsecr}
	switch s.state {
	case connecting:
		out.flags, out.ack, out.options = packet.SYN, 0, timestamps|negotiation
	case asked:
		putName(c.request[len("GET "+pathPrefix):], i)
		out.flags |= packet.PSH
		out.payload = c.request
	}
	return c.send(&out)
}

// clock is the clock of timestamps: milliseconds, and never 0, as that stands for none.
func clock(now time.Duration) uint32 { return uint32(now/time.Millisecond) + 1 }

// take handles a segment that has come.
func (c *crowd) take(in *segment, now time.Duration) error {
	i := c.number(in.to)
	if i < 0 || in.from != c.server(i) {
		return nil
	}
	s := &c.clients[i]
	switch {
	case s.state == closed || s.state == ended:
		return nil
	case in.flags.Has(packet.RST) || in.flags.Has(packet.FIN):
		if s.state == connecting && in.ack != s.snd+1 || s.state != connecting && in.seq != s.rcv {
			return nil // of an earlier session
		}
		s.state = ended
		c.counts.Ended++
		return nil
	case s.state == connecting:
		if !in.flags.Has(packet.SYN|packet.ACK) || in.ack != s.snd+1 {
			return nil
		}
		s.snd, s.rcv, s.tsecr, s.state = in.ack, in.seq+1, in.tsval, asked
		return c.say(i, now)
	case len(in.payload) == 0:
		return nil
	case in.seq == s.rcv && (s.state == asked || s.state == answering):
		return c.read(i, in, now)
	}
	out := in.reply(packet.ACK, clock(now)) // it repeats something
	out.seq, out.ack = s.snd, s.rcv
	return c.send(&out)
}

// read takes the next bytes of a client's answer.
func (c *crowd) read(i int, in *segment, now time.Duration) error {
	s := &c.clients[i]
	s.tsecr = in.tsval
	s.rcv += uint32(len(in.payload))
	if s.state == asked {
		s.state = answering
		s.snd += uint32(len(c.request))
		length, head, err := answerLength(in.payload)
		if err != nil {
			return fmt.Errorf("client %d: %w", i, err)
		}
		if body := in.payload[head:]; len(body) == len(noName) && !bytes.Equal(body, putName(c.expected[:], i)) {
			c.counts.Foreign++
		}
		s.left = uint16(head + length)
	}
	if len(in.payload) > int(s.left) {
		return fmt.Errorf("client %d: bytes behind its answer", i)
	}
	s.left -= uint16(len(in.payload))
	out := in.reply(packet.ACK, clock(now))
	out.seq = s.snd
	if err := c.send(&out); err != nil || s.left > 0 {
		return err
	}
	s.state = idle
	return nil
}

var errHead = errors.New("an answer that is no 200 with a length in its first segment")

// putName writes the name that a client asks for: its number.
func putName(b []byte, i int) []byte {
	for at := len(noName) - 1; at >= 0; at-- {
		b[at] = byte('0' + i%10)
		i /= 10
	}
	return b
}

func answerLength(b []byte) (length, head int, err error) {
	head = bytes.Index(b, []byte("\r\n\r\n")) + 4
	if head < 4 || !bytes.HasPrefix(b, []byte("HTTP/1.1 200 ")) {
		return 0, 0, errHead
	}
	const field = "\r\ncontent-length: "
	at := bytes.Index(bytes.ToLower(b[:head]), []byte(field))
	if at < 0 {
		return 0, 0, errHead
	}
	digits, _, _ := bytes.Cut(b[at+len(field):], []byte("\r"))
	if length, err = strconv.Atoi(string(digits)); err != nil || length < 0 || head+length > 0xffff {
		return 0, 0, errHead
	}
	return length, head, nil
}
