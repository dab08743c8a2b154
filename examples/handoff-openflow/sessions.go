package main

import (
	"bytes"
	"context"
	"net/netip"
	"sync"

	"baton/openflow"
	"baton/packet"
)

// way is one direction of a TCP session.
type way struct{ from, to netip.AddrPort }

func (w way) back() way { return way{w.to, w.from} }

// told is what the sender of a direction has told so far.
type told struct {
	port         openflow.PortNo // of the core forwarder, at which its packets come in
	mac          packet.MAC
	first, next  packet.Seq // its first byte, and the one after the last
	tsval        uint32
	shift        uint8
	scales       bool
	stamps, sack bool
	data         [][]byte // frames with payload, as they came
}

// bytes is how many bytes the sender has sent.
func (t *told) bytes() uint32 { return t.next.Sub(t.first) }

// sessions is what passed between the router and its clients and servers.
type sessions struct {
	mu      sync.Mutex
	changed sync.Cond
	told    map[way]*told
}

func newSessions() *sessions {
	s := &sessions{told: make(map[way]*told)}
	s.changed.L = &s.mu
	return s
}

// see notes what a frame says.
func (s *sessions) see(port openflow.PortNo, b []byte) {
	f, err := packet.Parse(b)
	if err != nil || f.Protocol != packet.ProtocolTCP {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	h := f.TCP()
	w := way{f.Src, f.Dst}
	t := s.told[w]
	if h.Flags().Has(packet.SYN) {
		t = &told{first: h.Seq() + 1, next: h.Seq() + 1}
		t.shift, t.scales = h.Options().WindowScale()
		t.sack = h.Options().SACKPermitted()
		s.told[w] = t
	}
	if t == nil {
		return // of a session that is older than we are
	}
	t.port, t.mac = port, f.Ethernet().Src()
	val, _, stamps := h.Options().Timestamps()
	if stamps && (!t.stamps || packet.Seq(t.tsval).Less(packet.Seq(val))) {
		t.tsval = val
	}
	t.stamps = t.stamps || stamps
	if end := h.Seq().Add(uint32(len(f.Payload()))); len(f.Payload()) > 0 && t.next.Less(end) {
		t.next = end
		t.data = append(t.data, bytes.Clone(b))
	}
}

// wait returns what is told of a direction, once its sender has sent so many bytes.
func (s *sessions) wait(ctx context.Context, w way, bytes uint32) (told, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})()
	for {
		if t := s.told[w]; t != nil && t.bytes() >= bytes {
			return *t, nil
		}
		if err := ctx.Err(); err != nil {
			return told{}, err
		}
		s.changed.Wait()
	}
}

// forget forgets a session.
func (s *sessions) forget(w way) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.told, w)
	delete(s.told, w.back())
}
