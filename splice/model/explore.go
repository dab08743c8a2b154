package model

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
)

// Budget limits the adversary.
type Budget struct {
	Losses, Repeats, Retransmissions int
	Closes                           int // by surrogates, unannounced
	Unsolicited                      int // units that surrogates send before a request
	Stale                            int // packets whose flow lookup is stale
	Strangers                        int // packets of an off-path attacker
	Lies                             int // of client A's clock
}

func (b Budget) budget() budget {
	return budget{uint8(b.Losses), uint8(b.Repeats), uint8(b.Retransmissions), uint8(b.Closes), uint8(b.Unsolicited), uint8(b.Stale),
		uint8(b.Strangers), uint8(b.Lies)}
}

// Scenario is what is explored.
type Scenario struct {
	Name    string
	Scripts [2][]Segment // of client A and B
	Budget  Budget
	Early   bool    // surrogates may answer before they have the whole request
	Small   bool    // surrogates send units one by one as well
	Silent  [2]bool // surrogates that send nothing unsolicited
	Routed  bool    // the VIP has several pools
	Hold    bool    // each request is routed separately
	Insert  bool    // a unit is inserted before a client's first on a leg, which serves only that client
	Edit    bool    // one is inserted into the head of each request
	Apart   bool    // that goes in a packet of its own
	Long    bool    // a head has two units
	Parts   bool    // clients repeat single units as well
	Times   bool    // packets have timestamps
	Clock   uint8   // the router's clock on the ring; what the legs' surrogates have accepted is at 0
	Ignore  []Violation

	kernel *beside // nil: no lockstep

	expectations [2][]Unit
}

// step is one action in some state.
type step struct {
	what string
	n    int
	p    Packet
}

func (a step) String() string {
	if a.p.Hop != 0 {
		return a.what + ": " + a.p.String()
	}
	return fmt.Sprintf("%s %d", a.what, a.n)
}

// steps calls f with every possible next state. It stops if f returns false.
func (s *Scenario) steps(st *State, rules *Rules, f func(step, *State) bool) {
	more := true
	try := func(a step, act func(*State)) {
		if !more {
			return
		}
		next := *st
		act(&next)
		next.sortBag()
		next.check()
		for _, v := range s.Ignore {
			if next.broken == v {
				next.broken = None
			}
		}
		more = f(a, &next)
	}
	if st.move.step == 1 {
		try(step{what: "move out"}, func(n *State) { s.router(n, rules).moveOut() })
	} else if st.move.step == 2 {
		try(step{what: "move done"}, func(n *State) { s.router(n, rules).moveDone() })
	}
	s.packets(st, rules, try)
	if st.left.strangers > 0 {
		s.strangers(st, rules, try)
	}
	if st.left.lies > 0 {
		s.lies(st, rules, try)
	}
	for c := range st.clients {
		s.clientSteps(st, c, try)
	}
	for leg := range st.surrogates {
		s.serverSteps(st, leg, try)
	}
}

func (s *Scenario) router(st *State, rules *Rules) router {
	return router{State: st, rules: rules, scenario: s}
}

func (s *Scenario) packets(st *State, rules *Rules, try func(step, func(*State))) {
	for i := range st.bag {
		p := st.bag[i]
		if p.Hop == 0 || i > 0 && p == st.bag[i-1] {
			continue
		}
		take := func(n *State) { n.bag[i] = Packet{} }
		deliver := func(n *State) {
			switch p.Hop {
			case ToClient:
				s.clientGets(n, p)
			case ToServer:
				s.serverGets(n, p)
			default:
				s.router(n, rules).arrive(p)
			}
		}
		try(step{"deliver", i, p}, func(n *State) { take(n); deliver(n) })
		if st.left.losses > 0 {
			try(step{"lose", i, p}, func(n *State) { n.left.losses--; take(n) })
		}
		if st.left.repeats > 0 {
			try(step{"repeat", i, p}, func(n *State) { n.left.repeats--; deliver(n) })
		}
		if st.left.stale > 0 && p.Hop == FromClient {
			for leg := range st.legs {
				if st.was[p.End-1]&(1<<leg) != 0 {
					try(step{"deliver late in the kernel", i, p}, func(n *State) { n.left.stale--; take(n); s.router(n, rules).clientPacket(leg, p) })
				}
			}
		}
	}
}

func (s *Scenario) clientSteps(st *State, c int, try func(step, func(*State))) {
	e := &st.clients[c]
	if e.closed || c == 1 && st.was[0] == 0 { // the second client starts after the first has had a leg
		return
	}
	if int(e.next) < len(s.Scripts[c]) && int(e.got) >= s.Scripts[c][e.next].After {
		try(step{what: "send", n: c + 1}, func(n *State) { s.send(n, c) })
	}
	if st.left.retransmissions > 0 && e.acked < e.sent {
		for i := range int(e.next) {
			try(step{what: "retransmit segment", n: i}, func(n *State) { n.left.retransmissions--; n.put(s.segment(n, c, i, false)) })
			if s.Parts {
				s.partsAgain(c, i, try)
			}
		}
	}
}

// partsAgain retransmits each unit of a segment in a packet of its own.
func (s *Scenario) partsAgain(c, i int, try func(step, func(*State))) {
	for j, u := range s.Scripts[c][i].Data {
		try(step{what: "retransmit a part of segment", n: i}, func(n *State) {
			n.left.retransmissions--
			p := s.segment(n, c, i, false)
			p.Seq, p.Data, p.Fin = s.at(c, i)+uint32(j), [mostUnits]Unit{u}, 0
			n.put(p)
		})
	}
}

func (s *Scenario) serverSteps(st *State, leg int, try func(step, func(*State))) {
	e := &st.surrogates[leg]
	if e.closed {
		return
	}
	if over := e.written > 0 && e.out[e.written-1].Kind() == Fin; !over {
		if e.waiting[0] != 0 && (e.need == 0 || s.Early) {
			try(step{what: "answer on leg", n: leg}, func(n *State) { n.surrogates[leg].answer() })
		}
		if e.waiting[0] == 0 && (st.left.closes > 0 || e.fin) {
			try(step{what: "close leg", n: leg}, func(n *State) {
				if !e.fin {
					n.left.closes--
				}
				n.surrogates[leg].write(newUnit(Nobody, Fin, 0, 0, 0, 0, 0))
			})
		}
		if st.left.unsolicited > 0 && !s.Silent[leg] && e.written == 0 && e.rcvNxt == legIss[leg] {
			try(step{what: "send an unsolicited response on leg", n: leg}, func(n *State) {
				n.left.unsolicited--
				if n.surrogates[leg].write(newUnit(Nobody, Unsolicited, 0, 0, 0, 0, 0)) {
					n.serverSends(leg, e.sent, mostUnits)
				}
			})
		}
	}
	if e.sent < e.written {
		try(step{what: "send on leg", n: leg}, func(n *State) { n.serverSends(leg, e.sent, mostUnits) })
		if s.Small && e.written-e.sent > 1 {
			try(step{what: "send a unit on leg", n: leg}, func(n *State) { n.serverSends(leg, e.sent, 1) })
		}
	}
	if st.left.retransmissions > 0 && e.acked < e.sent {
		try(step{what: "retransmit on leg", n: leg}, func(n *State) { n.left.retransmissions--; n.serverSends(leg, e.acked, mostUnits) })
	}
}

func (s *Scenario) prepare() {
	for c := range s.expectations {
		s.expectations[c] = s.expected(c)
	}
}

// Result of an exploration.
type Result struct {
	States    int
	Whole     bool // all reachable states were seen
	Violation Violation
	Path      []string // steps to it
	Ended     int      // states in which both clients have all responses
	Recycled  int      // states with an idle used leg
	Moved     int      // states in which a client has been on both legs
}

// Explore visits states breadth-first, at most so many, and stops at a violation.
func (s *Scenario) Explore(rules Rules, most int) Result {
	type origin struct {
		from int32
		by   step
	}
	s.prepare()
	seed := maphash.MakeSeed()
	seen := make(map[uint64]struct{})
	var origins []origin
	var res Result
	frontier := []State{s.start()}
	index := []int32{0}
	origins = append(origins, origin{-1, step{what: "start"}})
	seen[maphash.Comparable(seed, frontier[0])] = struct{}{}
	for len(frontier) > 0 {
		var next []State
		var nextIndex []int32
		for i := range frontier {
			s.steps(&frontier[i], &rules, func(a step, n *State) bool {
				h := maphash.Comparable(seed, *n)
				if _, have := seen[h]; have {
					return true
				}
				seen[h] = struct{}{}
				origins = append(origins, origin{index[i], a})
				s.count(n, &res)
				if n.broken != None {
					res.Violation = n.broken
					return false
				}
				next = append(next, *n)
				nextIndex = append(nextIndex, int32(len(origins)-1))
				return len(seen) < most
			})
			if res.Violation != None || len(seen) >= most {
				break
			}
		}
		if res.Violation != None {
			for at := int32(len(origins) - 1); at >= 0; at = origins[at].from {
				res.Path = append([]string{origins[at].by.String()}, res.Path...)
			}
		}
		if res.Violation != None || len(seen) >= most {
			res.States = len(seen)
			return res
		}
		frontier, index = next, nextIndex
	}
	res.States, res.Whole = len(seen), true
	return res
}

func (s *Scenario) count(st *State, res *Result) {
	all := true
	for c := range st.clients {
		all = all && int(st.clients[c].got) == len(s.expectations[c])
	}
	if all {
		res.Ended++
	}
	for i := range st.legs {
		if st.legs[i].state == Idle && st.legs[i].sndNxt != legIss[i] {
			res.Recycled++
			break
		}
	}
	if st.was[0] == 3 || st.was[1] == 3 {
		res.Moved++
	}
}

// Walk takes at most so many random steps, and stops at a violation or a dead end.
func (s *Scenario) Walk(rules Rules, rng *rand.Rand, most int) Result {
	s.prepare()
	st := s.start()
	res := Result{States: 1}
	for range most {
		var (
			chosen State
			by     step
			n      int
		)
		s.steps(&st, &rules, func(a step, next *State) bool {
			n++
			if rng.IntN(n) == 0 {
				chosen, by = *next, a
			}
			return true
		})
		if n == 0 {
			res.Whole = true
			break
		}
		st = chosen
		res.States++
		res.Path = append(res.Path, by.String())
		s.count(&st, &res)
		if st.broken != None {
			res.Violation = st.broken
			break
		}
	}
	return res
}
