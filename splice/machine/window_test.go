package machine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"baton/splice/machine"
)

// told is a packet to the surrogate.
type told struct {
	seq, ack, len uint32
	window        uint16
}

// sender is what a surrogate knows of its peer's window.
type sender struct {
	linux          bool // takes windows by tcp_may_update_window; else by RFC 9293, 3.10.7.4
	next, una, wl1 uint32
	window         uint16
}

// newer reports whether the window counts; the acknowledgement is not older than the last.
func (s *sender) newer(p told) bool {
	if after(p.seq, s.wl1) {
		return true
	}
	if s.linux {
		return after(p.ack, s.una) || p.seq == s.wl1 && p.window > s.window
	}
	return p.seq == s.wl1
}

func after(a, b uint32) bool { return int32(a-b) > 0 }

func (s *sender) takes(p told) {
	if !after(s.una, p.ack) {
		if s.newer(p) {
			s.window, s.wl1 = p.window, p.seq
		}
		s.una = p.ack
	}
	if p.seq == s.next {
		s.next += p.len
	}
}

// windows is a leg, the clients that it serves one after the other, and its surrogate.
type windows struct {
	t        *testing.T
	r        *rand.Rand
	leg      machine.Session
	to       sender
	flight   []told // to the surrogate
	client   uint8
	seq, ack uint32 // the client's next, in its own numbers
	most     uint16 // the client's largest window so far
	widened  int    // requests that were followed by a window
	log      []string
}

var idleAt = machine.Moment{Now: 1 << 20}

func (w *windows) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *windows) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log[max(0, len(w.log)-30):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

// send puts a packet on its way. Some are lost, if they may be, and some are overtaken.
func (w *windows) send(p told, mayBeLost bool) {
	if mayBeLost && w.r.IntN(4) == 0 {
		w.logf("lost: %+v", p)
		return
	}
	w.logf("sent: %+v", p)
	w.flight = append(w.flight, p)
	if w.r.IntN(3) == 0 {
		w.r.Shuffle(len(w.flight), func(i, j int) { w.flight[i], w.flight[j] = w.flight[j], w.flight[i] })
	}
	if w.r.IntN(2) == 0 {
		w.land()
	}
}

// land has all packets arrive.
func (w *windows) land() {
	for _, p := range w.flight {
		w.to.takes(p)
	}
	w.flight = w.flight[:0]
}

// packet is the client's, with a window of its choice.
func (w *windows) packet(length uint32) machine.Packet {
	window := uint16(w.r.IntN(1 << 16))
	if w.r.IntN(4) == 0 {
		window = uint16(w.r.IntN(5000)) // near that of an idle leg
	}
	w.most = max(w.most, window)
	return machine.Packet{Client: w.client, Seq: w.seq, Ack: w.ack, Len: length, Window: window}
}

const requestBytes = 100

// join has another client ask.
func (w *windows) join() {
	w.client = w.client%100 + 1
	w.seq, w.ack, w.most = w.r.Uint32(), w.r.Uint32(), 0
	p := w.packet(requestBytes)
	joined, widen, r := w.leg.OnJoin(p, requestBytes, machine.First, machine.Insertion{}, idleAt)
	if !joined {
		w.fail("client %d is not joined: %+v", w.client, w.leg)
	}
	w.logf("client %d, widen %t", w.client, widen)
	w.asked(p, told{r.OnSeq, r.OnAck, requestBytes, r.OnWindow}, widen)
}

// again has the client make its next request on the connection.
func (w *windows) again() {
	p := w.packet(requestBytes)
	if next, _ := w.leg.OnClient(p, idleAt); next != machine.NextRequest {
		w.fail("the next request: %d", next)
	}
	next, r := w.leg.OnRequest(p, requestBytes, machine.Insertion{}, true, idleAt)
	if next != machine.RequestStays {
		w.fail("the next request stays: %d", next)
	}
	if w.leg.Flags&machine.Narrow != 0 {
		w.fail("the request has the client's window, and is noted as if it had not")
	}
	w.logf("next request")
	w.asked(p, told{r.OnSeq, r.OnAck, requestBytes, r.OnWindow}, false)
}

// asked has the surrogate get a request, and checks the window that it takes for its client's.
func (w *windows) asked(p machine.Packet, request told, widen bool) {
	w.seq += p.Len
	w.send(request, false)
	if widen {
		w.widened++
		w.send(told{request.seq + request.len, request.ack, 0, request.window}, false)
	}
	w.land()
	if w.to.next != w.leg.SndNxt {
		w.fail("the surrogate has %d, the leg %d", w.to.next, w.leg.SndNxt)
	}
	if w.to.linux && w.to.window < p.Window || w.to.window > max(w.most, idle) {
		w.fail("the surrogate takes %d for the window of its client, which is %d, and was %d at most", w.to.window, p.Window, w.most)
	}
}

const idle = 4096 // window of an idle leg

// answer has the surrogate respond in some segments, of which the client acknowledges some.
func (w *windows) answer() {
	segments := 1 + w.r.IntN(3)
	const each = 1000
	for i := range segments {
		p := machine.Packet{Seq: w.leg.RcvNxt, Ack: w.leg.SndNxt, Len: each, Window: 60000}
		if w.r.IntN(8) == 0 {
			p.Ack -= requestBytes / 2 // the rest is acknowledged later
		}
		walk := machine.Walk{
			At: p.Seq, From: machine.Head, Framing: machine.Done, Body: each / 2, HeadFlags: machine.HeadLength,
			HeadLength: uint64(segments*each - each/2),
		}
		if next := w.answers(p, walk); next != machine.ServerSend {
			w.fail("segment %d of %d: %d", i, segments, next)
		}
		w.ack += each
		if w.r.IntN(2) == 0 {
			w.acknowledge(each / 2)
		}
		if i == segments-1 || w.r.IntN(2) == 0 {
			w.acknowledge(0)
		}
	}
	if next := w.answers(machine.Packet{Seq: w.leg.RcvNxt, Ack: w.leg.SndNxt, Window: 60000}, machine.Walk{}); next != machine.ServerSend {
		w.fail("the surrogate's acknowledgement: %d", next)
	}
	for w.r.IntN(3) == 0 {
		w.acknowledge(0) // its window only, or once more, for what was late
	}
}

// answers has the surrogate send a packet. What both sides may send is not in question here.
func (w *windows) answers(p machine.Packet, walk machine.Walk) uint32 {
	w.leg.RcvEdge, w.leg.SndEdge = w.leg.RcvAcked+1<<16, w.leg.SndUna+1<<16
	next, _ := w.leg.OnServer(p, walk, idleAt)
	return next
}

// acknowledge has the client acknowledge all but so many bytes.
func (w *windows) acknowledge(but uint32) {
	p := w.packet(0)
	p.Ack -= but
	if w.leg.SndUna == w.leg.SndNxt && w.r.IntN(4) == 0 {
		p.Seq, p.Len = p.Seq-requestBytes, requestBytes // the request once more, as the client's timer was too short
	}
	next, r := w.leg.OnClient(p, idleAt)
	if next != machine.NextSend {
		w.fail("the client's acknowledgement: %d", next)
	}
	if (w.leg.Response != machine.Quiet || r.OnAck != w.leg.RcvNxt) && r.OnWindow != p.Window {
		w.fail("in a response, the client's window %d became %d", p.Window, r.OnWindow) // and what is lost behind it would not be sent again
	}
	w.send(told{r.OnSeq, r.OnAck, p.Len, r.OnWindow}, true)
}

// leave has the client close, or reset.
func (w *windows) leave() {
	p := w.packet(0)
	p.FIN, p.RST = true, false
	want := uint32(machine.NextRecycle)
	if w.r.IntN(5) == 0 {
		p.FIN, p.RST, want = false, true, machine.NextRecycleReset
	}
	next, r := w.leg.OnClient(p, idleAt)
	if next != want {
		w.fail("the client leaves: %d, want %d: %+v", next, want, w.leg)
	}
	if p.FIN {
		w.send(told{r.OnSeq, r.OnAck, 0, r.OnWindow}, true)
	}
}

// idleLeg is a leg after its handshake.
func idleLeg(t *testing.T, seed uint64) *windows {
	r := rand.New(rand.NewPCG(seed, 1))
	start, from := r.Uint32(), r.Uint32()
	w := &windows{t: t, r: r, to: sender{linux: seed%2 == 0, next: start, una: from, wl1: start, window: idle}, leg: machine.Session{
		State: machine.Idle, SndNxt: start, SndUna: start, SndEdge: start + 1<<16, SndSpan: 1 << 16,
		RcvNxt: from, RcvAcked: from, RcvEdge: from + 1<<16, RcvSpan: 1 << 16, Surrogate: 1,
	}}
	w.logf("seed %d", seed)
	return w
}

// TestSurrogateKnowsItsClientsWindow: over any losses and late packets, a surrogate that has a client's request takes that client's window for the
// leg's, whatever windows the clients before had, whether it goes by Linux or by the RFC (where
// a late packet may lower it until the client's next one). A client that shrinks its window has itself to blame until it acknowledges more.
func TestSurrogateKnowsItsClientsWindow(t *testing.T) {
	requests, widened := 0, 0
	for seed := range uint64(300) {
		w := idleLeg(t, seed)
		for range 40 {
			w.join()
			w.answer()
			requests++
			for w.r.IntN(3) == 0 {
				w.again()
				w.answer()
				requests++
			}
			w.leave()
			if w.r.IntN(2) == 0 {
				w.land()
			}
		}
		widened += w.widened
	}
	if widened == 0 || widened > requests/2 {
		t.Errorf("of %d requests %d were followed by a window, want some, and less than half", requests, widened)
	}
}

// TestWindowOfAnOpaqueSession: a client between requests whose bytes are no longer tracked has its own window again: what it gets has no known end.
func TestWindowOfAnOpaqueSession(t *testing.T) {
	w := idleLeg(t, 0)
	w.join()
	w.answer()
	if w.leg.Flags&machine.Narrow == 0 {
		t.Fatal("the client has the whole response, and the leg's window is not that of an idle one")
	}
	w.leg.Flags |= machine.ServerFIN
	p := w.packet(requestBytes)
	p.Window = 50000
	if next, r := w.leg.OnClient(p, idleAt); next != machine.NextSend || r.OnWindow != p.Window {
		t.Errorf("bytes behind the surrogate's FIN: %d, with window %d, want %d", next, r.OnWindow, p.Window)
	}
}
