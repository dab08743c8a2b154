package forwarder_test

import (
	"bytes"
	"testing"

	"baton/lab"
	of "baton/openflow"
)

// watch collects the frames of an EtherType that come out of each port of the forwarder.
func (s *stage) watch(etherType uint16) map[of.PortNo]*lab.Capture {
	s.t.Helper()
	out := make(map[of.PortNo]*lab.Capture)
	for i := range s.cables {
		out[of.PortNo(i+1)] = s.outside(i + 1).Capture(lab.CaptureOptions{Keep: func(b []byte) bool {
			return len(b) >= 14 && b[12] == byte(etherType>>8) && b[13] == byte(etherType)
		}})
	}
	return out
}

// packetOut is a packet of a controller's own.
func packetOut(in of.PortNo, frame []byte, actions ...of.Action) *of.PacketOut {
	return &of.PacketOut{Buffer: of.NoBuffer, InPort: in, Actions: actions, Data: frame}
}

// TestPacketOut: where packets of a controller go, byte for byte, up to jumbo frames. All of them are written one after another, so that those
// to one port arrive in that order, and one that should not have come has, once a later one is there.
func TestPacketOut(t *testing.T) {
	s := newStage(t, 3, lab.LinkOptions{MTU: 9000, NoOffloads: true})
	s.start("")
	c := s.connect()
	s.commit(c, add(5, of.Match{}.Port(1).Uint(of.FieldEthType, uint64(localType)), output(3)))
	tests := []struct {
		name    string
		in      of.PortNo
		actions []of.Action
		want    []of.PortNo
		up      bool // to the controller
	}{
		{"a port", of.PortController, []of.Action{output(2)}, []of.PortNo{2}, false},
		{"two ports", of.PortController, []of.Action{output(3), output(2)}, []of.PortNo{2, 3}, false},
		{"ALL", 1, []of.Action{output(of.PortAll)}, []of.PortNo{2, 3}, false},
		{"ALL from no port", of.PortController, []of.Action{output(of.PortAll)}, []of.PortNo{1, 2, 3}, false},
		{"FLOOD", 2, []of.Action{output(of.PortFlood)}, []of.PortNo{1, 3}, false},
		{"IN_PORT", 2, []of.Action{output(of.PortInPort)}, []of.PortNo{2}, false},
		{"the port that it came from", 2, []of.Action{output(2)}, nil, false},
		{"TABLE", 1, []of.Action{output(of.PortTable)}, []of.PortNo{3}, false},
		{"TABLE, where nothing matches", 2, []of.Action{output(of.PortTable)}, nil, false},
		{"NORMAL to somebody unknown", 1, []of.Action{output(of.PortNormal)}, []of.PortNo{2, 3}, false},
		{"CONTROLLER", 3, []of.Action{output(of.PortController)}, nil, true},
		{"CONTROLLER and a port", 1, []of.Action{output(of.PortController), output(2)}, []of.PortNo{2}, true},
		{"no action", 1, nil, nil, false},
		{"ANY to a port", of.PortAny, []of.Action{output(2)}, []of.PortNo{2}, false},
		{"ANY to ALL", of.PortAny, []of.Action{output(of.PortAll)}, []of.PortNo{1, 2, 3}, false},
		{"ANY to FLOOD", of.PortAny, []of.Action{output(of.PortFlood)}, []of.PortNo{1, 2, 3}, false},
		{"ANY to NORMAL", of.PortAny, []of.Action{output(of.PortNormal)}, []of.PortNo{1, 2, 3}, false},
		{"ANY to IN_PORT", of.PortAny, []of.Action{output(of.PortInPort)}, nil, false},
		{"ANY to TABLE, where an entry asks for another port", of.PortAny, []of.Action{output(of.PortTable)}, nil, false},
		{"ANY to CONTROLLER", of.PortAny, []of.Action{output(of.PortController)}, nil, true},
		{"changed between two ports", of.PortController,
			[]of.Action{output(1), of.ActionSetField{Field: of.Match{}.MAC(of.FieldEthDst, somebody)}, output(2)}, []of.PortNo{1, 2}, false},
	}
	for _, size := range []int{60, 1514, 9014} {
		frames := s.watch(localType)
		want := make(map[of.PortNo][][]byte)
		for i, tt := range tests {
			b := frame(nobody, somebody, localType, size, byte(i))
			s.commit(c, packetOut(tt.in, b, tt.actions...))
			for _, port := range tt.want {
				want[port] = append(want[port], b)
			}
			if !tt.up {
				continue
			}
			in := receive(s, c, tt.name, func(m *of.PacketIn) bool { return true })
			port, _ := in.Match.Get(of.FieldInPort)
			if !bytes.Equal(in.Data, b) || int(in.TotalLen) != size || in.Reason != of.ReasonAction || of.PortNo(port.Uint()) != tt.in ||
				in.Buffer != of.NoBuffer {
				t.Errorf("%s, %d bytes: packet-in %+v", tt.name, size, in)
			}
		}
		last := frame(nobody, somebody, localType, size, 0xee)
		s.commit(c, packetOut(of.PortController, last, output(1), output(2), output(3)))
		for port, capture := range frames {
			var got []lab.Packet
			lab.Eventually(t, patience, func() error {
				got = capture.Packets()
				if len(got) == 0 || !bytes.Equal(got[len(got)-1].Data[14:], last[14:]) {
					return errMissing{1}
				}
				return nil
			})
			capture.Stop()
			got = got[:len(got)-1]
			if len(got) != len(want[port]) {
				t.Errorf("%d bytes, port %v: %d frames, want %d", size, port, len(got), len(want[port]))
				continue
			}
			for i, p := range got {
				b := want[port][i]
				if n := len(tests) - 1; port == 2 && b[14] == byte(n) {
					b = append(append([]byte(nil), somebody[:]...), b[6:]...)
				}
				if !bytes.Equal(p.Data, b) {
					got := p.Data[:min(len(p.Data), 60)]
					t.Errorf("%d bytes, port %v, frame %d:\ngot  %x\nwant %x", size, port, i, got, b[:60])
				}
			}
		}
	}
}

// lldp is a frame of the kind that controllers find links by, of odd length and with every bit of a byte set somewhere.
var lldp = append([]byte{0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 0x11, 0x88, 0xcc,
	2, 7, 4, 2, 0, 0, 0, 0, 0x11, 4, 2, 7, '1', 6, 2, 0, 120,
	0xfe, 12, 0, 0x26, 0xe1, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0xff}, 0, 0)

// TestLLDP: link discovery passes up and down byte for byte, as controllers need it, and by no other way.
func TestLLDP(t *testing.T) {
	s := newStage(t, 3, lab.LinkOptions{NoOffloads: true})
	s.start("")
	c := s.connect()
	s.commit(c,
		add(0, nil, output(of.PortNormal)),
		add(65535, of.Match{}.Uint(of.FieldEthType, 0x88cc), of.ActionOutput{Port: of.PortController, MaxLen: of.MaxLenNoBuffer}))
	frames := s.watch(0x88cc)
	inject(t, s.outside(1), lldp)
	in := receive(s, c, "packet-in", func(m *of.PacketIn) bool { return true })
	port, _ := in.Match.Get(of.FieldInPort)
	if !bytes.Equal(in.Data, lldp) || int(in.TotalLen) != len(lldp) || port.Uint() != 1 || in.Table != 0 || in.Reason != of.ReasonAction {
		t.Errorf("packet-in %+v", in)
	}
	s.commit(c, packetOut(of.PortController, lldp, output(2)))
	lab.Eventually(t, patience, func() error {
		if n := len(frames[2].Packets()); n == 0 {
			return errMissing{1}
		}
		return nil
	})
	if got := frames[2].Stop(); len(got) != 1 || !bytes.Equal(got[0].Data, lldp) {
		t.Errorf("out of port 2: %v", got)
	}
	if got := frames[3].Stop(); len(got) != 0 {
		t.Errorf("out of port 3: %v", got)
	}
}

// TestPacketOutRefused: what is answered to packets that cannot be sent, and that it costs the channel nothing.
func TestPacketOutRefused(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("")
	c := s.connect()
	good := frame(nobody, somebody, localType, 60, 1)
	tests := []struct {
		name string
		m    *of.PacketOut
		want of.Code
	}{
		{"a buffer", &of.PacketOut{Buffer: 7, InPort: of.PortController, Actions: []of.Action{output(1)}}, of.BadRequestBufferUnknown},
		{"from a port that none can be", packetOut(of.PortFlood, good, output(1)), of.BadRequestBadPort},
		{"from port 0", packetOut(0, good, output(1)), of.BadRequestBadPort},
		{"to port 0", packetOut(of.PortController, good, output(0)), of.BadActionBadOutPort},
		{"to a group that is not there", packetOut(of.PortController, good, of.ActionGroup{Group: 7}),
			of.BadActionBadOutGroup},
		{"no packet", packetOut(of.PortController, nil, output(1)), of.BadRequestBadPacket},
		{"less than a header", packetOut(of.PortController, good[:13], output(1)), of.BadRequestBadPacket},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			refused(t, c.Commit(within(t), tt.m), tt.want)
		})
	}
	frames := s.watch(localType)
	s.commit(c, packetOut(of.PortController, good, output(1)))
	lab.Eventually(t, patience, func() error {
		if len(frames[1].Packets()) != 1 {
			return errMissing{1}
		}
		return nil
	})
}
