package controllers

import (
	"testing"

	"baton/openflow"
	"baton/openflow/channel"
)

// TestAsync: who gets which messages that nobody has asked for, by role and by what it has set.
func TestAsync(t *testing.T) {
	s := newStage(t, nil)
	who := []struct {
		name  string
		conn  *channel.Conn
		role  openflow.Role
		async *openflow.Async
	}{
		{"master", s.controller(t, of{}), openflow.RoleMaster, nil},
		{"equal", s.controller(t, of{}), openflow.RoleEqual, nil},
		{"slave", s.controller(t, of{}), openflow.RoleSlave, nil},
		{"passive", s.controller(t, of{listens: true}), openflow.RoleEqual, nil},
		{"read-only", s.controller(t, of{listens: true, readOnly: true}), openflow.RoleNochange, nil},
		{"equal with some", s.controller(t, of{}), openflow.RoleEqual, &openflow.Async{
			PacketIn: [2]uint32{1 << openflow.ReasonInvalidTTL, 0}, PortStatus: [2]uint32{1 << openflow.PortDelete, 7},
			FlowRemoved: [2]uint32{1 << openflow.RemovedDelete, 15},
		}},
		{"slave with all", s.controller(t, of{}), openflow.RoleSlave, &openflow.Async{
			PacketIn: [2]uint32{0, 7}, PortStatus: [2]uint32{0, 7}, FlowRemoved: [2]uint32{0, 15},
		}},
	}
	for _, w := range who {
		if w.async != nil {
			equal(t, w.name, submit(t, w.conn, &openflow.SetAsync{Async: *w.async}), 0)
			equal(t, w.name, ask(t, w.conn, &openflow.GetAsyncRequest{}), any(&openflow.GetAsyncReply{Async: *w.async}))
		}
		ask(t, w.conn, &openflow.RoleRequest{Role: w.role, Generation: 1})
	}
	packetIn := func(r openflow.PacketInReason) func() {
		return func() { s.PacketIn(&openflow.PacketIn{Buffer: openflow.NoBuffer, Reason: r}, openflow.MaxLenNoBuffer) }
	}
	portStatus := func(r openflow.PortReason) func() { return func() { s.PortStatus(&openflow.PortStatus{Reason: r}) } }
	flowRemoved := func(r openflow.FlowRemovedReason) func() {
		return func() { s.FlowRemoved(&openflow.FlowRemoved{Reason: r}) }
	}
	tests := []struct {
		name string
		send func()
		kind openflow.Type
		want []string
	}{
		{"miss", packetIn(openflow.ReasonNoMatch), openflow.TypePacketIn, []string{"master", "equal", "passive", "slave with all"}},
		{"action", packetIn(openflow.ReasonAction), openflow.TypePacketIn, []string{"master", "equal", "passive", "slave with all"}},
		{"TTL", packetIn(openflow.ReasonInvalidTTL), openflow.TypePacketIn, []string{"equal with some", "slave with all"}},
		{"new port", portStatus(openflow.PortAdd), openflow.TypePortStatus,
			[]string{"master", "equal", "slave", "passive", "read-only", "slave with all"}},
		{"port that is gone", portStatus(openflow.PortDelete), openflow.TypePortStatus,
			[]string{"master", "equal", "slave", "passive", "read-only", "equal with some", "slave with all"}},
		{"port that has changed", portStatus(openflow.PortModify), openflow.TypePortStatus,
			[]string{"master", "equal", "slave", "passive", "read-only", "slave with all"}},
		{"idle", flowRemoved(openflow.RemovedIdleTimeout), openflow.TypeFlowRemoved, []string{"master", "equal", "passive", "slave with all"}},
		{"hard", flowRemoved(openflow.RemovedHardTimeout), openflow.TypeFlowRemoved, []string{"master", "equal", "passive", "slave with all"}},
		{"deleted", flowRemoved(openflow.RemovedDelete), openflow.TypeFlowRemoved,
			[]string{"master", "equal", "passive", "equal with some", "slave with all"}},
		{"group deleted", flowRemoved(openflow.RemovedGroupDelete), openflow.TypeFlowRemoved,
			[]string{"master", "equal", "passive", "slave with all"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.send()
			var got []string
			for _, w := range who {
				ask(t, w.conn, &openflow.BarrierRequest{}) // behind what has been sent
				for {
					m, ok := waiting(t, w.conn)
					if !ok {
						break
					}
					equal(t, w.name, m.Type(), tt.kind)
					got = append(got, w.name)
				}
			}
			equal(t, "receivers", got, tt.want)
		})
	}
}

// TestPacketInLength: a controller gets of a packet what the action, or the controller itself, has asked for.
func TestPacketInLength(t *testing.T) {
	s := newStage(t, nil)
	a, b := s.controller(t, of{}), s.controller(t, of{})
	for _, c := range []*channel.Conn{a, b} {
		submit(t, c, &openflow.SetAsync{Async: openflow.Async{PacketIn: [2]uint32{7, 0}}})
	}
	submit(t, b, &openflow.SetConfig{Config: openflow.Config{MissSendLen: openflow.MaxLenNoBuffer}})
	tests := []struct {
		name         string
		reason       openflow.PacketInReason
		bytes        int
		maxLen       uint16
		wantA, wantB int
	}{
		{"all of it", openflow.ReasonAction, 1500, openflow.MaxLenNoBuffer, 1500, 1500},
		{"the start", openflow.ReasonAction, 1500, 64, 64, 64},
		{"none", openflow.ReasonNoMatch, 1500, 0, 0, 0},
		{"shorter than what was asked for", openflow.ReasonNoMatch, 60, 100, 60, 60},
		{"longest that can be asked for", openflow.ReasonAction, 1500, openflow.MaxLenMax, 1500, 1500},
		{"TTL", openflow.ReasonInvalidTTL, 1500, 64, 128, 1500},
		{"TTL of a short one", openflow.ReasonInvalidTTL, 60, 0, 60, 60},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data := make([]byte, tt.bytes)
			for i := range data {
				data[i] = byte(i)
			}
			m := &openflow.PacketIn{Buffer: openflow.NoBuffer, Reason: tt.reason, TotalLen: uint16(tt.bytes), Data: data}
			s.PacketIn(m, tt.maxLen)
			equal(t, "what is left of the message", len(m.Data), tt.bytes)
			for c, want := range map[*channel.Conn]int{a: tt.wantA, b: tt.wantB} {
				got := next(t, c).(*openflow.PacketIn)
				equal(t, "data", string(got.Data), string(data[:want]))
				equal(t, "length of the packet", got.TotalLen, uint16(tt.bytes))
			}
		})
	}
}
