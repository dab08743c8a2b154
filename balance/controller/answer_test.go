package controller

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"baton/balance/tables"
	"baton/openflow"
	"baton/packet"
)

// What a host asks the gateway of class 1: 192.0.0.3 and 64:ff9b:1::3.
const (
	askARP = `ffffffffffff 020000010001 0806
		0001 0800 06 04 0001  020000010001 c0000002  000000000000 c0000003`
	askNeighbour = `3333ff000003 020000010001 86dd
		60000000 0020 3a ff  0064ff9b000100000000000000000002  ff0200000000000000000001ff000003
		87 00 7c52 00000000  0064ff9b000100000000000000000003  0101 020000010001`
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// changed is a frame with other bytes from a place on.
func changed(b []byte, at int, to ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], to)
	return b
}

func TestAnswer(t *testing.T) {
	arp, ns := unhex(t, askARP), unhex(t, askNeighbour)
	host4, host6 := netip.MustParseAddr(internalAddress), netip.MustParseAddr(internalAddress6)
	ping := func(to string, kind uint8) []byte {
		a := netip.MustParseAddr(to)
		from := host4
		if a.Is6() {
			from = host6
		}
		return packet.BuildICMP(packet.ICMPSpec{SrcMAC: packet.MAC{2, 0, 0, 1, 0, 1}, DstMAC: packet.MAC(tables.GatewayMAC(1)), Src: from, Dst: a, Type: kind,
			MTU: 0x12340001, Quote: []byte("abc")})
	}
	tests := []struct {
		name  string
		frame []byte
		want  string // "": no answer
	}{
		{"ARP", arp, `020000010001 024274000001 0806
			0001 0800 06 04 0002  024274000001 c0000003  020000010001 c0000002`},
		{"ARP for the gateway of class 0", changed(arp, 41, 1), `020000010001 024274000000 0806
			0001 0800 06 04 0002  024274000000 c0000001  020000010001 c0000002`},
		{"ARP with an Ethernet trailer", append(bytes.Clone(arp), make([]byte, 18)...), `020000010001 024274000001 0806
			0001 0800 06 04 0002  024274000001 c0000003  020000010001 c0000002`},
		{"ARP for another address", changed(arp, 41, 9), ""},
		{"an ARP reply", changed(arp, 21, 2), ""},
		{"ARP of another protocol", changed(arp, 16, 0x86), ""},
		{"half an ARP", arp[:40], ""},
		{"a solicitation", ns, `020000010001 024274000001 86dd
			60000000 0020 3a ff  0064ff9b000100000000000000000003  0064ff9b000100000000000000000002
			88 00 0000 e0000000  0064ff9b000100000000000000000003  0201 024274000001`},
		{"a solicitation that a router has passed on", changed(ns, 21, 254), ""},
		{"for another address", changed(ns, 77, 9), ""},
		{"is the address free?", changed(ns, 22, make([]byte, 16)...), `020000010001 024274000001 86dd
			60000000 0020 3a ff  0064ff9b000100000000000000000003  ff020000000000000000000000000001
			88 00 0000 a0000000  0064ff9b000100000000000000000003  0201 024274000001`},
		{"a ping", ping("192.0.0.3", 8), `020000010001 024274000001 0800
			4500001f 00000000 4001 0000 c0000003 c0000002  00 00 0000 12340001 616263`},
		{"a ping over IPv6", ping("64:ff9b:1::3", 128), `020000010001 024274000001 86dd
			60000000 000b 3a 40  0064ff9b000100000000000000000003  0064ff9b000100000000000000000002  81 00 0000 12340001 616263`},
		{"a ping of somebody else", ping("203.0.113.9", 8), ""},
		{"a reply", ping("192.0.0.3", 0), ""},
		{"not ICMP", tcp(1, "192.0.0.3:80", packet.SYN), ""},
		{"nothing", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := answer(ruled(1).Internal, tt.frame)
			want := unhex(t, tt.want)
			if f, err := packet.Parse(got); err == nil {
				if f.ICMP().Checksum() != f.TransportChecksum() {
					t.Errorf("checksum %#x, want %#x", f.ICMP().Checksum(), f.TransportChecksum())
				}
				f.ICMP().SetChecksum(0) // the table leaves sums out
				if f.Family == packet.FamilyIPv4 {
					f.IPv4().SetChecksum(0)
				}
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got\n%x, want\n%x", got, want)
			}
		})
	}
}

// TestAnswerIsSentInside: the reply leaves by the host's port, as if it had come from the controller.
func TestAnswerIsSentToInternalPort(t *testing.T) {
	m := newMachine(10)
	m.set(ruled(1))
	r := m.packetIn(0, packetIn(tables.InsidePort, tables.NewCookie(tables.Fixed, 0), unhex(t, askARP)))
	if r.verdict != Answered || len(r.send) != 1 {
		t.Fatalf("got %v", r)
	}
	out := r.send[0].(*openflow.PacketOut)
	if out.InPort != openflow.PortController || out.Actions[0] != (openflow.ActionOutput{Port: tables.InsidePort}) {
		t.Errorf("got %v", out)
	}
}
