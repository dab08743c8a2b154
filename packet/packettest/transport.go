package packettest

import (
	"slices"
	"testing"

	"baton/packet"
)

// TCPChecker checks a TCP header.
type TCPChecker func(t testing.TB, tcp packet.TCP)

// TCP checks that the frame carries TCP, and its header.
func TCP(checkers ...TCPChecker) Checker {
	return func(t testing.TB, f packet.Frame) {
		t.Helper()
		if f.Protocol != packet.ProtocolTCP {
			t.Errorf("protocol: got %d, want TCP", f.Protocol)
			return
		}
		for _, c := range checkers {
			c(t, f.TCP())
		}
	}
}

// Seq checks the sequence number.
func Seq(want packet.Seq) TCPChecker {
	return func(t testing.TB, tcp packet.TCP) {
		t.Helper()
		equal(t, "seq", tcp.Seq(), want)
	}
}

// Ack checks the acknowledgement number, whether or not the ACK flag is set.
func Ack(want packet.Seq) TCPChecker {
	return func(t testing.TB, tcp packet.TCP) {
		t.Helper()
		equal(t, "ack", tcp.Ack(), want)
	}
}

// Flags checks that exactly these control bits are set.
func Flags(want packet.Flags) TCPChecker {
	return func(t testing.TB, tcp packet.TCP) {
		t.Helper()
		equal(t, "flags", tcp.Flags(), want)
	}
}

// Window checks the window field.
func Window(want uint16) TCPChecker {
	return func(t testing.TB, tcp packet.TCP) {
		t.Helper()
		equal(t, "window", tcp.Window(), want)
	}
}

// Urgent checks the urgent pointer.
func Urgent(want uint16) TCPChecker {
	return func(t testing.TB, tcp packet.TCP) {
		t.Helper()
		equal(t, "urgent pointer", tcp.Urgent(), want)
	}
}

// MSS checks that there is an MSS option, and its value in bytes.
func MSS(want uint16) TCPChecker {
	return func(t testing.TB, tcp packet.TCP) {
		t.Helper()
		got, ok := tcp.Options().MSS()
		equal(t, "MSS option present", ok, true)
		equal(t, "MSS", got, want)
	}
}

// WindowScale checks that there is a window scale option, and its shift.
func WindowScale(want uint8) TCPChecker {
	return func(t testing.TB, tcp packet.TCP) {
		t.Helper()
		got, ok := tcp.Options().WindowScale()
		equal(t, "window scale option present", ok, true)
		equal(t, "window scale", got, want)
	}
}

// Timestamps checks that there are timestamps, and their values.
func Timestamps(val, ecr uint32) TCPChecker {
	return func(t testing.TB, tcp packet.TCP) {
		t.Helper()
		gotVal, gotEcr, ok := tcp.Options().Timestamps()
		equal(t, "timestamps option present", ok, true)
		equal(t, "TSval", gotVal, val)
		equal(t, "TSecr", gotEcr, ecr)
	}
}

// SACK checks the blocks of all SACK options; without arguments, that there are none.
func SACK(want ...packet.SACKBlock) TCPChecker {
	return func(t testing.TB, tcp packet.TCP) {
		t.Helper()
		if got := tcp.Options().SACK(); !slices.Equal(got, want) {
			t.Errorf("SACK blocks: got %v, want %v", got, want)
		}
	}
}

// NoOption checks that there is no option of that kind.
func NoOption(kind packet.OptionKind) TCPChecker {
	return func(t testing.TB, tcp packet.TCP) {
		t.Helper()
		for opt, err := range tcp.Options().All() {
			if err != nil {
				t.Errorf("options: %v", err)
			} else if opt.Kind == kind {
				t.Errorf("option %d: present at offset %d, want none", kind, opt.Offset)
			}
		}
	}
}

// OptionBytes checks the options byte for byte, padding included.
func OptionBytes(want []byte) TCPChecker {
	return func(t testing.TB, tcp packet.TCP) {
		t.Helper()
		if got := tcp.Options(); !slices.Equal(got, packet.Options(want)) {
			t.Errorf("options: got % x, want % x", got, want)
		}
	}
}

// ICMP checks that the frame is an ICMP error of that type and code, and the packet that it quotes. The checkers may
// not read more of the quoted packet than is quoted.
func ICMP(kind, code uint8, quoted ...Checker) Checker {
	return func(t testing.TB, f packet.Frame) {
		t.Helper()
		q, err := f.Quote()
		if err != nil {
			t.Errorf("ICMP: %v", err)
			return
		}
		equal(t, "ICMP type", f.ICMP().Type(), kind)
		equal(t, "ICMP code", f.ICMP().Code(), code)
		for _, c := range quoted {
			c(t, q.Frame)
		}
	}
}

// MTU checks the MTU, in bytes, that an ICMP error reports.
func MTU(want uint32) Checker {
	return func(t testing.TB, f packet.Frame) {
		t.Helper()
		if f.Protocol == packet.ProtocolTCP {
			t.Errorf("protocol: got TCP, want ICMP")
			return
		}
		equal(t, "MTU", f.ICMP().MTU(f.Family), want)
	}
}
