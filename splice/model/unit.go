package model

import "fmt"

// Unit is a part of a stream with one sequence number. Zero is none.
type Unit uint16

// Kind of a unit.
type Kind uint8

// The kinds.
const (
	Inserted Kind = iota // by the router, in front of its owner's first unit on a leg
	RequestHead
	RequestBody
	ResponseHead
	ResponseBody
	LastChunk
	Fin
	Unsolicited // sent without a request
)

// Coding is how the end of a response is marked.
type Coding uint8

// The codings.
const (
	Length Coding = iota
	Chunked
	UntilClose
)

// Owners other than the two clients.
const (
	Nobody   = 0 // of unsolicited units
	Stranger = 3 // off-path attacker, sends in others' names
)

// Urgent marks a unit that its receiver removes from the stream (RFC 6093).
const Urgent Unit = 1 << 14

// Edited marks a unit of a head that the router has made of a client's.
const Edited Unit = 1 << 15

// Layout of a Unit: owner 2 bits, kind 3, request 2, n 2, body 2, coding 2, surrogate 1, urgent 1, edited 1.
func newUnit(owner int, k Kind, request, n, body int, c Coding, surrogate int) Unit {
	return Unit(owner | int(k)<<2 | request<<5 | n<<7 | body<<9 | int(c)<<11 | surrogate<<13)
}

// Owner is the client, 1 or 2, that it was written by or for, or Nobody, or Stranger.
func (u Unit) Owner() int { return int(u & 3) }

// Kind is the kind of the unit.
func (u Unit) Kind() Kind { return Kind(u >> 2 & 7) }

// Request is the number of its owner's request that it belongs to.
func (u Unit) Request() int { return int(u >> 5 & 3) }

// N is how many units of body follow a request's head, or the index of a unit of body.
func (u Unit) N() int { return int(u >> 7 & 3) }

// Body is how many units of body the response has.
func (u Unit) Body() int { return int(u >> 9 & 3) }

// Coding is the coding of the response.
func (u Unit) Coding() Coding { return Coding(u >> 11 & 3) }

// Surrogate is the one that the request is routed to.
func (u Unit) Surrogate() int { return int(u >> 13 & 1) }

func (u Unit) String() string {
	if u == 0 {
		return "-"
	}
	who := [...]string{"nobody", "A", "B", "stranger"}[u.Owner()]
	what := [...]string{"inserted", "request", "request-body", "response", "response-body", "last-chunk", "FIN", "unsolicited"}[u.Kind()]
	if u&Urgent != 0 {
		what += "(urgent)"
	}
	if u&Edited != 0 {
		what += "(edited)"
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

// Hop is the link that a packet is on.
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
	End      uint8 // client 1 or 2 on its hops, leg 0 or 1 on the others
	Rst      bool
	Bad      bool // dropped by the surrogate for a reason invisible to the router
	Time     Time // client: its timestamp; surrogate: the one it echoes
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

// cutBehind trims units off the end, and the FIN.
func (p *Packet) cutBehind(n uint32) {
	if n == 0 {
		return
	}
	for ; n > 0; n-- {
		p.Data[p.Len()-1] = 0
	}
	p.Fin = 0
}

// calm clears urgent marks: strip of bpf/router/strip.h.
func (p *Packet) calm() {
	for i := range p.Data {
		p.Data[i] &^= Urgent
	}
}

func (p *Packet) String() string {
	hop := [...]string{"?", "client %c → router", "router → client %c", "router → leg %c", "leg %c → router"}[p.Hop]
	name := '0' + rune(p.End)
	if p.Hop == FromClient || p.Hop == ToClient {
		name = '@' + rune(p.End)
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

// before reports whether a is before b, modulo 2^32.
func before(a, b uint32) bool { return int32(a-b) < 0 }
