package forwarder_test

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"baton/lab"
	of "baton/openflow"
	"baton/openflow/channel"
)

// TestTimeouts: entries go when their time is over, and the controller gets the reason, with what they have counted.
func TestTimeouts(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("")
	c := s.connect()
	entry := func(cookie uint64, port uint64, idle, hard uint16) *of.FlowMod {
		m := add(10, udp(1, port), output(2))
		m.Cookie, m.Idle, m.Hard, m.Flags = cookie, idle, hard, of.FlowSendFlowRem
		return m
	}
	began := time.Now()
	s.commit(c, entry(1, 5001, 1, 0), entry(2, 5002, 1, 3), entry(3, 5003, 0, 1), entry(4, 5004, 60, 0))
	idle, busy := s.sink(2, 5001), s.send(1, 2, 5002, 20*time.Millisecond)
	r := s.send(1, 2, 5001, 10*time.Millisecond)
	r.more(10)
	r.end()
	idle.lost(r)
	sent := r.next.Load()
	deleted := entry(4, 5004, 0, 0)
	deleted.Command = of.FlowDeleteStrict
	s.commit(c, deleted)

	tests := []struct {
		cookie      uint64
		reason      of.FlowRemovedReason
		least, most time.Duration
		packets     uint64 // 0: any number
	}{
		{4, of.RemovedDelete, 0, patience, 0},
		{3, of.RemovedHardTimeout, time.Second, patience, 0},
		{1, of.RemovedIdleTimeout, time.Second, patience, sent},
		{2, of.RemovedHardTimeout, 3 * time.Second, patience, 0},
	}
	removed := make(map[uint64]*of.FlowRemoved)
	for len(removed) < len(tests) {
		m := receive(s, c, "flow-removed", func(*of.FlowRemoved) bool { return true })
		removed[m.Cookie] = m
		if m.Cookie == 2 {
			busy.end()
		}
	}
	for _, tt := range tests {
		m := removed[tt.cookie]
		if m == nil {
			t.Errorf("entry %d: no flow-removed message", tt.cookie)
			continue
		}
		lasted := time.Duration(m.Duration.Sec)*time.Second + time.Duration(m.Duration.Nsec)
		if m.Reason != tt.reason || lasted < tt.least || lasted > time.Since(began) || m.Priority != 10 || m.Table != 0 {
			t.Errorf("entry %d: %+v, lasted %v", tt.cookie, m, lasted)
		}
		if tt.packets != 0 && (m.Packets != tt.packets || m.Octets != tt.packets*(14+20+8+32)) {
			t.Errorf("entry %d: %d packets, %d bytes, want %d packets", tt.cookie, m.Packets, m.Octets, tt.packets)
		}
	}
	if n := removed[2].Packets; n < 10 {
		t.Errorf("the entry in use has counted %d packets", n)
	}
}

// TestCounters: while packets pass, the counters of entries, tables, ports, groups and meters and their sums agree with what was sent; modifying
// an entry keeps its counters, and RESET_COUNTS does not.
func TestCounters(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("")
	c := s.connect()
	buckets := []of.Bucket{{WatchPort: of.PortAny, WatchGroup: of.GroupAny, Actions: []of.Action{output(2)}}}
	first := add(10, udp(1, 5000))
	first.Instructions = []of.Instruction{of.InstructionMeter{Meter: 1}, of.InstructionGotoTable{Table: 1}}
	second := add(10, nil, of.ActionGroup{Group: 1})
	second.Table = 1
	s.commit(c,
		&of.MeterMod{Command: of.MeterAdd, Flags: of.MeterFlagPktps, Meter: 1, Bands: []of.Band{{Kind: of.BandDrop, Rate: 1 << 20}}},
		&of.GroupMod{Command: of.GroupAdd, Kind: of.GroupTypeIndirect, Group: 1, Buckets: buckets}, second, first)
	portsBefore := ask[of.PortStatsReply](s, c, of.PortStatsRequest{Port: of.PortAny})
	k, r := s.sink(2, 5000), s.send(1, 2, 5000, time.Millisecond)

	// At any moment, an answer is between what had been sent a second before and what has been sent by then.
	const size = 14 + 20 + 8 + 32
	for range 5 {
		least := r.next.Load()
		r.more(100)
		lab.Eventually(t, 10*time.Second, func() error {
			n := aggregate(s, c).Packets
			if most := r.next.Load(); n+2 < 2*least || n > 2*most {
				return fmt.Errorf("%d packets in two tables, where %d to %d were sent", n, least, most)
			}
			return nil
		})
	}
	r.end()
	if lost := k.lost(r); len(lost) > 0 {
		t.Fatalf("%d packets lost", len(lost))
	}
	sent := r.next.Load()
	flows := ask[of.FlowStatsReply](s, c, of.FlowStatsRequest{FlowQuery: of.NewFlowQuery()})
	for _, f := range flows {
		if f.Packets != sent || f.Octets != sent*size {
			t.Errorf("entry of table %d: %d packets, %d bytes; %d were sent", f.Table, f.Packets, f.Octets, sent)
		}
	}
	if a := aggregate(s, c); a.Packets != 2*sent || a.Octets != 2*sent*size || a.Flows != 2 {
		t.Errorf("aggregate %+v; %d were sent", a, sent)
	}
	for _, table := range ask[of.TableStatsReply](s, c, of.TableStatsRequest{})[:2] {
		if table.Active != 1 || table.Hits != sent || table.Lookups < sent {
			t.Errorf("table %+v; %d were sent", table, sent)
		}
	}
	group := ask[of.GroupStatsReply](s, c, of.GroupStatsRequest{Group: 1})[0]
	if group.Packets != sent || group.Octets != sent*size || len(group.Buckets) != 1 || group.Buckets[0].Packets != sent {
		t.Errorf("group %+v; %d were sent", group, sent)
	}
	if meter := ask[of.MeterStatsReply](s, c, of.MeterStatsRequest{Meter: 1})[0]; meter.In.Packets != sent || meter.Flows != 1 {
		t.Errorf("meter %+v; %d were sent", meter, sent)
	}
	portsAfter := ask[of.PortStatsReply](s, c, of.PortStatsRequest{Port: of.PortAny})
	if in := portsAfter[0].RxPackets - portsBefore[0].RxPackets; in != sent {
		t.Errorf("port 1 has received %d packets; %d were sent", in, sent)
	}
	if out := portsAfter[1].TxPackets - portsBefore[1].TxPackets; out != sent {
		t.Errorf("port 2 has sent %d packets; %d were sent", out, sent)
	}

	modified := add(10, nil, of.ActionDecNWTTL{}, of.ActionGroup{Group: 1})
	modified.Table, modified.Command = 1, of.FlowModifyStrict
	for _, tt := range []struct {
		flags of.FlowModFlags
		want  uint64
	}{{0, sent}, {of.FlowResetCounts, 0}} {
		modified.Flags = tt.flags
		s.commit(c, modified)
		q := of.NewFlowQuery()
		q.Table = 1
		if f := ask[of.FlowStatsReply](s, c, of.FlowStatsRequest{FlowQuery: q})[0]; f.Packets != tt.want {
			t.Errorf("modified with flags %v: %d packets, want %d", tt.flags, f.Packets, tt.want)
		}
	}
	replaced := add(10, udp(1, 5000), output(2))
	s.commit(c, replaced)
	q := of.NewFlowQuery()
	q.Table = 0
	if f := ask[of.FlowStatsReply](s, c, of.FlowStatsRequest{FlowQuery: q})[0]; f.Packets != sent {
		t.Errorf("replaced without RESET_COUNTS: %d packets, want %d", f.Packets, sent)
	}
}

func aggregate(s *stage, c *channel.Conn) of.AggregateReply {
	s.t.Helper()
	return ask[of.AggregateReply](s, c, of.AggregateRequest{FlowQuery: of.NewFlowQuery()})
}

// TestCountersOfStreams: packets that come as one (GSO) count as those that they stand for.
func TestCountersOfStreams(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("")
	c := s.connect()
	tcp := func(in of.PortNo) of.Match {
		return of.Match{}.Port(in).Uint(of.FieldEthType, 0x0800).Uint(of.FieldIPProto, 6)
	}
	s.commit(c, add(10, tcp(1), output(2)), add(10, tcp(2), output(1)))
	const size = 4 << 20
	s.transfer(1, 2, size)
	for _, f := range ask[of.FlowStatsReply](s, c, of.FlowStatsRequest{FlowQuery: of.NewFlowQuery()}) {
		port, _ := f.Match.Get(of.FieldInPort)
		segments, bytes := uint64(size/1448), uint64(size)
		if port.Uint() == 1 && (f.Packets < segments || f.Packets > segments*11/10+20 || f.Octets < bytes || f.Octets > bytes*11/10) {
			t.Errorf("%d packets, %d bytes for %d bytes of payload in segments of 1448", f.Packets, f.Octets, size)
		}
		if port.Uint() == 2 && (f.Packets == 0 || f.Octets > bytes/10) {
			t.Errorf("%d packets, %d bytes back", f.Packets, f.Octets)
		}
	}
}

// transfer sends bytes over TCP from one host to another, and waits until they are there.
func (s *stage) transfer(from, to, size int) {
	s.t.Helper()
	l, err := s.host(to).Listen("tcp", fmt.Sprintf("%v:80", address(to)))
	s.must(err)
	defer l.Close()
	got := make(chan error, 1)
	go func() { got <- swallow(l, size) }()
	conn, err := s.host(from).Dial(s.within(), "tcp", fmt.Sprintf("%v:80", address(to)))
	s.must(err)
	_, err = conn.Write(make([]byte, size))
	s.must(err)
	s.must(conn.Close())
	s.must(<-got)
}

// swallow takes a connection and as many bytes of it.
func swallow(l net.Listener, size int) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	n, err := io.Copy(io.Discard, conn)
	if err == nil && n != int64(size) {
		err = fmt.Errorf("%d bytes, want %d", n, size)
	}
	return err
}
