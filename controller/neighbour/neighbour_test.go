package neighbour

import (
	"bytes"
	"net/netip"
	"testing"

	"baton/packet"
)

var (
	one, two = packet.MAC{2, 0, 0, 0, 0, 1}, packet.MAC{2, 0, 0, 0, 0, 2}
	v4a, v4b = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	v6a, v6b = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::12:3456")
)

func TestRoundTrip(t *testing.T) {
	tests := []struct {
		name string
		m    Message
		to   packet.MAC
	}{
		{"ARP question", Message{MAC: one, Address: v4a, Target: v4b}, Broadcast},
		{"ARP question to one", Message{MAC: one, Address: v4a, Target: v4b, To: two}, two},
		{"ARP probe", Message{MAC: one, Target: v4b, To: two}, two},
		{"ARP answer", Message{Answer: true, MAC: one, Address: v4a, Target: v4a, To: two, Asker: v4b}, two},
		{"solicitation", Message{MAC: one, Address: v6a, Target: v6b}, packet.MAC{0x33, 0x33, 0xff, 0x12, 0x34, 0x56}},
		{"solicitation to one", Message{MAC: one, Address: v6a, Target: v6b, To: two}, two},
		{"solicitation for duplicates", Message{MAC: one, Target: v6b}, packet.MAC{0x33, 0x33, 0xff, 0x12, 0x34, 0x56}},
		{"advertisement", Message{Answer: true, MAC: one, Address: v6a, Target: v6a, To: two, Asker: v6b}, two},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := Build(tt.m)
			got, ok := Parse(b)
			tt.m.To = tt.to
			if !ok || got != tt.m {
				t.Errorf("got %+v, %v\nwant %+v", got, ok, tt.m)
			}
			if a := Sender(b); tt.m.Target.Is4() && a != tt.m.Address {
				t.Errorf("sender %v", a)
			}
		})
	}
}

// TestKnownBytes has a neighbour advertisement and an ARP reply as tcpdump shows them of Linux.
func TestKnownBytes(t *testing.T) {
	arp := Build(Message{Answer: true, MAC: one, Address: v4a, Target: v4a, To: two, Asker: v4b})
	want := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2}
	if !bytes.HasPrefix(arp, want) || len(arp) != 60 {
		t.Errorf("got % x", arp)
	}
	nd := Build(Message{Answer: true, MAC: one, Target: v6a, To: two, Asker: v6b})
	if nd[packet.EthernetSize+packet.IPv6Size] != 136 || nd[packet.EthernetSize+packet.IPv6Size+4] != 0x60 || len(nd) != 14+40+32 {
		t.Errorf("got % x", nd)
	}
}

func TestRefused(t *testing.T) {
	arp := Build(Message{MAC: one, Address: v4a, Target: v4b})
	nd := Build(Message{MAC: one, Address: v6a, Target: v6b})
	edit := func(b []byte, at int, v byte) []byte { b = bytes.Clone(b); b[at] = v; return b }
	for name, b := range map[string][]byte{
		"nothing": nil, "half an Ethernet header": arp[:7], "ARP cut off": arp[:14+27], "ARP of tokens": edit(arp, 15, 6),
		"ARP of another operation": edit(arp, 21, 3), "ARP whose sender is not the frame's": edit(arp, 11, 9),
		"ND cut off": nd[:14+40+20], "ND of another hop limit": edit(nd, 14+7, 254), "ND with a wrong checksum": edit(nd, 14+40+2, 0xee),
		"IPv4": edit(nd, 13, 0), "ND whose length runs over": edit(nd, 14+5, 200),
	} {
		if m, ok := Parse(b); ok {
			t.Errorf("%s: %+v", name, m)
		}
	}
	// A correct checksum over an option that names another host.
	forged := bytes.Clone(nd)
	forged[len(forged)-1] = 9
	icmp := forged[14+40:]
	icmp[2], icmp[3] = 0, 0
	sum := packet.Checksum(icmp, packet.PseudoHeader(v6a, SolicitedNode(v6b), 58, len(icmp)))
	icmp[2], icmp[3] = byte(sum>>8), byte(sum)
	if m, ok := Parse(forged); ok {
		t.Errorf("another host's option: %+v", m)
	}
}

// FuzzParse: what is read of a frame can be made again and read as the same.
func FuzzParse(f *testing.F) {
	f.Add(Build(Message{MAC: one, Address: v4a, Target: v4b}))
	f.Add(Build(Message{Answer: true, MAC: one, Address: v6a, Target: v6a, To: two, Asker: v6b}))
	f.Add(Build(Message{MAC: one, Target: v6b}))
	f.Fuzz(func(t *testing.T, frame []byte) {
		Sender(frame)
		Receiver(frame)
		m, ok := Parse(frame)
		if !ok || m.To == (packet.MAC{}) || m.To == Broadcast || m.Answer && m.Asker.IsMulticast() {
			return
		}
		again, ok := Parse(Build(m))
		if !m.Answer && m.To[0]&1 != 0 {
			return // a group whose name is not this target's
		}
		if !ok || again != m {
			t.Fatalf("%+v\n%+v", m, again)
		}
	})
}
