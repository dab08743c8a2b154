package controllers

import (
	"testing"

	"baton/openflow"
	"baton/openflow/channel"
)

var flowMod = openflow.NewFlowMod(openflow.FlowAdd)

// TestAnswers: what is between a controller and its channel is answered here.
func TestAnswers(t *testing.T) {
	s := newStage(t, nil)
	c := s.controller(t, of{})
	tests := []struct {
		name    string
		request openflow.Message
		want    any // an answer or a code
	}{
		{"features", &openflow.FeaturesRequest{}, &openflow.FeaturesReply{DatapathID: 0x42, Tables: 3}},
		{"configuration", &openflow.GetConfigRequest{}, &openflow.GetConfigReply{Config: openflow.Config{MissSendLen: 128}}},
		{"barrier", &openflow.BarrierRequest{}, &openflow.BarrierReply{}},
		{"queues", &openflow.QueueGetConfigRequest{Port: 7}, &openflow.QueueGetConfigReply{Port: 7}},
		{"queues of no port", &openflow.QueueGetConfigRequest{Port: openflow.PortFlood}, openflow.QueueOpFailedBadPort},
		{"role", &openflow.RoleRequest{}, &openflow.RoleReply{Role: openflow.RoleEqual, Generation: ^uint64(0)}},
		{"role that is none", &openflow.RoleRequest{Role: 4}, openflow.RoleRequestFailedBadRole},
		{"asynchronous messages", &openflow.GetAsyncRequest{}, &openflow.GetAsyncReply{Async: openflow.Async{
			PacketIn: [2]uint32{3, 0}, PortStatus: [2]uint32{7, 7}, FlowRemoved: [2]uint32{15, 0}}}},
		{"another experimenter", &openflow.Experimenter{ID: 0x1234}, openflow.BadRequestBadExperimenter},
		{"another message of Nicira", &openflow.Experimenter{ID: openflow.NiciraExperimenter, Kind: 99}, openflow.BadRequestBadExpType},
		{"a message of a switch", &openflow.FeaturesReply{}, openflow.BadRequestBadType},
		{"a type that is none", &openflow.Unknown{Kind: 77}, openflow.BadRequestBadType},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, code := tt.want.(openflow.Code); code && tt.request.Type() != openflow.TypeQueueGetConfigRequest &&
				tt.request.Type() != openflow.TypeRoleRequest {
				equal(t, "refusal", submit(t, c, tt.request), tt.want.(openflow.Code))
				return
			}
			equal(t, "answer", ask(t, c, tt.request), tt.want)
		})
	}
	equal(t, "handled", len(s.took()), 0)
	none(t, c)
}

// TestHandles: what the forwarder does itself comes to it, in order, and is answered by it.
func TestHandles(t *testing.T) {
	s := newStage(t, nil)
	s.handle = func(c *Channel, xid uint32, m openflow.Message, raw []byte) {
		switch m := m.(type) {
		case *openflow.MultipartRequest:
			c.Reply(xid, &openflow.MultipartReply{Body: openflow.DescReply{Manufacturer: "Baton"}})
		case *openflow.FlowMod:
			if m.Table == 9 {
				c.Refuse(xid, raw, &openflow.Fault{Code: openflow.FlowModFailedTableFull})
			}
		}
	}
	c := s.controller(t, of{})
	full := *flowMod
	full.Table = 9
	equal(t, "flow mod", submit(t, c, flowMod), 0)
	equal(t, "flow mod that is refused", submit(t, c, &full), openflow.FlowModFailedTableFull)
	parts, err := c.Multipart(within(t), openflow.DescRequest{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "description", parts, []openflow.MultipartBody{openflow.DescReply{Manufacturer: "Baton"}})
	var kinds []openflow.Type
	for _, m := range s.took() {
		kinds = append(kinds, m.Type())
	}
	equal(t, "handled", kinds, []openflow.Type{openflow.TypeFlowMod, openflow.TypeFlowMod, openflow.TypeMultipartRequest})
	// A malformed message is refused, and never comes here.
	equal(t, "goto backwards", submit(t, c, &openflow.FlowMod{Table: 5, Buffer: openflow.NoBuffer,
		Instructions: []openflow.Instruction{openflow.InstructionGotoTable{Table: 5}}}), openflow.BadInstructionBadTableID)
	equal(t, "handled", len(s.took()), 0)
}

// TestConfig: the length of packet-ins is each controller's own, the handling of fragments is the forwarder's.
func TestConfig(t *testing.T) {
	s := newStage(t, nil)
	s.handle = func(c *Channel, xid uint32, m openflow.Message, raw []byte) {
		if m, ok := m.(*openflow.SetConfig); ok && m.Flags == openflow.FragReasm {
			c.Refuse(xid, raw, &openflow.Fault{Code: openflow.SwitchConfigFailedBadFlags})
		}
	}
	a, b := s.controller(t, of{}), s.controller(t, of{})
	set := func(c *channel.Conn, flags openflow.ConfigFlags, length uint16) openflow.Code {
		return submit(t, c, &openflow.SetConfig{Config: openflow.Config{Flags: flags, MissSendLen: length}})
	}
	get := func(c *channel.Conn) openflow.Config {
		return ask(t, c, &openflow.GetConfigRequest{}).(*openflow.GetConfigReply).Config
	}
	equal(t, "refusal", set(a, openflow.FragDrop, 7), 0)
	equal(t, "handled", s.took(), []openflow.Message{&openflow.SetConfig{Config: openflow.Config{Flags: openflow.FragDrop, MissSendLen: 7}}})
	equal(t, "of the one", get(a), openflow.Config{Flags: openflow.FragDrop, MissSendLen: 7})
	equal(t, "of the other", get(b), openflow.Config{Flags: openflow.FragDrop, MissSendLen: 128})
	equal(t, "refusal", set(b, openflow.FragReasm, 9), openflow.SwitchConfigFailedBadFlags)
	equal(t, "after a refusal", get(b), openflow.Config{Flags: openflow.FragDrop, MissSendLen: 128})
	s.took()
	equal(t, "refusal", set(b, openflow.FragDrop, 9), 0)
	equal(t, "handled", len(s.took()), 0) // nothing of the forwarder's has changed
	equal(t, "flags that are none", set(b, 4, 9), openflow.SwitchConfigFailedBadFlags)
}

// TestParts: table features may come in several messages, bounded in all.
func TestParts(t *testing.T) {
	s := newStage(t, nil)
	c := s.controller(t, of{})
	send := func(xid uint32, flags openflow.MultipartFlags, body openflow.MultipartBody) {
		if err := c.SendWait(within(t), xid, &openflow.MultipartRequest{Flags: flags, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	table := func(ids ...openflow.TableID) openflow.TableFeaturesBody {
		var body openflow.TableFeaturesBody
		for _, id := range ids {
			body = append(body, openflow.TableFeatures{Table: id})
		}
		return body
	}
	send(900, openflow.MultipartMore, table(1, 2))
	send(901, 0, table(7))
	send(900, openflow.MultipartMore, table(3))
	send(900, 0, table(4))
	ask(t, c, &openflow.BarrierRequest{})
	equal(t, "handled", s.took(), []openflow.Message{
		&openflow.MultipartRequest{Body: table(7)}, &openflow.MultipartRequest{Body: table(1, 2, 3, 4)},
	})
	send(902, openflow.MultipartMore, openflow.DescRequest{})
	equal(t, "parts of what has none", next(t, c).(*openflow.Error).Code, openflow.BadRequestMultipartBufferOverflow)
	large := table(make([]openflow.TableID, 1000)...)
	for range maxParts/(1000*64) + 1 {
		send(903, openflow.MultipartMore, large)
	}
	equal(t, "too many", next(t, c).(*openflow.Error).Code, openflow.BadRequestMultipartBufferOverflow)
	send(903, 0, table(5))
	ask(t, c, &openflow.BarrierRequest{})
	equal(t, "handled", s.took(), []openflow.Message{&openflow.MultipartRequest{Body: table(5)}})
}

// TestNicira: what ovs-ofctl sends is taken where 1.3 has it.
func TestNicira(t *testing.T) {
	s := newStage(t, nil)
	c := s.controller(t, of{})
	equal(t, "format of packet-ins", submit(t, c, &openflow.SetPacketInFormat{}), 0)
	equal(t, "format of Nicira's", submit(t, c, &openflow.SetPacketInFormat{Format: 2}), openflow.BadRequestBadExpType)
	equal(t, "number of the controller", submit(t, c, &openflow.SetControllerID{Controller: 3}), 0)
	s.PacketIn(&openflow.PacketIn{Buffer: openflow.NoBuffer}, 0)
	none(t, c)
}

// TestReplyAfterTheEnd: who answers a controller that is gone does no harm.
func TestReplyAfterTheEnd(t *testing.T) {
	s := newStage(t, nil)
	var kept *Channel
	s.handle = func(c *Channel, xid uint32, m openflow.Message, raw []byte) { kept = c }
	c := s.controller(t, of{})
	submit(t, c, flowMod)
	c.Close()
	eventually(t, "the channel ends", func() bool { return len(*s.channels.Load()) == 0 })
	s.Do(func() {
		kept.Reply(1, &openflow.BarrierReply{})
		kept.Refuse(1, nil, &openflow.Fault{})
	})
}
