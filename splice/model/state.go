package model

import "slices"

// LegState is where a leg stands; enum splice_state of bpf/session/splice.h.
type LegState uint8

// The states.
const (
	Idle LegState = iota
	Active
	Closing
	Dead
)

// Leg is what the kernel knows of a server leg and the client on it: struct splice, without what the model leaves out.
type Leg struct {
	state                    LegState
	client                   uint8 // 1 or 2; the tuple
	sndNxt, sndUna           uint32
	rcvNxt, rcvAcked         uint32
	rcvBase, sndBase         uint32 // when the client came; the kernel has rcv_base alone
	toServerSeq, toServerAck uint32
	request, response        Framing
	requestLeft              uint8
	responseLeft             uint8
	clientRequests           uint8
	clientFin, serverFin     bool
	noReuse                  bool
	spoilt                   bool // serves no other client
	first                    bool // the first leg of its client
	routed                   bool // what comes behind a gap in a response's head or chunks is dropped
	hold                     bool // requests behind the one in front wait
	tsSent, tsEchoed         Time // newest that the surrogate was told; newest of those that it has echoed
	tsToServer               uint8
}

type side uint8

const (
	sideNone side = iota
	sideClient
	sideLinger
	sideReset
)

// flow is a client's entry in the flow table.
type flow struct {
	side side
	leg  uint8
}

// client is a client's end of its session. Its script is the scenario's.
type client struct {
	sent, acked uint8 // units of the script's stream
	got         uint8 // units of response
	next        uint8 // segment of the script
	forged      bool  // the false version of the next segment is out
	closed      bool  // reset, or closed by the other end
	time        Time  // what its clock shows
}

const (
	window   = 6 // units that an end takes, from the next expected on, in any order
	outgoing = 8 // units that a surrogate has written in all and may have to repeat
)

// surrogate is a surrogate's end of its leg.
type surrogate struct {
	rcvNxt  uint32
	early   [window]Unit   // [i] has number rcvNxt+i; [0] is always empty
	out     [outgoing]Unit // what it has written; [i] has number sndIss+i
	written uint8
	sent    uint8
	acked   uint8
	waiting [2]Unit // heads of requests without a response
	owner   uint8   // of the last request
	need    uint8   // units of body that the last request lacks
	fin     bool    // the client's, received
	closed  bool    // reset
	recent  Time    // the newest timestamp that it has taken
}

// moving is a next_request between its locks.
type moving struct {
	step   uint8 // 0: none, 1: before splice_client, 2: before the second lock
	leg    uint8
	packet Packet
}

// bagSize is how many packets are under way at once at most. One more is lost, as in a full queue.
const bagSize = 4

// budget is what the adversary may still do.
type budget struct{ losses, repeats, retransmissions, closes, unsolicited, stale, strangers, lies uint8 }

// State is everything. It is compared and copied as a value.
type State struct {
	clients    [2]client
	legs       [2]Leg
	surrogates [2]surrogate
	flows      [2]flow
	was        [2]uint8 // bit per leg that the client was ever joined to
	consumed   [2]uint8 // units of each client that surrogates have taken, and their FINs
	served     [8]bool  // requests that surrogates have seen: (client-1)*4 + request
	move       moving
	bag        [bagSize]Packet // sorted
	left       budget
	broken     Violation
}

// Violation says which part of the invariant does not hold.
type Violation uint8

// The violations.
const (
	None                Violation = iota
	ForeignResponse               // a unit written for one client is sent to the other
	UnsolicitedResponse           // what a surrogate said before it had the client's request is sent to that client
	ForeignRequest                // a surrogate takes one client's units or FIN for a part of the other's request
	WrongResponse                 // a client takes a unit that is not the next one of its own responses
	UncleanIdle                   // a leg is idle and one end is not between messages
	FalseAck                      // a client's unit is acknowledged that no surrogate has
	LostResponse                  // a unit is acknowledged to its surrogate that its client does not have
	Replayed                      // a surrogate gets a request a second time
	Bent                          // a stranger's packet changed a session
	Stuck                         // a surrogate takes the next client's packets for some of the past
	Misrouted                     // a surrogate takes a request that is meant for the other one
	ShutOut                       // the window refuses what acknowledges no more than its sender was sent
)

func (v Violation) String() string {
	return [...]string{"none", "foreign response", "unsolicited response", "foreign request", "wrong response", "unclean idle leg",
		"false acknowledgement", "lost response", "replayed request", "bent session", "stuck client", "misrouted request", "shut out"}[v]
}

// First sequence numbers, soon to wrap.
var (
	clientIss = [2]uint32{0xfffffffe, 0xfffffffd} // of the first byte of the request; next to each other, as are the following: a mix-up must not pass as noise
	vipIss    = [2]uint32{0xffffffff, 0xfffffffe} // of the first byte of the response
	legIss    = [2]uint32{0xfffffffd, 0x00000010}
	serverIss = [2]uint32{0xfffffffc, 0x7fffffff}
)

func (s *Scenario) start() State {
	st := State{left: s.Budget.budget()}
	for i := range st.legs {
		l := &st.legs[i]
		l.sndNxt, l.sndUna = legIss[i], legIss[i]
		l.rcvNxt, l.rcvAcked, l.rcvBase = serverIss[i], serverIss[i], serverIss[i]
		st.surrogates[i].rcvNxt = legIss[i]
		if s.Times {
			l.tsSent, l.tsEchoed, st.surrogates[i].recent = at(0), at(0), at(0)
		}
	}
	if s.Times {
		st.clients[0].time, st.clients[1].time = at(0), at(0)
	}
	return st
}

// put adds a packet to the bag. It is lost when the bag is full.
func (s *State) put(p Packet) {
	for i := range s.bag {
		if s.bag[i].Hop == 0 {
			s.bag[i] = p
			return
		}
	}
}

// sortBag makes states equal that differ in the order of the bag only.
func (s *State) sortBag() {
	slices.SortFunc(s.bag[:], func(a, b Packet) int {
		switch {
		case a.key() < b.key():
			return -1
		case a.key() > b.key():
			return 1
		}
		for i := range a.Data {
			if a.Data[i] != b.Data[i] {
				return int(a.Data[i]) - int(b.Data[i])
			}
		}
		if a.Time != b.Time {
			return int(a.Time) - int(b.Time)
		}
		return int(a.Ack - b.Ack)
	})
}

func (p *Packet) key() uint64 {
	k := uint64(p.Hop)<<61 | uint64(p.Who)<<58 | uint64(p.Seq)<<20
	if p.Rst {
		k |= 1
	}
	if p.Bad {
		k |= 2
	}
	if p.Fin != 0 {
		k |= 4
	}
	if p.Hop == 0 {
		return 1 << 63
	}
	return k
}

func (s *State) breaks(v Violation) {
	if s.broken == None {
		s.broken = v
	}
}

// check looks at what has to hold in every state; the rest of the invariant is checked where it could break.
func (s *State) check() {
	for i := range s.legs {
		l, e := &s.legs[i], &s.surrogates[i]
		if l.state != Idle || e.closed {
			continue
		}
		clean := e.rcvNxt == l.sndNxt && e.early == [window]Unit{} && e.waiting[0] == 0 && e.need == 0 && !e.fin
		for n := l.rcvNxt; before(n, serverIss[i]+uint32(e.written)); n++ {
			u := e.out[n-serverIss[i]]
			clean = clean && u.Owner() == Nobody // closing, or sending an unsolicited response
		}
		if !clean {
			s.breaks(UncleanIdle)
		}
	}
}
