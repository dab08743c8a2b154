package handoff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"baton/api"
	"baton/controller/sessions"
	"baton/openflow"
	"baton/packet"
)

// stage is how far a handoff is.
type stage int

// The stages.
const (
	reported   stage = iota // the client's request is complete
	chosen                  // a leg was chosen, and the request is expected on it
	committing              // the request is complete on the leg; the flow mods are on their way
	sent                    // the surrogate has been sent the request
	handedOver
	undone
)

// handoff is one handoff. It is guarded by the manager's lock, but for what never changes.
type handoff struct {
	id     uint32
	record api.ControllerHandoff
	stage  stage
	client *sessions.Session
	leg    *sessions.Session
	router uint64 // connection of the request router
	host   string
	size   uint32 // of the client's request, in bytes
	legs   uint32 // of the request on the leg; 0: not reported yet

	frames [][]byte // of the request on the leg
	kept   int      // bytes in frames
	plan   *Plan    // nil: not made yet, or made by another controller
	pair   Pair
	had    []uint64 // switches with entries that another controller has made

	closed   bool      // by the client
	answered bool      // the surrogate's answer has begun
	due      time.Time // by then the answer should have begun

	cancel context.CancelCauseFunc
	ready  chan struct{} // closed: the request is complete on the leg
	answer chan struct{} // closed: the surrogate has acknowledged it
}

// failure is the reason for undoing a handoff: a word for the metric, and a sentence.
type failure struct{ kind, text string }

func (f failure) Error() string { return f.text }

// mostRequest bounds a request that waits for its handoff, in bytes on the wire.
const mostRequest = 256 << 10

// step records an arrow of the sequence diagram.
func (h *handoff) step(kind, from, to, format string, args ...any) {
	h.record.Steps = append(h.record.Steps,
		api.ControllerStep{At: time.Since(h.record.Began), Kind: kind, From: from, To: to, Label: fmt.Sprintf(format, args...)})
}

// fail has a handoff undone, unless it is complete. The lock is held.
func (m *Manager) fail(h *handoff, why failure) {
	if h.stage < handedOver {
		h.cancel(why)
	}
}

// keep keeps a packet of the request on a leg until its handoff is ready. The lock is held.
func (m *Manager) keep(h *handoff, f packet.Frame) {
	if h.stage != chosen {
		return // a retransmission
	}
	for _, old := range h.frames {
		if o, err := packet.Parse(old); err == nil && o.TCP().Seq() == f.TCP().Seq() && len(o.Payload()) >= len(f.Payload()) {
			return
		}
	}
	h.kept += len(f.Bytes)
	if h.kept > mostRequest {
		m.fail(h, failure{"too-large", "the request on the leg is too large"})
		return
	}
	h.frames = append(h.frames, bytes.Clone(f.Bytes))
	h.step("packet", "router", "controller", "request, %d bytes", len(f.Payload()))
	m.complete(h)
}

// complete begins the flow mods when the whole request has been seen. The lock is held.
func (m *Manager) complete(h *handoff) {
	have := h.leg.Opener.Bytes()
	switch {
	case h.stage != chosen || h.legs == 0 || have < h.legs:
	case have > h.legs:
		m.fail(h, failure{"leg-size", fmt.Sprintf("the request router has sent %d bytes on the leg, and reported %d", have, h.legs)})
	default:
		h.stage, h.client.Committed = committing, true
		close(h.ready)
	}
}

// follow is a handoff from the report of the request to its end or its undoing.
func (m *Manager) follow(ctx context.Context, h *handoff) {
	defer h.cancel(nil)
	err := m.carry(ctx, h)
	if err == nil {
		return
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if m.ctx.Err() != nil {
		err = failure{"closed", "the controller ends"}
	}
	m.undo(h, err)
}

func (m *Manager) carry(ctx context.Context, h *handoff) error {
	select {
	case <-h.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	plan, err := m.planned(ctx, h)
	if err != nil {
		return err
	}
	if err := m.install(ctx, h, plan); err != nil {
		return err
	}
	return m.deliver(ctx, h, plan)
}

// planned computes the flow mods from what is known of both sessions.
func (m *Manager) planned(ctx context.Context, h *handoff) (*Plan, error) {
	m.mu.Lock()
	h.pair = Pair{Client: h.client.ToRouter(), Leg: h.leg.ToRouter(), Router: h.client.Other.At}
	client, surrogate := placeOf(&h.client.Opener), placeOf(&h.leg.Other)
	m.mu.Unlock()
	path, err := m.o.Network.Path(client, surrogate)
	if err != nil {
		return nil, failure{"no-path", err.Error()}
	}
	plan, err := h.pair.Plan(h.id, path, m.o.Network.Core, m.timeouts(), m.o.Pin)
	if err != nil {
		return nil, failure{"no-core", err.Error()}
	}
	for _, w := range [][2]Place{{client, surrogate}, {surrogate, client}} {
		if err := m.o.Network.Ensure(ctx, w[0], w[1]); err != nil {
			return nil, failure{"no-path", err.Error()}
		}
	}
	m.mu.Lock()
	h.plan = plan
	m.mu.Unlock()
	return plan, nil
}

func placeOf(e *sessions.End) Place { return Place{e.At, e.MAC} }

// timeouts are those of a plan's entries. The copies of a surrogate's first packets last until the controller stops waiting for its answer.
func (m *Manager) timeouts() Timeouts {
	return Timeouts{Idle: uint16(min(m.o.Idle/time.Second, 0xffff)), Answer: uint16(min((m.o.Answer+m.o.Patience)/time.Second+1, 0xffff))}
}

// install brings the flow mods to the switches, all at the same time: packets between them are dropped, and repeated by their senders.
func (m *Manager) install(ctx context.Context, h *handoff, plan *Plan) error {
	m.mu.Lock()
	for _, mod := range plan.Mods {
		h.step("flow-mod", "controller", plan.part(mod.Switch, h.pair.Router.Switch), "%s", mod.Label)
	}
	m.mu.Unlock()
	groups := bySwitch(plan.Mods)
	failed := make(chan error, len(groups))
	for sw, messages := range groups {
		go func() {
			err := m.o.Network.Commit(ctx, sw, messages...)
			if err == nil {
				m.mu.Lock()
				h.step("barrier", plan.part(sw, h.pair.Router.Switch), "controller", "barrier reply")
				m.mu.Unlock()
			}
			failed <- err
		}()
	}
	var all error
	for range groups {
		all = errors.Join(all, <-failed)
	}
	if all != nil {
		return failure{"switch", all.Error()}
	}
	return nil
}

// part is what a switch is in the sequence diagram.
func (p *Plan) part(sw, router uint64) string {
	switch sw {
	case p.Core:
		return "core"
	case p.Access:
		return "access"
	case router:
		return "router's switch"
	}
	return "switch"
}

// pauses are those between the repetitions of a request. The first are shorter than the shortest timeout of a client (200 ms): nobody else
// repeats the request, as the client may have its acknowledgement.
var pauses = []time.Duration{30 * time.Millisecond, 60 * time.Millisecond, 90 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond,
	400 * time.Millisecond}

// deliver sends the request to the surrogate until the handoff is finished.
func (m *Manager) deliver(ctx context.Context, h *handoff, plan *Plan) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := 0; ; i++ {
		m.mu.Lock()
		if h.stage == handedOver {
			m.mu.Unlock()
			return nil
		}
		if h.stage = sent; i == 0 {
			h.record.Took = time.Since(h.record.Began)
		}
		for _, frame := range h.frames {
			m.out(h.leg.Other.At, frame)
		}
		h.step("packet-out", "controller", "surrogate", "request, %d bytes", h.legs)
		m.mu.Unlock()
		if i == len(pauses) {
			return failure{"no-answer", "the surrogate does not acknowledge the request"}
		}
		timer.Reset(pauses[i])
		select {
		case <-h.answer:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// finish ends a handoff whose request was sent, and is acknowledged: the request router's sessions are reset. The lock is held.
func (m *Manager) finish(h *handoff) {
	h.step("packet", "surrogate", "client", "acknowledgement")
	h.stage, h.frames = handedOver, nil
	close(h.answer)
	if h.answered {
		m.settle(h)
	} else {
		m.await(h)
	}
	m.out(h.client.Other.At, reset(h.client, true))
	h.step("packet-out", "controller", "router", "RST of the client's session")
	m.out(h.leg.Opener.At, reset(h.leg, false))
	h.step("packet-out", "controller", "router", "RST of the leg")
	h.client.State = api.ControllerHandedOff
	h.leg.State = api.ControllerHandedOff
	m.table.Hurry(h.client)
	m.table.Hurry(h.leg)
	m.counts.Done++
	m.counts.BySurrogate[h.record.Surrogate]++
	m.publish(h.client)
	m.o.Publish(api.TopicHandoffs, h.described())
	m.o.Ended(h.record.Surrogate, "")
	m.o.Keep(h.recorded())
	if h.closed {
		m.endSoon(h)
	}
}

func (m *Manager) send(sw uint64, message openflow.Message) {
	if err := m.o.Network.Send(sw, message); err != nil {
		m.o.Log.Debug("cannot send to a switch", "switch", fmt.Sprintf("%016x", sw), "err", err)
	}
}

// reset is a RST of a session to one of its ends: with the sequence number that the end expects, or it would be ignored (RFC 5961).
func reset(s *sessions.Session, toOther bool) []byte {
	from, to, w := &s.Opener, &s.Other, s.Way
	if !toOther {
		from, to, w = to, from, w.Back()
	}
	seq := from.Next
	if to.HasAcked && seq.Less(to.Acked) {
		seq = to.Acked
	}
	if from.Finished {
		seq++
	}
	return packet.Build(packet.Spec{SrcMAC: from.MAC, DstMAC: to.MAC, Src: w.From, Dst: w.To, Seq: seq, Ack: to.Next, Flags: packet.RST | packet.ACK})
}

// toClient passes a packet of the surrogate on as flow mod 2 would have done. The lock is held.
func (m *Manager) toClient(h *handoff, f packet.Frame) {
	if h.plan == nil {
		return // of another controller, and the network is not known yet: the client learns the end by its own packets
	}
	m.send(h.plan.Core, &openflow.PacketOut{Buffer: openflow.NoBuffer, InPort: openflow.PortController, Actions: h.plan.ToClient, Data: f.Bytes})
}

// undo gives a session back to the request router, which serves the client itself.
func (m *Manager) undo(h *handoff, why error) {
	kind := "timeout"
	var f failure
	if errors.As(why, &f) {
		kind = f.kind
	}
	m.mu.Lock()
	if h.stage == handedOver { // it was finished meanwhile
		m.mu.Unlock()
		return
	}
	h.stage, h.frames = undone, nil
	h.record.Failure = why.Error()
	m.counts.Failed[kind]++
	switches := h.switches()
	leg := h.leg
	m.mu.Unlock()
	m.o.Log.Warn("handoff is undone", "client", h.client.From, "surrogate", h.record.Surrogate, "why", why)
	m.clean(h.id, switches)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.handoffs, h.id)
	delete(m.byClient, h.client)
	h.client.Held, h.client.Committed, h.client.Proxied, h.client.Handoff = false, false, true, 0
	if !h.client.Closed() && h.client.State == api.ControllerRequested {
		h.client.State = api.ControllerEstablished
	}
	m.table.Hurry(h.client)
	if leg != nil {
		delete(m.byLeg, leg)
		m.out(leg.Opener.At, reset(leg, false))
		if !leg.Reset {
			m.out(leg.Other.At, refused(leg))
			leg.Reset, leg.State = true, api.ControllerClosed
			m.table.Hurry(leg)
		}
		h.step("packet-out", "controller", "router", "RST of the leg: %s", why)
	}
	m.publish(h.client)
	m.o.Publish(api.TopicHandoffs, h.described())
	m.o.Ended(h.record.Surrogate, kind)
}

// refused is a RST of a leg to the surrogate, which may not have received the request.
func refused(leg *sessions.Session) []byte {
	at := *leg
	if at.Other.HasAcked {
		at.Opener.Next = at.Other.Acked
	}
	return reset(&at, true)
}

// switches are those that may have entries of a handoff. The lock is held.
func (h *handoff) switches() map[uint64]bool {
	all := map[uint64]bool{h.client.Other.At.Switch: true}
	for _, sw := range h.had {
		all[sw] = true
	}
	if h.plan != nil {
		for _, mod := range h.plan.Mods {
			all[mod.Switch] = true
		}
	}
	return all
}

// cleaning bounds the removal of entries at a switch.
const cleaning = time.Second

// clean removes the entries of a handoff. A switch that does not answer is cleaned when it comes back.
func (m *Manager) clean(id uint32, switches map[uint64]bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), cleaning)
	defer cancel()
	var group sync.WaitGroup
	for sw := range switches {
		group.Go(func() {
			if err := m.o.Network.Commit(ctx, sw, remove(id)); err != nil {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.remember(sw, id)
			}
		})
	}
	group.Wait()
}

// mostLeftover bounds the handoffs that a switch is to be cleaned of. Further ones end by their timeouts.
const mostLeftover = 4096

func (m *Manager) remember(sw uint64, id uint32) {
	if m.leftover[sw] == nil {
		m.leftover[sw] = map[uint32]bool{}
	}
	if len(m.leftover[sw]) < mostLeftover {
		m.leftover[sw][id] = true
	}
}
