package controllers

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"baton/forwarder/config"
	"baton/openflow"
)

// deaf is a controller that says hello and reads no more than that.
func (s *stage) deaf(t *testing.T) net.Conn {
	t.Helper()
	rw := s.over(t, of{})
	hello, err := openflow.Append(nil, 1, openflow.NewHello())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(rw, make([]byte, len(hello))); err != nil {
		t.Fatal(err)
	}
	before := len(*s.channels.Load())
	write(t, rw, hello)
	eventually(t, "the channel is up", func() bool { return len(*s.channels.Load()) > before })
	return rw
}

func write(t testing.TB, w io.Writer, b []byte) {
	t.Helper()
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
}

func encode(t testing.TB, xid uint32, m openflow.Message) []byte {
	t.Helper()
	b, err := openflow.Append(nil, xid, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPacketInsAreDropped: of a controller that does not read, and of no other.
func TestPacketInsAreDropped(t *testing.T) {
	s := newStage(t, nil)
	s.deaf(t)
	good := s.controller(t, of{})
	const n = 2000
	m := &openflow.PacketIn{Buffer: openflow.NoBuffer, TotalLen: 1500, Data: make([]byte, 1500)}
	for range n {
		s.PacketIn(m, openflow.MaxLenNoBuffer)
		next(t, good)
	}
	of := s.Status()
	if of[0].PacketIns+of[0].Dropped != n || of[0].Dropped < n/2 {
		t.Errorf("of the deaf: %d sent and %d dropped of %d", of[0].PacketIns, of[0].Dropped, n)
	}
	equal(t, "sent to the other", of[1].PacketIns, n)
	equal(t, "dropped of the other", of[1].Dropped, 0)

	ch := (*s.channels.Load())[1]
	ch.mu.Lock()
	ch.idle = make(chan struct{}) // as if messages waited for room
	ch.mu.Unlock()
	s.PacketIn(m, openflow.MaxLenNoBuffer)
	ch.mu.Lock()
	ch.idle = nil
	ch.mu.Unlock()
	equal(t, "dropped behind what waits", s.Status()[1].Dropped, 1)
}

// TestNoticesAreKept: what is no packet waits for room, and in its order; who lets too much of it wait loses its channel.
func TestNoticesAreKept(t *testing.T) {
	s := newStage(t, func(c *config.Config) { c.Limits.Entries = 3000 })
	rw := s.deaf(t)
	fill := func() {
		for before := s.Status()[0].Dropped; s.Status()[0].Dropped == before; {
			s.PacketIn(&openflow.PacketIn{Buffer: openflow.NoBuffer, Data: make([]byte, 60000)}, openflow.MaxLenNoBuffer)
		}
	}
	fill()
	const n = 4000
	for i := range n {
		s.FlowRemoved(&openflow.FlowRemoved{Cookie: uint64(i)})
	}
	write(t, rw, encode(t, 7, &openflow.BarrierRequest{}))
	seen := uint64(0)
	for done := false; !done; {
		m := read(t, rw)
		switch m := m.(type) {
		case *openflow.FlowRemoved:
			equal(t, "cookie", m.Cookie, seen)
			seen++
		case *openflow.BarrierReply:
			done = true
		}
	}
	equal(t, "flow entries removed", seen, n)
	fill()
	for range 3000 + 1024 + 2000 { // what is left of the queue holds a part
		s.FlowRemoved(&openflow.FlowRemoved{})
	}
	eventually(t, "the channel ends", func() bool { return len(*s.channels.Load()) == 0 })
	eventually(t, "and says why", func() bool { return strings.Contains(s.Status()[0].Error, ErrBehind.Error()) })
}

func read(t testing.TB, r io.Reader) openflow.Message {
	t.Helper()
	head := make([]byte, openflow.HeaderSize)
	if _, err := io.ReadFull(r, head); err != nil {
		t.Fatal(err)
	}
	h, err := openflow.ParseHeader(head)
	if err != nil {
		t.Fatal(err)
	}
	b := append(head, make([]byte, int(h.Length)-len(head))...)
	if _, err := io.ReadFull(r, b[len(head):]); err != nil {
		t.Fatal(err)
	}
	_, m, err := openflow.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLongReply: a reply of many times what may wait arrives whole; until it is read nothing more of that controller is handled, and
// others do not wait for it.
func TestLongReply(t *testing.T) {
	const entries = 100_000
	s := newStage(t, nil)
	s.handle = func(c *Channel, xid uint32, m openflow.Message, raw []byte) {
		if _, ok := m.(*openflow.MultipartRequest); ok {
			c.Reply(xid, &openflow.MultipartReply{Body: make(openflow.FlowStatsReply, entries)})
		}
	}
	rw, other := s.deaf(t), s.controller(t, of{})
	requests := append(encode(t, 5, &openflow.MultipartRequest{Body: openflow.FlowStatsRequest{}}), encode(t, 6, flowMod)...)
	write(t, rw, append(requests, encode(t, 7, &openflow.BarrierRequest{})...))
	eventually(t, "the request is handled", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.handled) > 0
	})
	for range 10 {
		equal(t, "flow mod of another", submit(t, other, flowMod), 0)
	}
	equal(t, "handled", len(s.took()), 11)
	got := 0
	for more := true; more; {
		part := read(t, rw).(*openflow.MultipartReply)
		got += len(part.Body.(openflow.FlowStatsReply))
		more = part.Flags&openflow.MultipartMore != 0
	}
	equal(t, "flow entries", got, entries)
	if _, ok := read(t, rw).(*openflow.BarrierReply); !ok {
		t.Error("no answer to the barrier behind it")
	}
	equal(t, "handled", len(s.took()), 1)
}

// TestReplyTooLong: a reply that no message can hold ends the channel, or its controller would wait for ever.
func TestReplyTooLong(t *testing.T) {
	s := newStage(t, nil)
	s.handle = func(c *Channel, xid uint32, m openflow.Message, raw []byte) {
		c.Reply(xid, &openflow.EchoReply{Data: make([]byte, openflow.MaxLength)})
	}
	c := s.controller(t, of{})
	if err := c.SendWait(within(t), 5, flowMod); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Done():
	case <-within(t).Done():
		t.Fatal("the channel goes on")
	}
	eventually(t, "it says why", func() bool { return strings.Contains(s.Status()[0].Error, "where a message holds") })
}

// TestFlood: one that never stops asking takes turns with the others.
func TestFlood(t *testing.T) {
	s := newStage(t, nil)
	other := s.controller(t, of{})
	rw := s.deaf(t)
	flood := bytes.Repeat(encode(t, 5, flowMod), 1000)
	go func() {
		for {
			if _, err := rw.Write(flood); err != nil {
				return
			}
		}
	}()
	for range 100 {
		equal(t, "flow mod of another", submit(t, other, flowMod), 0)
	}
}
