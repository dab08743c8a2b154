// Package packettest checks frames in tests by composing small checkers, in the manner of gVisor's checker package:
//
//	packettest.Check(t, frame, packettest.Src(vip), packettest.TCP(packettest.Seq(17), packettest.Flags(packet.ACK)))
//
// A checker reports with Errorf, so that one run names every field that differs; [Check] stops the test only when the
// frame cannot be parsed.
package packettest

import (
	"bytes"
	"net/netip"
	"testing"

	"baton/packet"
)

// Checker checks a parsed frame.
type Checker func(t testing.TB, f packet.Frame)

// Check parses the frame and applies every checker to it.
func Check(t testing.TB, frame []byte, checkers ...Checker) {
	t.Helper()
	f, err := packet.Parse(frame)
	if err != nil {
		t.Fatalf("parse frame: %v\n% x", err, frame)
		return
	}
	for _, c := range checkers {
		c(t, f)
	}
}

func equal[V comparable](t testing.TB, field string, got, want V) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", field, got, want)
	}
}

// MACs checks both Ethernet addresses.
func MACs(src, dst packet.MAC) Checker {
	return func(t testing.TB, f packet.Frame) {
		t.Helper()
		equal(t, "source MAC", f.Ethernet().Src(), src)
		equal(t, "destination MAC", f.Ethernet().Dst(), dst)
	}
}

// Src checks the source address and port.
func Src(want netip.AddrPort) Checker {
	return func(t testing.TB, f packet.Frame) {
		t.Helper()
		equal(t, "source", f.Src, want)
	}
}

// Dst checks the destination address and port.
func Dst(want netip.AddrPort) Checker {
	return func(t testing.TB, f packet.Frame) {
		t.Helper()
		equal(t, "destination", f.Dst, want)
	}
}

// TTL checks the time to live or hop limit.
func TTL(want uint8) Checker {
	return func(t testing.TB, f packet.Frame) {
		t.Helper()
		equal(t, "TTL", f.TTL(), want)
	}
}

// TOS checks DSCP and ECN of either family.
func TOS(want uint8) Checker {
	return func(t testing.TB, f packet.Frame) {
		t.Helper()
		if f.Family == packet.FamilyIPv4 {
			equal(t, "TOS", f.IPv4().TOS(), want)
			return
		}
		equal(t, "traffic class", f.IPv6().TrafficClass(), want)
	}
}

// Fragmenting checks IPv4's identification and DF bit.
func Fragmenting(id uint16, dontFragment bool) Checker {
	return func(t testing.TB, f packet.Frame) {
		t.Helper()
		if f.Family != packet.FamilyIPv4 {
			t.Errorf("family: got IPv%d, want IPv4", f.Family)
			return
		}
		equal(t, "id", f.IPv4().ID(), id)
		equal(t, "DF", f.IPv4().DontFragment(), dontFragment)
	}
}

// FlowLabel checks IPv6's flow label.
func FlowLabel(want uint32) Checker {
	return func(t testing.TB, f packet.Frame) {
		t.Helper()
		if f.Family != packet.FamilyIPv6 {
			t.Errorf("family: got IPv%d, want IPv6", f.Family)
			return
		}
		equal(t, "flow label", f.IPv6().FlowLabel(), want)
	}
}

// Checksums computes the IPv4 header checksum and the transport checksum from scratch and compares.
func Checksums() Checker {
	return func(t testing.TB, f packet.Frame) {
		t.Helper()
		ipChecksum(t, f)
		var got uint16
		switch f.Protocol {
		case packet.ProtocolTCP:
			got = f.TCP().Checksum()
		case packet.ProtocolICMP, packet.ProtocolICMPv6:
			got = f.ICMP().Checksum()
		default:
			t.Errorf("protocol: got %d, want TCP or ICMP", f.Protocol)
			return
		}
		equal(t, "transport checksum", got, f.TransportChecksum())
	}
}

// PartialChecksum checks that TCP's checksum field holds the sum of the pseudo header alone (CHECKSUM_PARTIAL), and
// the IPv4 header checksum.
func PartialChecksum() Checker {
	return func(t testing.TB, f packet.Frame) {
		t.Helper()
		ipChecksum(t, f)
		want := packet.PseudoHeader(f.Src.Addr(), f.Dst.Addr(), packet.ProtocolTCP, f.End-f.L4)
		equal(t, "partial checksum", f.TCP().Checksum(), want)
	}
}

func ipChecksum(t testing.TB, f packet.Frame) {
	t.Helper()
	if f.Family == packet.FamilyIPv4 {
		equal(t, "sum over the IPv4 header", packet.Checksum(f.IPv4(), 0), 0)
	}
}

// Payload checks what the transport carries.
func Payload(want []byte) Checker {
	return func(t testing.TB, f packet.Frame) {
		t.Helper()
		if !bytes.Equal(f.Payload(), want) {
			t.Errorf("payload: got %d bytes %.40q, want %d bytes %.40q", len(f.Payload()), f.Payload(), len(want), want)
		}
	}
}
