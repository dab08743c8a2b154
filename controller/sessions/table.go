package sessions

import (
	"container/heap"
	"net/netip"
	"time"

	"baton/api"
	"baton/packet"
)

// Rules are the limits of a table. Zero fields have defaults.
type Rules struct {
	Handshake time.Duration // until it is complete. Default: 10 s
	Report    time.Duration // from the request's first byte until the request router reports it. Default: 15 s
	Idle      time.Duration // a client's session without packets. Default: 5 min
	LegIdle   time.Duration // a leg without packets. Default: 10 min
	Linger    time.Duration // a session is remembered when it has closed. Default: 5 s
	Total     int           // sessions, legs included. Default: 65,536
	PerPrefix int           // sessions of clients of one /24 or /56. Default: 4,096
}

func (r Rules) withDefaults() Rules {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&r.Handshake, 10 * time.Second}, {&r.Report, 15 * time.Second}, {&r.Idle, 5 * time.Minute}, {&r.LegIdle, 10 * time.Minute},
		{&r.Linger, 5 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if r.Total <= 0 {
		r.Total = 1 << 16
	}
	if r.PerPrefix <= 0 {
		r.PerPrefix = 1 << 12
	}
	return r
}

// Fate says what becomes of a packet.
type Fate int

// The fates.
const (
	Forward Fate = iota // to its destination
	Hold                // its sender repeats it: it belongs behind a handoff
	Refuse              // a session over a limit
)

// Seen is what a packet has told.
type Seen struct {
	Session *Session // nil: not tracked
	Back    bool     // the packet is the other end's, not the opener's
	Fate    Fate
	Fresh   bool     // bytes in order that had not passed before
	Changed bool     // of the session's state
	Retired *Session // a session with the same addresses that this SYN has ended
}

// Counts are sums since the start.
type Counts struct {
	Opened, Retired, Refused uint64
	Untracked                uint64            // packets of sessions that are not known
	Expired                  map[string]uint64 // by reason: handshake, unreported, idle, closed
}

// Table holds sessions.
type Table struct {
	rules    Rules
	classify func(from, to netip.AddrPort) Kind
	sessions map[Way]*Session
	legs     map[*Session]struct{}
	prefixes map[netip.Prefix]int
	due      dues
	counts   Counts
}

// New returns an empty table. classify says what a session between two addresses is for.
func New(r Rules, classify func(from, to netip.AddrPort) Kind) *Table {
	return &Table{rules: r.withDefaults(), classify: classify, sessions: map[Way]*Session{}, legs: map[*Session]struct{}{},
		prefixes: map[netip.Prefix]int{},
		counts:   Counts{Expired: map[string]uint64{}}}
}

// Counts returns the sums.
func (t *Table) Counts() Counts {
	c := t.counts
	c.Expired = make(map[string]uint64, len(t.counts.Expired))
	for why, n := range t.counts.Expired {
		c.Expired[why] = n
	}
	return c
}

// Session returns a session.
func (t *Table) Session(w Way) *Session { return t.sessions[w] }

// All calls f with every session, in no order, until it returns false.
func (t *Table) All(f func(*Session) bool) {
	for _, s := range t.sessions {
		if !f(s) {
			return
		}
	}
}

// Legs calls f with every leg, in no order.
func (t *Table) Legs(f func(*Session)) {
	for s := range t.legs {
		f(s)
	}
}

// See notes what a TCP packet says that a switch has received at a port.
func (t *Table) See(now time.Time, at Point, f packet.Frame) Seen {
	h, w := f.TCP(), Way{f.Src, f.Dst}
	if flags := h.Flags(); flags.Has(packet.SYN) && !flags.Has(packet.ACK) {
		return t.open(now, at, w, f)
	}
	s, back := t.sessions[w], false
	if s == nil {
		s, back = t.sessions[w.Back()], true
	}
	if s == nil {
		t.counts.Untracked++
		return Seen{}
	}
	s.Last = now
	return t.segment(at, s, back, f)
}

// open is a SYN: of a new session, or repeated.
func (t *Table) open(now time.Time, at Point, w Way, f packet.Frame) Seen {
	kind := t.classify(w.From, w.To)
	if kind == Unknown {
		t.counts.Untracked++
		return Seen{}
	}
	seen := Seen{}
	if s := t.sessions[w]; s != nil {
		if s.Opener.First == f.TCP().Seq()+1 && !s.Closed() {
			s.Last = now
			return Seen{Session: s}
		}
		seen.Retired = s
		t.counts.Retired++
		t.Remove(s)
	}
	if len(t.sessions) >= t.rules.Total || kind == Client && t.prefixes[prefix(w.From.Addr())] >= t.rules.PerPrefix {
		t.counts.Refused++
		seen.Fate = Refuse
		return seen
	}
	s := &Session{Way: w, Kind: kind, State: api.ControllerHandshake, Since: now, Last: now}
	s.Opener.open(f)
	s.Opener.note(f, at)
	t.add(s)
	t.counts.Opened++
	seen.Session, seen.Changed = s, true
	return seen
}

func (t *Table) add(s *Session) {
	t.sessions[s.Way] = s
	if s.Kind == Client {
		t.prefixes[prefix(s.From.Addr())]++
	} else {
		t.legs[s] = struct{}{}
	}
	s.due, _ = t.deadline(s)
	heap.Push(&t.due, s)
}

// segment is any packet but an opener's SYN.
func (t *Table) segment(at Point, s *Session, back bool, f packet.Frame) Seen {
	seen := Seen{Session: s, Back: back}
	e, h := &s.Opener, f.TCP()
	if back {
		e = &s.Other
	}
	flags, payload := h.Flags(), uint32(len(f.Payload()))
	if flags.Has(packet.SYN) { // and ACK
		if back && (!e.Seen || e.First != h.Seq()+1 && !s.Established()) {
			e.open(f)
		}
		payload = 0 // TCP Fast Open is not offered
	}
	if !e.Seen {
		return seen
	}
	if s.Held && !back && (payload > 0 || flags.Has(packet.FIN) || flags.Has(packet.RST) && s.Committed) {
		seen.Fate = Hold
		return seen
	}
	before := state{s.State, s.Leg}
	e.note(f, at)
	seen.Fresh = e.pass(h.Seq(), payload)
	if flags.Has(packet.RST) {
		s.Reset = true
	}
	if flags.Has(packet.FIN) && h.Seq().Add(payload).LessEq(e.Next) {
		e.Finished = true
	}
	t.advance(s)
	seen.Changed = before != state{s.State, s.Leg}
	if seen.Changed || seen.Fresh {
		t.Hurry(s)
	}
	return seen
}

type state struct {
	client api.ControllerSessionState
	leg    LegState
}

func (t *Table) advance(s *Session) {
	switch {
	case s.Closed():
		s.State = api.ControllerClosed
	case s.State == api.ControllerHandshake && s.Established():
		s.State = api.ControllerEstablished
	}
	if s.Kind != Leg {
		return
	}
	if s.Leg == Opening && s.Established() {
		s.Leg = Idle
	}
	if s.Leg == Idle && s.Opener.Bytes() > 0 {
		s.Leg = Used
	}
}

// prefix is the network that a client's sessions count for.
func prefix(a netip.Addr) netip.Prefix {
	bits := 56
	if a = a.Unmap(); a.Is4() {
		bits = 24
	}
	p, _ := a.Prefix(bits)
	return p
}

// Restore adds a session that was not seen from its beginning. It returns false if there is another one with its addresses.
func (t *Table) Restore(s *Session) bool {
	if t.sessions[s.Way] != nil || t.sessions[s.Way.Back()] != nil {
		return false
	}
	t.add(s)
	return true
}

// Remove forgets a session.
func (t *Table) Remove(s *Session) {
	if t.sessions[s.Way] != s {
		return
	}
	delete(t.sessions, s.Way)
	delete(t.legs, s)
	heap.Remove(&t.due, s.index)
	if s.Kind == Client {
		p := prefix(s.From.Addr())
		if t.prefixes[p]--; t.prefixes[p] <= 0 {
			delete(t.prefixes, p)
		}
	}
}

// deadline is when a session expires if nothing more passes, and why.
func (t *Table) deadline(s *Session) (time.Time, string) {
	switch {
	case s.Closed() || s.State == api.ControllerClosed:
		return s.Last.Add(t.rules.Linger), "closed"
	case s.State == api.ControllerHandshake:
		return s.Since.Add(t.rules.Handshake), "handshake"
	case s.State == api.ControllerHandedOff || s.State == api.ControllerRequested:
		return s.Last.Add(100 * 365 * 24 * time.Hour), "" // its handoff ends it
	case s.Kind == Leg:
		return s.Last.Add(t.rules.LegIdle), "idle"
	case !s.Proxied && s.Opener.Bytes() > 0:
		return s.Last.Add(t.rules.Report), "unreported"
	}
	return s.Last.Add(t.rules.Idle), "idle"
}

// Hurry notes that a session may expire earlier than before: its state was changed.
func (t *Table) Hurry(s *Session) {
	if t.sessions[s.Way] != s {
		return
	}
	if due, _ := t.deadline(s); !due.Equal(s.due) {
		s.due = due
		heap.Fix(&t.due, s.index)
	}
}

// Expired is a session that was removed, and why.
type Expired struct {
	*Session
	Why string
}

// Tick removes the sessions whose time is over.
func (t *Table) Tick(now time.Time) []Expired {
	var all []Expired
	for len(t.due) > 0 && !now.Before(t.due[0].due) {
		s := t.due[0]
		due, why := t.deadline(s)
		if now.Before(due) { // packets have passed since
			s.due = due
			heap.Fix(&t.due, 0)
			continue
		}
		t.Remove(s)
		t.counts.Expired[why]++
		all = append(all, Expired{s, why})
	}
	return all
}

// dues are the sessions, the first to expire first.
type dues []*Session

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d dues) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push implements [heap.Interface], as Pop does.
func (d *dues) Push(x any) {
	s := x.(*Session)
	s.index = len(*d)
	*d = append(*d, s)
}

// Pop implements [heap.Interface].
func (d *dues) Pop() any {
	old := *d
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	return last
}
