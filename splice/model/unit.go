package model

import "fmt"

// Unit is a part of a stream with one sequence number. Zero is no unit.
type Unit uint16

// Kind of a unit.
type Kind uint8

// The kinds.
const (
	RequestHead Kind = iota + 1
	RequestBody
	ResponseHead
	ResponseBody
	LastChunk
	Fin
	Unsolicited // what a surrogate says without a request
)

// Coding is how a response tells where it ends.
type Coding uint8

// The codings.
const (
	Length Coding = iota
	Chunked
	UntilClose
)

// Owners beside the two clients.
const (
	Nobody   = 0 // of what was not asked for
	Stranger = 3 // sees no session, and sends in the name of those who have one
)

// Urgent marks a unit that its receiver takes out of the stream (RFC 6093).
const Urgent Unit = 1 << 14

// Layout of a Unit: owner 2 bits, kind 3, request 2, n 2, body 2, coding 2, surrogate 1, urgent 1.
func newUnit(owner int, k Kind, request, n, body int, c Coding, surrogate int) Unit {
	return Unit(owner | int(k)<<2 | request<<5 | n<<7 | body<<9 | int(c)<<11 | surrogate<<13)
}

// Owner is 1 or 2, the client that it was written by or for, or Nobody, or Stranger.
func (u Unit) Owner() int { return int(u & 3) }

// Kind says what it is.
func (u Unit) Kind() Kind { return Kind(u >> 2 & 7) }

// Request is the number of the request of its owner that it belongs to.
func (u Unit) Request() int { return int(u >> 5 & 3) }

// N is how many units of body follow a request's head, or the index of a unit of body.
func (u Unit) N() int { return int(u >> 7 & 3) }

// Body is how many units of body the response has.
func (u Unit) Body() int { return int(u >> 9 & 3) }

// Coding is how the response ends.
func (u Unit) Coding() Coding { return Coding(u >> 11 & 3) }

// Surrogate is the one that the routes choose for the request.
func (u Unit) Surrogate() int { return int(u >> 13 & 1) }

func (u Unit) String() string {
	if u == 0 {
		return "-"
	}
	who := [...]string{"nobody", "A", "B", "stranger"}[u.Owner()]
	what := [...]string{"?", "request", "request-body", "response", "response-body", "last-chunk", "FIN", "unsolicited"}[u.Kind()]
	if u&Urgent != 0 {
		what += "(urgent)"
	}
	return fmt.Sprintf("%s.%d.%s", who, u.Request(), what)
}

// response lists the units that answer a request.
func response(head Unit) []Unit {
	at := func(k Kind, n int) Unit {
		return newUnit(head.Owner(), k, head.Request(), n, head.Body(), head.Coding(), head.Surrogate())
	}
	out := []Unit{at(ResponseHead, 0)}
	for i := range head.Body() {
		out = append(out, at(ResponseBody, i))
	}
	if head.Coding() == Chunked {
		out = append(out, at(LastChunk, 0))
	}
	return out
}

// Hop is where a packet is under way.
type Hop uint8

// The hops.
const (
	FromClient Hop = iota + 1 // client to router
	ToClient
	ToServer
	FromServer
)

// mostUnits a packet carries.
const mostUnits = 3

// Packet is a TCP segment; all have the ACK flag. Zero is none.
type Packet struct {
	Hop      Hop
	Who      uint8 // client 1 or 2 on its hops, leg 0 or 1 on the others
	Rst      bool
	Bad      bool // the surrogate will discard it, and the router does not see why
	Time     Time // of a client: its timestamp; of a surrogate: the one that it echoes
	Seq, Ack uint32
	Data     [mostUnits]Unit
	Fin      Unit
}

// Len is the number of units of data.
func (p *Packet) Len() uint32 {
	n := uint32(0)
	for n < mostUnits && p.Data[n] != 0 {
		n++
	}
	return n
}

// cutBehind takes units off the end, and the FIN behind them.
func (p *Packet) cutBehind(n uint32) {
	if n == 0 {
		return
	}
	for ; n > 0; n-- {
		p.Data[p.Len()-1] = 0
	}
	p.Fin = 0
}

// calm takes the marks of urgent data off: strip of bpf/router/strip.h.
func (p *Packet) calm() {
	for i := range p.Data {
		p.Data[i] &^= Urgent
	}
}

func (p *Packet) String() string {
	hop := [...]string{"?", "client %c → router", "router → client %c", "router → leg %c", "leg %c → router"}[p.Hop]
	name := '0' + rune(p.Who)
	if p.Hop == FromClient || p.Hop == ToClient {
		name = '@' + rune(p.Who)
	}
	s := fmt.Sprintf(hop, name) + fmt.Sprintf(" seq %d ack %d", int32(p.Seq), int32(p.Ack))
	for _, u := range p.Data[:p.Len()] {
		s += " " + u.String()
	}
	if p.Fin != 0 {
		s += " FIN"
	}
	if p.Rst {
		s += " RST"
	}
	if p.Time != 0 {
		s += fmt.Sprintf(" time %d", p.Time.shown())
	}
	if p.Bad {
		s += " (to be discarded)"
	}
	return s
}

// before says whether a comes before b, modulo 2^32.
func before(a, b uint32) bool { return int32(a-b) < 0 }
