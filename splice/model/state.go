package model

import "slices"

// LegState is the state of a leg; enum splice_state of bpf/session/splice.h.
type LegState uint8

// The states.
const (
	Idle LegState = iota
	Active
	Closing
	Dead
)

// Leg is a server leg and its client: struct splice, without what the model leaves out.
type Leg struct {
	state                    LegState
	client                   uint8 // 1 or 2; the tuple
	sndNxt, sndUna           uint32
	rcvNxt, rcvAcked         uint32
	rcvBase, sndBase         uint32 // when the client joined; the kernel has only rcv_base
	toServerSeq, toServerAck uint32
	request, response        Framing
	requestLeft              uint8
	responseLeft             uint8
	clientRequests           uint8
	clientFin, serverFin     bool
	noReuse                  bool
	spoilt                   bool // not reused
	first                    bool // the first leg of its client
	routed                   bool // units after a gap in a response's head or chunks are dropped
	hold                     bool // requests after the current one are held
	tsSent, tsEchoed         Time // newest sent to the surrogate; newest echoed by it
	tsToServer               uint8
	insAt                    uint32 // number of the inserted unit
	insertion                insertion
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
	forged      bool  // the false version of the next segment was sent
	closed      bool  // reset, or closed by the peer
	time        Time  // its clock
}

const (
	window   = 6 // receive window of an end, in units, filled in any order
	outgoing = 8 // units that a surrogate has written and may have to retransmit
)

// surrogate is a surrogate's end of its leg.
type surrogate struct {
	rcvNxt  uint32
	early   [window]Unit   // [i] has number rcvNxt+i; [0] is always empty
	out     [outgoing]Unit // its stream; [i] has number sndIss+i
	written uint8
	sent    uint8
	acked   uint8
	waiting [2]Unit // heads of requests without a response
	owner   uint8   // of the last request
	need    uint8   // missing body units of the last request
	fin     bool    // the client's, received
	closed  bool    // reset
	recent  Time    // newest accepted timestamp
	marked  Unit    // the inserted unit that was read: the last, or that of a head that must follow
}

// moving is a next_request in progress.
type moving struct {
	step   uint8 // 0: none, 1: before splice_client, 2: before the second lock
	leg    uint8
	packet Packet
}

// bagSize is the most packets in flight. One more is lost, as in a full queue.
const bagSize = 4

// budget is what the adversary has left.
type budget struct{ losses, repeats, retransmissions, closes, unsolicited, stale, strangers, lies uint8 }

// State is the whole state. It is compared and copied by value.
type State struct {
	clients    [2]client
	legs       [2]Leg
	surrogates [2]surrogate
	flows      [2]flow
	was        [2]uint8 // bit per leg that the client was ever joined to
	consumed   [2]uint8 // units and FINs of each client that surrogates have accepted
	served     [8]bool  // requests that surrogates have seen: (client-1)*4 + request
	move       moving
	bag        [bagSize]Packet // sorted
	left       budget
	broken     Violation
}

// Violation is a violated part of the invariant.
type Violation uint8

// The violations.
const (
	None                Violation = iota
	ForeignResponse               // a unit for one client is sent to the other
	UnsolicitedResponse           // an unsolicited response is sent to a client
	ForeignRequest                // a surrogate takes one client's units or FIN for part of the other's request
	WrongResponse                 // a client receives a unit that is not the next of its responses
	UncleanIdle                   // a leg is idle and one end is not between messages
	FalseAck                      // a client's unit is acknowledged although no surrogate has it
	LostResponse                  // a surrogate's unit is acknowledged although its client does not have it
	Replayed                      // a surrogate receives a request twice
	Bent                          // an attacker's packet changed a session
	Stuck                         // a surrogate takes the next client's packets for old ones (PAWS)
	Misrouted                     // a surrogate receives a request meant for the other
	ShutOut                       // the window check refuses a valid acknowledgement
	Unmarked                      // a surrogate takes a client's unit without what is inserted before it, or that twice, or a head of two versions
)

func (v Violation) String() string {
	return [...]string{"none", "foreign response", "unsolicited response", "foreign request", "wrong response", "unclean idle leg",
		"false acknowledgement", "lost response", "replayed request", "bent session", "stuck client", "misrouted request", "shut out", "unmarked request"}[v]
}

// Initial sequence numbers, soon to wrap.
var (
	clientIss = [2]uint32{0xfffffffe, 0xfffffffd} // of the first request byte; the numbers are adjacent, so that a mix-up does not pass as noise
	vipIss    = [2]uint32{0xffffffff, 0xfffffffe} // of the first response byte
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

// put adds a packet to the bag; if that is full, it is lost.
func (s *State) put(p Packet) {
	for i := range s.bag {
		if s.bag[i].Hop == 0 {
			s.bag[i] = p
			return
		}
	}
}

// sortBag normalizes the order of the bag.
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
	k := uint64(p.Hop)<<61 | uint64(p.End)<<58 | uint64(p.Seq)<<20
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

// check tests invariants of every state; the others are tested where they could break.
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
