package switches

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/openflow"
	"baton/openflow/channel"
)

// within is a context that ends long after any of this should.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// started is a server that listens at a unix socket.
type started struct {
	*Server
	t      *testing.T
	path   string
	events chan Event
}

func start(t *testing.T, o Options, prepare func(*Server)) *started {
	t.Helper()
	s := &started{New(o), t, filepath.Join(t.TempDir(), "s"), make(chan Event, 100)}
	s.Watch(func(e Event) { s.events <- e })
	if prepare != nil {
		prepare(s.Server)
	}
	l, err := s.Listen(t.Context(), "unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// next waits for an event.
func (s *started) next(kind EventKind) Event {
	s.t.Helper()
	select {
	case e := <-s.events:
		if e.Kind != kind {
			s.t.Fatalf("event %v, want %v", e.Kind, kind)
		}
		return e
	case <-within(s.t).Done():
		s.t.Fatal("no event")
	}
	return Event{}
}

// node is a switch whose answers the test determines.
type node struct {
	*channel.Conn
	id    uint64
	maker string

	mu         sync.Mutex
	generation uint64
	bump       int // how many requests for master are refused because another controller was first
	role       openflow.Role
	got        []openflow.Message
	refuse     map[openflow.Type]openflow.Code
}

func newNode(id uint64) *node {
	return &node{id: id, maker: "Baton", generation: 1<<64 - 1, refuse: map[openflow.Type]openflow.Code{}}
}

// connect connects a switch and has it answer until its channel ends.
func (s *started) connect(n *node) {
	s.t.Helper()
	conn, err := net.Dial("unix", s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	n.Conn = channel.Start(conn, channel.Options{})
	s.t.Cleanup(func() { n.Close() })
	go n.serve()
}

func (n *node) serve() {
	for {
		r, err := n.Receive(context.Background())
		if err != nil {
			return
		}
		n.mu.Lock()
		answer := n.answer(r)
		n.mu.Unlock()
		if answer != nil && n.SendWait(context.Background(), r.XID, answer) != nil {
			return
		}
	}
}

func (n *node) answer(r channel.Received) openflow.Message {
	if code, ok := n.refuse[r.Message.Type()]; ok {
		return (&openflow.Fault{Code: code}).Answer(r.Raw)
	}
	switch m := r.Message.(type) {
	case *openflow.FeaturesRequest:
		return &openflow.FeaturesReply{DatapathID: n.id, Tables: 4}
	case *openflow.MultipartRequest:
		switch m.Body.(type) {
		case openflow.DescRequest:
			return &openflow.MultipartReply{Body: openflow.DescReply{Manufacturer: n.maker}}
		case openflow.PortDescRequest:
			return &openflow.MultipartReply{Body: openflow.PortDescReply{{No: 1, Name: "p1"}, {No: openflow.PortLocal, Name: "br0"}}}
		}
		return &openflow.MultipartReply{Body: openflow.FlowStatsReply{}}
	case *openflow.RoleRequest:
		if m.Role == openflow.RoleNochange {
			return &openflow.RoleReply{Role: n.role, Generation: n.generation}
		}
		if n.bump > 0 {
			n.bump--
			n.generation = next(n.generation) + 1
		}
		if n.generation != 1<<64-1 && int64(m.Generation-n.generation) < 0 {
			return (&openflow.Fault{Code: openflow.RoleRequestFailedStale}).Answer(r.Raw)
		}
		n.role, n.generation = m.Role, m.Generation
		return &openflow.RoleReply{Role: m.Role, Generation: m.Generation}
	case *openflow.BarrierRequest:
		return &openflow.BarrierReply{}
	}
	n.got = append(n.got, r.Message)
	return nil
}

func TestConnect(t *testing.T) {
	ready := make(chan Switch, 10)
	s := start(t, Options{Known: func() (map[uint64]Known, bool) {
		return map[uint64]Known{1: {Name: "access"}, 2: {Name: "patched", Core: true}}, true
	}}, func(s *Server) {
		s.Ready(func(_ context.Context, sw Switch) error { ready <- sw; return nil })
	})
	baton, ovs, other := newNode(1), newNode(2), newNode(3)
	ovs.maker = "Nicira, Inc."
	s.connect(baton)
	e := s.next(Up)
	if sw := <-ready; e.Switch.Name != "access" || !e.Switch.Core || e.Switch.Role != openflow.RoleMaster || len(e.Switch.Ports) != 2 || sw.ID != 1 {
		t.Errorf("%+v", e.Switch)
	}
	s.connect(ovs)
	if e = s.next(Up); e.Switch.Name != "patched" || !e.Switch.Core {
		t.Errorf("%+v", e.Switch)
	}
	s.connect(other)
	select {
	case <-other.Done():
	case <-within(t).Done():
		t.Fatal("a switch that is not in the configuration stays")
	}
	if n := s.Counts().Refused; n != 1 {
		t.Errorf("%d were refused", n)
	}

	bad := openflow.NewFlowMod(openflow.FlowAdd)
	baton.mu.Lock()
	baton.refuse[openflow.TypeFlowMod] = openflow.FlowModFailedTableFull
	baton.mu.Unlock()
	err := s.Commit(within(t), 1, bad, &openflow.PacketOut{Buffer: openflow.NoBuffer})
	var refused *channel.Refused
	if !errors.As(err, &refused) || refused.Request != openflow.Message(bad) || !strings.Contains(err.Error(), "0000000000000001") {
		t.Errorf("commit: %v", err)
	}
	if err := s.Commit(within(t), 9, bad); !errors.Is(err, ErrNotConnected) {
		t.Errorf("commit to an unknown switch: %v", err)
	}
	if c := s.Counts(); c.FlowMods != 1 || c.PacketOuts != 1 {
		t.Errorf("%+v", c)
	}

	again := newNode(1)
	s.connect(again)
	if e = s.next(Up); e.Switch.Connects != 2 {
		t.Errorf("%+v", e.Switch)
	}
	<-baton.Done()
	if err := s.Commit(within(t), 1, &openflow.PacketOut{Buffer: openflow.NoBuffer}); err != nil {
		t.Errorf("on the new channel: %v", err)
	}
	again.Close()
	if e = s.next(Down); e.Switch.ID != 1 || e.Switch.Up {
		t.Errorf("%+v", e)
	}
}

func TestPortStatus(t *testing.T) {
	s := start(t, Options{}, nil)
	n := newNode(1)
	s.connect(n)
	s.next(Up)
	port := openflow.Port{No: 2, Name: "p2"}
	for _, reason := range []openflow.PortReason{openflow.PortAdd, openflow.PortModify, openflow.PortDelete} {
		if err := n.Send(0, &openflow.PortStatus{Reason: reason, Port: port}); err != nil {
			t.Fatal(err)
		}
		want := 3
		if reason == openflow.PortDelete {
			want = 2
		}
		if e := s.next(PortState); e.Port.Reason != reason || len(e.Switch.Ports) != want {
			t.Errorf("%v: %+v", reason, e)
		}
	}
}

// TestOverload: packet-ins beyond the queue are dropped, those that are handled come in order, and a port status is never dropped.
func TestOverload(t *testing.T) {
	var mu sync.Mutex
	var got []byte
	gate := make(chan struct{})
	s := start(t, Options{Queue: 10}, func(s *Server) {
		s.Handle(func(Packet) bool { return false }, func(p Packet) bool {
			<-gate
			mu.Lock()
			defer mu.Unlock()
			got = append(got, p.Data[0])
			return true
		}, func(Packet) bool { t.Error("a packet that was handled goes on"); return true })
	})
	n := newNode(1)
	s.connect(n)
	s.next(Up)
	for i := range 100 {
		in := &openflow.PacketIn{Buffer: openflow.NoBuffer, TotalLen: 1, Match: openflow.Match{}.Port(1), Data: []byte{byte(i)}}
		if err := n.SendWait(within(t), 0, in); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.SendWait(within(t), 0, &openflow.PortStatus{Port: openflow.Port{No: 7}}); err != nil {
		t.Fatal(err)
	}
	for s.Counts().Dropped < 89 {
		time.Sleep(time.Millisecond)
		if within(t).Err() != nil {
			t.Fatal("nothing is dropped")
		}
	}
	close(gate)
	s.next(PortState)
	mu.Lock()
	defer mu.Unlock()
	if !slices.IsSorted(got) || got[0] != 0 {
		t.Fatalf("got %v", got)
	}
	if c := s.Counts(); int(c.Packets) != len(got) || len(got) > 11 || c.Packets+c.Dropped != 100 {
		t.Errorf("%d handled, %+v", len(got), c)
	}
}

func TestRoles(t *testing.T) {
	s := start(t, Options{}, nil)
	n := newNode(1)
	n.generation, n.bump = 41, 2
	s.connect(n)
	if e := s.next(Up); e.Switch.Role != openflow.RoleMaster {
		t.Fatal(e.Switch.Role)
	}
	if s.Counts().Stale != 2 {
		t.Errorf("%d stale requests", s.Counts().Stale)
	}
	// The election's generation is older than that of another controller.
	n.mu.Lock()
	n.generation = 100
	n.mu.Unlock()
	if err := s.SetRole(within(t), openflow.RoleMaster, 99); err != nil {
		t.Fatal(err)
	}
	if e := s.next(RoleState); e.Switch.Role != openflow.RoleSlave {
		t.Errorf("%v with a stale generation", e.Switch.Role)
	}
	if err := s.SetRole(within(t), openflow.RoleMaster, 101); err != nil {
		t.Fatal(err)
	}
	if e := s.next(RoleState); e.Switch.Role != openflow.RoleMaster {
		t.Errorf("%v with the newest generation", e.Switch.Role)
	}
	// Another controller becomes master; the switch tells by refusing.
	n.mu.Lock()
	n.refuse[openflow.TypeFlowMod] = openflow.BadRequestIsSlave
	n.mu.Unlock()
	if err := s.Commit(within(t), 1, openflow.NewFlowMod(openflow.FlowAdd)); !isSlave(err) {
		t.Errorf("%v", err)
	}
	if e := s.next(RoleState); e.Switch.Role != openflow.RoleSlave {
		t.Errorf("%v after a refusal", e.Switch.Role)
	}
}

func TestSilentSwitch(t *testing.T) {
	s := start(t, Options{Setup: 50 * time.Millisecond}, nil)
	conn, err := net.Dial("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for s.Counts().Refused == 0 {
		time.Sleep(time.Millisecond)
		if within(t).Err() != nil {
			t.Fatal("a switch that says nothing stays")
		}
	}
}
