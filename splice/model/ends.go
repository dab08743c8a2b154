package model

import "slices"

// Segment is one step of a client's script.
type Segment struct {
	Data   []Unit
	Forged []Unit // sent first, as long as Data, dropped by the surrogate
	Fin    bool
	Rst    bool
	After  int // units of response to wait for before sending
}

// at is the number of a segment's first unit.
func (s *Scenario) at(c, i int) uint32 {
	at := clientIss[c]
	for _, earlier := range s.Scripts[c][:i] {
		at += uint32(len(earlier.Data))
		if earlier.Fin {
			at++
		}
	}
	return at
}

// segment builds the packet of a script's segment.
func (s *Scenario) segment(st *State, c, i int, forged bool) Packet {
	seg := s.Scripts[c][i]
	at := s.at(c, i) - clientIss[c]
	e := &st.clients[c]
	p := Packet{Hop: FromClient, End: uint8(c + 1), Seq: clientIss[c] + at, Ack: vipIss[c] + uint32(e.got), Rst: seg.Rst, Bad: forged, Time: e.time}
	data := seg.Data
	if forged {
		data = seg.Forged
	}
	if acked := uint32(e.acked); at < acked && acked < at+uint32(len(data)) { // the rest is sent later
		p.Seq, data = clientIss[c]+acked, data[acked-at:]
	}
	copy(p.Data[:], data)
	if seg.Fin {
		p.Fin = newUnit(c+1, Fin, 0, 0, 0, 0, 0)
	}
	return p
}

func (s *Scenario) send(st *State, c int) {
	e := &st.clients[c]
	seg := s.Scripts[c][e.next]
	if len(seg.Forged) > 0 && !e.forged {
		e.forged = true
		st.put(s.segment(st, c, int(e.next), true))
		return
	}
	st.put(s.segment(st, c, int(e.next), false))
	e.sent += uint8(len(seg.Data))
	if seg.Fin {
		e.sent++
	}
	e.closed = seg.Rst
	e.forged = false
	e.next++
}

// expected lists what a client should receive, in order.
func (s *Scenario) expected(c int) []Unit {
	var out []Unit
	for _, seg := range s.Scripts[c] {
		for _, u := range seg.Data {
			if u.Kind() == RequestHead {
				out = append(out, response(u)...)
			}
		}
	}
	return out
}

// clientGets is a client's TCP.
func (s *Scenario) clientGets(st *State, p Packet) {
	c := int(p.End - 1)
	e := &st.clients[c]
	next := vipIss[c] + uint32(e.got)
	if e.closed {
		return
	}
	if p.Rst {
		e.closed = p.Seq == next
		return
	}
	if n := p.Ack - clientIss[c]; int32(n) > int32(e.acked) && n <= uint32(e.sent) {
		e.acked = uint8(n)
	}
	if p.Len() == 0 && p.Fin == 0 {
		return
	}
	skip := next - p.Seq
	if skip <= p.Len() {
		for _, u := range p.Data[skip:p.Len()] {
			want := s.expectations[c]
			if int(e.got) >= len(want) || want[e.got] != u {
				st.breaks(WrongResponse)
				return
			}
			e.got++
		}
		e.closed = p.Fin != 0
	}
	ack := vipIss[c] + uint32(e.got)
	if e.closed {
		ack++
	}
	st.put(Packet{Hop: FromClient, End: p.End, Seq: clientIss[c] + uint32(e.sent), Ack: ack, Time: e.time})
}

// serverGets is a surrogate's TCP and application.
func (s *Scenario) serverGets(st *State, p Packet) {
	leg := int(p.End)
	e := &st.surrogates[leg]
	if e.closed || p.Bad {
		return
	}
	if !p.Rst && p.Time != 0 && p.Time.before(e.recent) {
		if p.Data[0].Owner() == 2 { // which never lies
			st.breaks(Stuck)
		}
		return
	}
	if p.Rst {
		e.closed = p.Seq == e.rcvNxt
		return
	}
	if p.Time != 0 && !before(e.rcvNxt, p.Seq) {
		e.recent = p.Time
	}
	if n := p.Ack - serverIss[leg]; int32(n) > int32(e.acked) && n <= uint32(e.sent) {
		if s.lacks(st, e.out[e.acked:n]) {
			st.breaks(LostResponse)
		}
		e.acked = uint8(n)
	}
	units := p.Data[:p.Len()]
	if p.Fin != 0 {
		units = append(append([]Unit(nil), units...), p.Fin)
	}
	if len(units) == 0 {
		return
	}
	for i, u := range units {
		if at := p.Seq + uint32(i) - e.rcvNxt; at < window && (e.early[at] == 0) {
			e.early[at] = u
		}
	}
	for e.early[0] != 0 {
		u := e.early[0]
		copy(e.early[:], e.early[1:])
		e.early[window-1] = 0
		e.rcvNxt++
		s.read(st, leg, u)
	}
	st.put(Packet{Hop: FromServer, End: p.End, Seq: serverIss[leg] + uint32(e.sent), Ack: e.rcvNxt, Time: e.recent})
}

// lacks reports whether a client still needs a unit that a surrogate has written for it.
func (s *Scenario) lacks(st *State, units []Unit) bool {
	for _, u := range units {
		c := u.Owner() - 1
		if c >= 0 && !st.clients[c].closed && slices.Index(s.expectations[c], u) >= int(st.clients[c].got) {
			return true
		}
	}
	return false
}

// read is the application reading the next unit of its stream.
func (s *Scenario) read(st *State, leg int, u Unit) {
	e := &st.surrogates[leg]
	if u.Owner() == Stranger {
		st.breaks(ForeignRequest)
		return
	}
	if u.Kind() == Inserted {
		if e.marked != 0 {
			st.breaks(Unmarked)
		}
		e.marked = u
		return
	}
	s.checkMark(st, e, u)
	c := u.Owner() - 1
	st.consumed[c]++
	if s.Hold && u.Kind() != Fin && u.Surrogate() != leg {
		st.breaks(Misrouted)
	}
	switch {
	case u&Urgent != 0: // removed by its TCP
	case u.Kind() == Fin:
		if e.owner != 0 && int(e.owner) != u.Owner() {
			st.breaks(ForeignRequest)
		}
		e.fin = true
	case e.fin:
	case e.need > 0:
		if int(e.owner) != u.Owner() {
			st.breaks(ForeignRequest)
		}
		e.need--
	case u.Kind() != RequestHead:
		if int(e.owner) != u.Owner() {
			st.breaks(ForeignRequest)
		}
		e.fin = true // 400 and close, not modelled
	default:
		if st.served[c*4+u.Request()] {
			st.breaks(Replayed)
		}
		st.served[c*4+u.Request()] = true
		e.owner, e.need = uint8(u.Owner()), uint8(u.N())
		for i := range e.waiting {
			if e.waiting[i] == 0 {
				e.waiting[i] = u
				return
			}
		}
	}
}

// checkMark: a client's units follow the one inserted before its first; an edited head is whole, and of one version.
func (s *Scenario) checkMark(st *State, e *surrogate, u Unit) {
	switch {
	case s.Insert && e.marked.Owner() != u.Owner():
		st.breaks(Unmarked)
	case s.Edit && u.Kind() == RequestHead:
		if u&Edited == 0 || e.marked != insertedFor(u) {
			st.breaks(Unmarked)
		}
		if e.marked = 0; s.Long {
			e.marked = restOf(u) | Edited
		}
	case s.Edit && e.marked == u:
		e.marked = 0
	case s.Edit && e.marked != 0:
		st.breaks(Unmarked)
	}
}

// write appends to the surrogate's stream.
func (e *surrogate) write(units ...Unit) bool {
	if int(e.written)+len(units) > outgoing {
		return false
	}
	e.written += uint8(copy(e.out[e.written:], units))
	return true
}

// answer writes the response to the current request.
func (e *surrogate) answer() bool {
	head := e.waiting[0]
	units := response(head)
	if head.Coding() == UntilClose {
		units = append(units, newUnit(Nobody, Fin, 0, 0, 0, 0, 0))
	}
	if !e.write(units...) {
		return false
	}
	e.waiting = [2]Unit{e.waiting[1]}
	return true
}

// serverSends sends at most so many units from a number on in one packet.
func (s *State) serverSends(leg int, from uint8, most int) {
	e := &s.surrogates[leg]
	p := Packet{Hop: FromServer, End: uint8(leg), Seq: serverIss[leg] + uint32(from), Ack: e.rcvNxt, Time: e.recent}
	n := 0
	for ; n < most && from+uint8(n) < e.written; n++ {
		u := e.out[from+uint8(n)]
		if u.Kind() == Fin {
			p.Fin = u
			n++
			break
		}
		p.Data[n] = u
	}
	s.put(p)
	e.sent = max(e.sent, from+uint8(n))
}
