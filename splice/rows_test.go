package splice

import (
	"testing"

	"baton/packet"
	check "baton/packet/packettest"
)

// One test for each row of the design's translation table, both columns in each.

func TestRowSeq(t *testing.T) {
	tests := []struct {
		name            string
		fromC, toS      packet.Seq
		fromS, toClient packet.Seq
	}{
		{"the first byte", clientNext, routerNext, surrogateNext, vipNext},
		{"onto zero", 0xfffffe00, 0, 0xffffffe8, 0},
		{"off the largest", 0xffffffff, 0x1ff, 0xffffffff, 0x17},
		{"after the wrap", 0, 0x200, 0, 0x18},
		{"an old byte", clientNext - 1, routerNext - 1, surrogateNext - 1, vipNext - 1},
		{"half the circle on", 0x7fffff00, 0x80000100, 0x7ffffff8, 0x80000010},
	}
	eachFamily(t, func(t *testing.T, f family) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				c, s := f.fromClient(), f.fromSurrogate()
				c.Seq, s.Seq = tt.fromC, tt.fromS
				check.Check(t, translated(t, f.splice().ToServer, c), check.TCP(check.Seq(tt.toS), check.Ack(surrogateNext)), check.Checksums())
				check.Check(t, translated(t, f.splice().ToClient, s), check.TCP(check.Seq(tt.toClient), check.Ack(clientNext)), check.Checksums())
			})
		}
	})
}

func TestRowAck(t *testing.T) {
	tests := []struct {
		name            string
		flags           packet.Flags
		fromC, toS      packet.Seq
		fromS, toClient packet.Seq
	}{
		{"the last byte", packet.ACK, vipNext, surrogateNext, routerNext, clientNext},
		{"across the wrap", packet.ACK, 0x18, 0, 0x200, 0},
		{"back across the wrap", packet.ACK, 0x17, 0xffffffff, 0x1ff, 0xffffffff},
		{"FIN", packet.ACK | packet.FIN, vipNext, surrogateNext, routerNext, clientNext},
		{"RST with ACK", packet.ACK | packet.RST, vipNext, surrogateNext, routerNext, clientNext},
		{"RST without ACK keeps the field", packet.RST, 0, 0, 0, 0},
		{"no ACK keeps a field that is filled", packet.RST, 7, 7, 7, 7},
	}
	eachFamily(t, func(t *testing.T, f family) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				c, s := f.fromClient(), f.fromSurrogate()
				c.Flags, s.Flags, c.Ack, s.Ack = tt.flags, tt.flags, tt.fromC, tt.fromS
				check.Check(t, translated(t, f.splice().ToServer, c),
					check.TCP(check.Seq(routerNext), check.Ack(tt.toS), check.Flags(tt.flags)), check.Checksums())
				check.Check(t, translated(t, f.splice().ToClient, s),
					check.TCP(check.Seq(vipNext), check.Ack(tt.toClient), check.Flags(tt.flags)), check.Checksums())
			})
		}
	})
}

func TestRowSACKEdges(t *testing.T) {
	block := func(left, right packet.Seq) packet.SACKBlock { return packet.SACKBlock{Left: left, Right: right} }
	tests := []struct {
		name            string
		fromC, toS      []packet.SACKBlock
		fromS, toClient []packet.SACKBlock
	}{
		{
			"one block", []packet.SACKBlock{block(0x20, 0x30)}, []packet.SACKBlock{block(0x8, 0x18)},
			[]packet.SACKBlock{block(0x300, 0x400)}, []packet.SACKBlock{block(0x100, 0x200)},
		},
		{
			"a block that comes to lie across the wrap",
			[]packet.SACKBlock{block(0x11, 0x20)}, []packet.SACKBlock{block(0xfffffff9, 0x8)},
			[]packet.SACKBlock{block(0x1f0, 0x210)}, []packet.SACKBlock{block(0xfffffff0, 0x10)},
		},
		{
			"three blocks", []packet.SACKBlock{block(0x18, 0x19), block(0x1a, 0x1b), block(0x1c, 0x1d)},
			[]packet.SACKBlock{block(0, 1), block(2, 3), block(4, 5)},
			[]packet.SACKBlock{block(0x200, 0x201), block(0x202, 0x203), block(0x204, 0x205)},
			[]packet.SACKBlock{block(0, 1), block(2, 3), block(4, 5)},
		},
	}
	eachFamily(t, func(t *testing.T, f family) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				c, s := f.fromClient(), f.fromSurrogate()
				c.Options = packet.Options{}.AppendNOP(2).AppendSACK(tt.fromC...)
				s.Options = packet.Options{}.AppendNOP(1).AppendSACK(tt.fromS...) // at an odd offset
				check.Check(t, translated(t, f.splice().ToServer, c), check.TCP(check.SACK(tt.toS...)), check.Checksums())
				check.Check(t, translated(t, f.splice().ToClient, s), check.TCP(check.SACK(tt.toClient...)), check.Checksums())
			})
		}
		t.Run("stripped", func(t *testing.T) {
			client, server := f.legs()
			server.SACK = false
			c := f.fromClient()
			c.Options = timestamps(0xfffffff1, 0x11).AppendNOP(2).AppendSACK(block(0x20, 0x30), block(0x40, 0x50))
			got := translated(t, New(client, server).ToServer, c)
			want := timestamps(0x51, 0x80000000).AppendNOP(2 + 18)
			check.Check(t, got, check.TCP(check.OptionBytes(want)), check.Checksums())
		})
	})
}

// In the fixture the client's clock shows 0xfffffff0 where the surrogate knows the router's as 0x50, and the surrogate's
// shows 0x7fffffff where the client knows the router's as 0x10.
func TestRowTimestamps(t *testing.T) {
	tests := []struct {
		name                     string
		flags                    packet.Flags
		fromCVal, fromCEcr       uint32
		toSVal, toSEcr           uint32
		fromSVal, fromSEcr       uint32
		toClientVal, toClientEcr uint32
	}{
		{
			name: "the values of the moment", flags: packet.ACK,
			fromCVal: 0xfffffff0, fromCEcr: 0x10, toSVal: 0x50, toSEcr: 0x7fffffff,
			fromSVal: 0x7fffffff, fromSEcr: 0x50, toClientVal: 0x10, toClientEcr: 0xfffffff0,
		},
		{
			name: "across the wrap", flags: packet.ACK,
			fromCVal: 0x1, fromCEcr: 0x8000000f, toSVal: 0x61, toSEcr: 0xfffffffe,
			fromSVal: 0xffffffff, fromSEcr: 0x61, toClientVal: 0x80000010, toClientEcr: 0x1,
		},
		{
			name: "no ACK keeps TSecr", flags: packet.RST,
			fromCVal: 0xfffffff0, fromCEcr: 0, toSVal: 0x50, toSEcr: 0,
			fromSVal: 0x7fffffff, fromSEcr: 9, toClientVal: 0x10, toClientEcr: 9,
		},
	}
	eachFamily(t, func(t *testing.T, f family) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				c, s := f.fromClient(), f.fromSurrogate()
				c.Flags, s.Flags = tt.flags, tt.flags
				c.Options = timestamps(tt.fromCVal, tt.fromCEcr)
				s.Options = packet.Options{}.AppendNOP(1).AppendTimestamps(tt.fromSVal, tt.fromSEcr) // at an odd offset
				check.Check(t, translated(t, f.splice().ToServer, c), check.TCP(check.Timestamps(tt.toSVal, tt.toSEcr)), check.Checksums())
				check.Check(t, translated(t, f.splice().ToClient, s), check.TCP(check.Timestamps(tt.toClientVal, tt.toClientEcr)), check.Checksums())
			})
		}
		t.Run("stripped where the other leg has none", func(t *testing.T) {
			client, server := f.legs()
			server.Timestamps = false
			c := f.fromClient()
			c.Options = timestamps(1, 2).AppendSACK(packet.SACKBlock{Left: 0x20, Right: 0x30})
			want := packet.Options{}.AppendNOP(12).AppendSACK(packet.SACKBlock{Left: 0x8, Right: 0x18}).AppendNOP(0)
			want = append(want, 0, 0) // the padding, as it came
			check.Check(t, translated(t, New(client, server).ToServer, c), check.TCP(check.OptionBytes(want)), check.Checksums())
		})
	})
}

func TestRowWindow(t *testing.T) {
	tests := []struct {
		name             string
		window           uint16
		sender, receiver uint8
		want             uint16
	}{
		{"equal shifts", 1000, 7, 7, 1000},
		{"no scaling on either", 65535, 0, 0, 65535},
		{"coarser: rounded down", 1000, 0, 7, 7},
		{"coarser: below one unit", 127, 0, 7, 1},
		{"finer", 100, 7, 2, 3200},
		{"finer: at most 65535", 3000, 7, 2, 65535},
		{"the receiver cannot scale", 0x1000, 7, 0, 65535},
		{"the largest", 65535, 14, 14, 65535},
		{"the largest to one without scaling", 65535, 14, 0, 65535},
		{"the smallest step", 1, 0, 14, 1},
		{"closed", 0, 0, 14, 0},
		{"zero stays zero", 0, 14, 0, 0},
	}
	eachFamily(t, func(t *testing.T, f family) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				client, server := f.legs()
				client.ShiftOffered, server.ShiftSent = tt.sender, tt.receiver
				server.ShiftOffered, client.ShiftSent = tt.sender, tt.receiver
				c, s := f.fromClient(), f.fromSurrogate()
				c.Window, s.Window = tt.window, tt.window
				check.Check(t, translated(t, New(client, server).ToServer, c), check.TCP(check.Window(tt.want)), check.Checksums())
				check.Check(t, translated(t, New(client, server).ToClient, s), check.TCP(check.Window(tt.want)), check.Checksums())
			})
		}
	})
}

func TestRowMSS(t *testing.T) {
	syn := packet.Options{}.AppendMSS(1460).AppendSACKPermitted().AppendTimestamps(1, 0).AppendNOP(1).AppendWindowScale(7)
	tests := []struct {
		name    string
		options packet.Options
		flags   packet.Flags
		limit   uint16
		want    packet.Options
	}{
		{"lowered", syn, packet.SYN, 1400, append(packet.Options{}.AppendMSS(1400), syn[4:]...)},
		{"lowered in a SYN-ACK", syn, packet.SYN | packet.ACK, 536, append(packet.Options{}.AppendMSS(536), syn[4:]...)},
		{"already small enough", syn, packet.SYN, 1460, syn},
		{"never raised", syn, packet.SYN, 9000, syn},
		{"at an odd offset", packet.Options{}.AppendNOP(1).AppendMSS(9000).AppendNOP(3), packet.SYN, 1400, packet.Options{}.AppendNOP(1).AppendMSS(1400).AppendNOP(3)},
		{"absent", packet.Options{}.AppendNOP(4), packet.SYN, 100, packet.Options{}.AppendNOP(4)},
		{"of a wrong size", packet.Options{2, 3, 255, 1}, packet.SYN, 100, packet.Options{2, 3, 255, 1}},
	}
	eachFamily(t, func(t *testing.T, f family) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s := f.fromClient()
				s.Flags, s.Options, s.Payload = tt.flags, tt.options, nil
				frame := packet.Build(s)
				if got := ClampMSS(frame, tt.limit); got != Translated {
					t.Fatalf("got %v", got)
				}
				check.Check(t, frame, check.TCP(check.OptionBytes(tt.want), check.Seq(clientNext)), check.Src(f.client), check.TTL(64), check.Checksums())

				s.Checksum = packet.SumPartial
				frame = packet.Build(s)
				if got := ClampMSSPartial(frame, tt.limit); got != Translated {
					t.Fatalf("partial: got %v", got)
				}
				check.Check(t, frame, check.TCP(check.OptionBytes(tt.want)), check.PartialChecksum())
			})
		}
		clamp := func(frame []byte) Reason { return ClampMSS(frame, 1400) }
		s := f.fromClient()
		refused(t, clamp, packet.Build(s), NotSYN)
		s.Flags, s.Options = packet.SYN, packet.Options{2, 4, 255, 255, 9, 0}
		refused(t, clamp, packet.Build(s), BadOptions)
		refused(t, clamp, packet.Build(s)[:40], Truncated)
	})
}

func TestRowAddressesPortsMACsTTLAndECN(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, tos := range []uint8{0, 1, 2, 3, 0xb8, 0xff} {
			for _, ttl := range []uint8{2, 64, 255} {
				c, s := f.fromClient(), f.fromSurrogate()
				c.TOS, s.TOS, c.TTL, s.TTL = tos, tos, ttl, ttl
				c.Flags |= packet.ECE | packet.CWR | packet.URG
				c.Urgent, c.Padding = 3, 2
				toS, toC := translated(t, f.splice().ToServer, c), translated(t, f.splice().ToClient, s)
				check.Check(t, toS, check.MACs(routerBackMAC, surrogateMAC), check.Src(f.router), check.Dst(f.surrogate),
					check.TOS(tos), check.TTL(ttl-1), check.TCP(check.Flags(c.Flags&^packet.URG), check.Urgent(0)), check.Payload(c.Payload), check.Checksums())
				check.Check(t, toC, check.MACs(routerMAC, clientMAC), check.Src(f.vip), check.Dst(f.client),
					check.TOS(tos), check.TTL(ttl-1), check.TCP(check.Flags(s.Flags)), check.Payload(s.Payload), check.Checksums())
				if f.name == "IPv4" {
					check.Check(t, toS, check.Fragmenting(0x1234, true))
					check.Check(t, toC, check.Fragmenting(0xffff, false))
				} else {
					check.Check(t, toS, check.FlowLabel(0x12345))
					check.Check(t, toC, check.FlowLabel(0xfffff))
				}
			}
		}
	})
}
