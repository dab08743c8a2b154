package controllers

import (
	"testing"

	"baton/openflow"
)

// TestRoles walks two controllers, and one that may only read, through the roles [6.3.6].
func TestRoles(t *testing.T) {
	s := newStage(t, nil)
	a, b, reader := s.controller(t, of{}), s.controller(t, of{}), s.controller(t, of{readOnly: true})
	names := map[string]int{"a": 0, "b": 1, "reader": 2}
	const (
		nochange, equalRole, master, slave = openflow.RoleNochange, openflow.RoleEqual, openflow.RoleMaster, openflow.RoleSlave
		top                                = uint64(1) << 63
	)
	tests := []struct {
		who        string
		ask        openflow.Role
		generation uint64
		want       openflow.Code    // 0: granted
		replied    uint64           // the generation in the reply
		roles      [3]openflow.Role // of a, b and reader after it
	}{
		{"a", nochange, 5, 0, ^uint64(0), [3]openflow.Role{equalRole, equalRole, slave}},
		{"a", equalRole, 5, 0, ^uint64(0), [3]openflow.Role{equalRole, equalRole, slave}}, // it does not look at the generation
		{"a", master, 5, 0, 5, [3]openflow.Role{master, equalRole, slave}},
		{"b", slave, 4, openflow.RoleRequestFailedStale, 0, [3]openflow.Role{master, equalRole, slave}},
		{"b", slave, 5, 0, 5, [3]openflow.Role{master, slave, slave}},
		{"b", master, 6, 0, 6, [3]openflow.Role{slave, master, slave}},
		{"a", master, 5, openflow.RoleRequestFailedStale, 0, [3]openflow.Role{slave, master, slave}},
		{"a", nochange, 0, 0, 6, [3]openflow.Role{slave, master, slave}},
		{"b", master, 6, 0, 6, [3]openflow.Role{slave, master, slave}},
		{"a", equalRole, 0, 0, 6, [3]openflow.Role{equalRole, master, slave}}, // an equal leaves the master alone
		{"b", equalRole, 0, 0, 6, [3]openflow.Role{equalRole, equalRole, slave}},
		{"a", slave, 6 + top - 1, 0, 6 + top - 1, [3]openflow.Role{slave, equalRole, slave}}, // the furthest that is ahead
		{"a", master, 6 + top - 2, openflow.RoleRequestFailedStale, 0, [3]openflow.Role{slave, equalRole, slave}},
		{"a", master, 5, openflow.RoleRequestFailedStale, 0, [3]openflow.Role{slave, equalRole, slave}}, // 2^63 behind
		{"a", master, 4, 0, 4, [3]openflow.Role{master, equalRole, slave}},                              // it wraps
		{"reader", master, 9, openflow.RoleRequestFailedUnsup, 0, [3]openflow.Role{master, equalRole, slave}},
		{"reader", equalRole, 9, openflow.RoleRequestFailedUnsup, 0, [3]openflow.Role{master, equalRole, slave}},
		{"reader", slave, 4, 0, 4, [3]openflow.Role{master, equalRole, slave}},
		{"b", 4, 4, openflow.RoleRequestFailedBadRole, 0, [3]openflow.Role{master, equalRole, slave}},
	}
	conns := []struct{ ask func(openflow.Message) any }{
		{func(m openflow.Message) any { return ask(t, a, m) }},
		{func(m openflow.Message) any { return ask(t, b, m) }},
		{func(m openflow.Message) any { return ask(t, reader, m) }},
	}
	for i, tt := range tests {
		switch got := conns[names[tt.who]].ask(&openflow.RoleRequest{Role: tt.ask, Generation: tt.generation}).(type) {
		case openflow.Code:
			equal(t, "refusal", got, tt.want)
		case *openflow.RoleReply:
			equal(t, "refusal", openflow.Code(0), tt.want)
			equal(t, "generation", got.Generation, tt.replied)
			equal(t, "role", got.Role, tt.roles[names[tt.who]])
		}
		for j, want := range tt.roles {
			if got := conns[j].ask(&openflow.RoleRequest{}).(*openflow.RoleReply).Role; got != want {
				t.Errorf("step %d (%s asks for %v, %d): role of %d is %v, want %v", i, tt.who, tt.ask, tt.generation, j, got, want)
			}
		}
	}
}

// TestSlavesDoNotWrite: a slave's changes are refused, its questions are not.
func TestSlavesDoNotWrite(t *testing.T) {
	frame := make([]byte, 60)
	tests := []struct {
		name    string
		message openflow.Message
		refused bool
	}{
		{"flow mod", flowMod, true},
		{"group mod", &openflow.GroupMod{Group: 1}, true},
		{"meter mod", &openflow.MeterMod{Meter: 1}, true},
		{"port mod", &openflow.PortMod{Port: 1}, true},
		{"table mod", &openflow.TableMod{}, true},
		{"packet out", &openflow.PacketOut{Buffer: openflow.NoBuffer, InPort: openflow.PortController, Data: frame}, true},
		{"malformed packet out", &openflow.PacketOut{Buffer: openflow.NoBuffer}, true},
		{"bundle", &openflow.BundleControl{}, true},
		{"table features", &openflow.MultipartRequest{Body: openflow.TableFeaturesBody{{Table: 1}}}, true},
		{"first part of table features", &openflow.MultipartRequest{Flags: openflow.MultipartMore, Body: openflow.TableFeaturesBody{}}, true},
		{"fragments", &openflow.SetConfig{Config: openflow.Config{Flags: openflow.FragDrop}}, true},
		{"length of packet-ins", &openflow.SetConfig{Config: openflow.Config{MissSendLen: 9}}, false},
		{"question about tables", &openflow.MultipartRequest{Body: openflow.TableFeaturesBody{}}, false},
		{"question about flow entries", &openflow.MultipartRequest{Body: openflow.FlowStatsRequest{}}, false},
		{"asynchronous messages", &openflow.SetAsync{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, nil)
			c := s.controller(t, of{})
			ask(t, c, &openflow.RoleRequest{Role: openflow.RoleSlave})
			want := openflow.Code(0)
			if tt.refused {
				want = openflow.BadRequestIsSlave
			}
			equal(t, "refusal", submit(t, c, tt.message), want)
			if tt.refused {
				equal(t, "handled", len(s.took()), 0)
			}
		})
	}
}

// TestRoleEndsWithTheChannel: who comes back is equal, and the fence stays.
func TestRoleEndsWithTheChannel(t *testing.T) {
	s := newStage(t, nil)
	c := s.controller(t, of{})
	ask(t, c, &openflow.RoleRequest{Role: openflow.RoleMaster, Generation: 9})
	c.Close()
	c = s.controller(t, of{})
	equal(t, "role", ask(t, c, &openflow.RoleRequest{}), any(&openflow.RoleReply{Role: openflow.RoleEqual, Generation: 9}))
	equal(t, "refusal", ask(t, c, &openflow.RoleRequest{Role: openflow.RoleMaster, Generation: 8}), any(openflow.RoleRequestFailedStale))
}
