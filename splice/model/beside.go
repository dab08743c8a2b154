package model

import (
	"errors"
	"fmt"
	"reflect"

	"baton/splice/machine"
)

// beside compares each transition with that of the kernel's state machine (bpf/session): with all rules in force the model is an
// oracle for the kernel's code. Its methods do nothing on nil.
type beside struct {
	calls int
	drift string // first difference
}

// beside returns the comparison for a step, or nil.
func (r router) beside() *beside { return r.scenario.kernel }

var legStates = [...]uint8{Idle: machine.Idle, Active: machine.Active, Closing: machine.Closing, Dead: machine.Dead}

var framings = [...]uint8{
	Quiet: machine.Quiet, Head: machine.Head, Body: machine.Body, InChunks: machine.Chunked, Done: machine.Done, Close: machine.Close,
	Opaque: machine.Opaque,
}

// Scales of the kernel's numbers. A unit is a byte; a place on the timestamp ring is an eighth of their range. The model ignores
// that a window rounded up for the surrogate (rescale) may be exceeded.
const (
	tsPlace    = 1 << 29
	windowStep = 1 << 10
)

func ts(t Time) uint32 { return uint32(t.place()) * tsPlace }

// record converts the leg to the kernel's record.
func (r router) record(index int, l *Leg) machine.Session {
	s := machine.Session{
		State: legStates[l.state], Client: l.client, SndNxt: l.sndNxt, SndUna: l.sndUna, RcvNxt: l.rcvNxt, RcvAcked: l.rcvAcked,
		RcvBase: l.rcvBase, SndBase: l.sndBase, ToServerSeq: l.toServerSeq, ToServerAck: l.toServerAck,
		SndEdge: l.sndUna + window, SndSpan: window, InsAt: l.insAt, InsLen: uint16(l.insertion.len), InsHead: uint16(l.insertion.head), InsSum: uint64(l.insertion.sum), RcvEdge: l.rcvAcked + window - windowStep, RcvSpan: window,
		Request: framings[l.request], Response: framings[l.response], ClientRequests: uint32(l.clientRequests), Surrogate: uint16(index),
	}
	if l.request == Body {
		s.RequestLeft = uint64(l.requestLeft)
	}
	if l.response == Body {
		s.ResponseLeft = uint64(l.responseLeft)
	}
	if r.scenario.Times {
		s.TSToServer, s.TSSent, s.TSEchoed = uint32(l.tsToServer)*tsPlace, ts(l.tsSent), ts(l.tsEchoed)
	}
	moving := r.move.step != 0 && int(r.move.leg) == index && l.client == r.move.packet.End && l.state == Active
	for flag, on := range map[uint32]bool{
		machine.TS: r.scenario.Times, machine.ClientFIN: l.clientFin, machine.ServerFIN: l.serverFin, machine.NoReuse: l.noReuse,
		machine.Spoilt: l.spoilt, machine.First: l.first, machine.Routed: l.routed, machine.Hold: l.hold, machine.Moving: moving,
	} {
		if on {
			s.Flags |= flag
		}
	}
	return s
}

// moment is after all timeouts of the kernel, which the model ignores.
func (r router) moment() machine.Moment {
	m := machine.Moment{Now: 1 << 20}
	if r.scenario.Times {
		m.Clock = ts(r.clock())
	}
	return m
}

func ofClient(p *Packet) machine.Packet {
	m := machine.Packet{Client: p.End, Seq: p.Seq, Ack: p.Ack, Len: p.Len(), Window: window, FIN: p.Fin != 0, RST: p.Rst}
	if p.Time != 0 {
		m.HasTS, m.TSVal = true, ts(p.Time)
	}
	return m
}

// ofServer: the timestamps of the model's surrogates are those that they echo.
func ofServer(p *Packet) machine.Packet {
	m := ofClient(p)
	m.Client, m.TSVal = 0, 0
	if p.Time != 0 {
		m.TSEcr = ts(p.Time)
	}
	return m
}

// walk is what an HTTP parser would report on the packet's bytes, while the response is parsed.
func walk(l *Leg, p *Packet) (w machine.Walk) {
	if p.Len() == 0 || l.response != Head && l.response != InChunks || !before(l.rcvNxt, p.Seq+p.Len()) {
		return w
	}
	w.At, w.From, w.Framing, w.Hidden = l.rcvNxt, framings[l.response], framings[l.response], p.Seq != l.rcvNxt
	if w.Hidden {
		return w
	}
	units := p.Data[:p.Len()]
	if l.response == Head {
		head := units[0]
		units = units[1:]
		w.Framing, w.Body = machine.Done, uint32(len(units))
		switch {
		case head.Kind() != ResponseHead:
			w.Framing = machine.Opaque
			return w
		case head.Coding() == Length:
			w.HeadFlags, w.HeadLength = machine.HeadLength, uint64(head.Body())
			return w
		case head.Coding() == UntilClose:
			w.HeadFlags = machine.HeadClose
			return w
		}
		w.HeadFlags = machine.HeadChunked
	}
	for i, u := range units {
		switch u.Kind() {
		case ResponseBody:
		case LastChunk:
			w.Done, w.Behind = true, uint32(len(units)-i-1)
			return w
		default:
			w.Bad = true
			return w
		}
	}
	return w
}

// sameRecord ignores details that the model does not have.
func (r router) sameRecord(index int, l *Leg, got machine.Session) error {
	want := r.record(index, l)
	got.SndEdge, got.SndSpan, got.RcvEdge, got.RcvSpan, got.Surrogate = want.SndEdge, want.SndSpan, want.RcvEdge, want.RcvSpan, want.Surrogate
	got.ClientRequests = min(got.ClientRequests, 2)
	if got.Request != machine.Body {
		got.RequestLeft = 0
	}
	if got.Response != machine.Body {
		got.ResponseLeft = 0
	}
	if !r.scenario.Times {
		got.TSToServer, got.TSSent, got.TSEchoed = 0, 0, 0
	}
	if l.state == Dead || l.state == Idle {
		got.Flags, want.Flags = 0, 0 // no client: the next one's start afresh
	}
	got.Flags &= modelled
	if got == want {
		return nil
	}
	return differences(got, want)
}

// modelled are the flags in the model.
const modelled = machine.TS | machine.ClientFIN | machine.ServerFIN | machine.NoReuse | machine.Moving | machine.Spoilt | machine.First |
	machine.Routed | machine.Hold

func differences(got, want machine.Session) (err error) {
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if a, b := g.Field(i), w.Field(i); !a.Equal(b) {
			err = errors.Join(err, fmt.Errorf("%s is %v in the kernel, %v in the model", g.Type().Field(i).Name, a, b))
		}
	}
	return err
}

// differs records the first difference.
func (b *beside) differs(what string, p *Packet, before *Leg, got, want uint32, err error) {
	b.calls++
	if b.drift == "" && (got != want || err != nil) {
		b.drift = fmt.Sprintf("%s of %v: the kernel continues with %d, the model with %d; %v\nbefore: %+v", what, p, got, want, err, *before)
	}
}

func (b *beside) cut(r router, l *Leg, whole, cut *Packet) {
	if b == nil {
		return
	}
	s := r.record(0, l)
	b.differs("cut", whole, l, s.Cut(ofClient(whole)), whole.Len()-cut.Len(), nil)
}

func (b *beside) client(r router, index int, before, after *Leg, p *Packet, next uint32) {
	if b == nil {
		return
	}
	s := r.record(index, before)
	in := ofClient(p)
	in.Reread = before.beginsHead(p)
	if in.Reread && r.wholeHead(p) { // as read_repeated of bpf/router/client.h
		in.Head, in.Request, in.Sum = r.scenario.headUnits(), uint64(1+p.Data[0].N()), uint64(p.Data[0])
	}
	got, reply := s.OnClient(in, r.moment())
	err := r.sameRecord(index, after, s)
	switch {
	case err != nil:
	case got == machine.NextChallenge && (reply.Seq != after.rcvNxt-after.toServerAck || reply.Ack != after.heard(after.sndUna)-after.toServerSeq):
		err = fmt.Errorf("it challenges with %+v", reply)
	case got == machine.NextReset && reply.OnSeq != r.clientSeq(after, p):
		err = fmt.Errorf("it resets with %+v", reply)
	case got == machine.NextSend && (reply.OnSeq != r.clientSeq(after, p) || reply.Insert != r.repeatsInsertion(before, p)):
		err = fmt.Errorf("what it sends on has %+v", reply)
	}
	b.differs("client's packet", p, before, got, next, err)
}

func (b *beside) server(r router, index int, before, after *Leg, p *Packet, next uint32) {
	if b == nil {
		return
	}
	s := r.record(index, before)
	got, reply := s.OnServer(ofServer(p), walk(before, p), r.moment())
	s.TSSent = ts(after.tsSent) // the model records that when it sends the acknowledgement
	err := r.sameRecord(index, after, s)
	switch {
	case err != nil:
	case got == machine.ServerACK && reply.Seq != after.sndNxt || got == machine.ServerInsert && reply.Seq != after.insAt:
		err = fmt.Errorf("it answers with %+v", reply)
	case got == machine.ServerSend && reply.OnAck != after.heard(p.Ack)-after.toServerSeq:
		err = fmt.Errorf("what it sends on has %+v", reply)
	}
	b.differs("surrogate's packet", p, before, got, next, err)
}

// inserted is what goes with a request.
func (r router) inserted(p *Packet) machine.Insertion {
	i := r.insertion(p)
	return machine.Insertion{Len: uint16(i.len), Head: uint16(i.head), Sum: uint64(i.sum)}
}

func (b *beside) join(r router, index int, before, after *Leg, p *Packet) {
	if b == nil {
		return
	}
	s := r.record(index, before)
	flags := r.record(index, after).Flags & (machine.First | machine.Routed | machine.Hold)
	if r.scenario.Insert {
		flags |= machine.Spoilt
	}
	joined, _, _ := s.OnJoin(ofClient(p), uint64(1+p.Data[0].N()), flags, r.inserted(p), r.moment())
	err := r.sameRecord(index, after, s)
	if !joined {
		err = fmt.Errorf("it does not join them, %w", err)
	}
	b.differs("joining", p, before, 0, 0, err)
}

func (b *beside) request(r router, index int, before, after *Leg, p *Packet, next uint32) {
	if b == nil || next == machine.RequestRace && r.move.step != 0 {
		return
	}
	s := r.record(index, before)
	got, _ := s.OnRequest(ofClient(p), uint64(1+p.Data[0].N()), r.inserted(p), p.Data[0].Surrogate() == index, r.moment())
	s.Flags &^= machine.Moving // the model records that when it moves
	b.differs("next request", p, before, got, next, r.sameRecord(index, after, s))
}

func (b *beside) leave(r router, index int, before, after *Leg, p *Packet, next uint32, owed bool) {
	if b == nil {
		return
	}
	s := r.record(index, before)
	got, owes, reply := s.OnLeave(ofClient(p), r.moment())
	err := r.sameRecord(index, after, s)
	if err == nil && (owes != owed || owes && reply.Ack != after.rcvNxt) {
		err = fmt.Errorf("owed %t, %+v; the model %t", owes, reply, owed)
	}
	b.differs("leaving", p, before, got, next, err)
}
