package forwarder

import (
	"net"
	"testing"

	"baton/lab"
	"baton/openflow"
	"baton/packet"
)

func TestFrame(t *testing.T) {
	w := &Way{Near: &lab.Interface{MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}}, Source: "10.7.3.2", Sink: "10.7.4.9", to: sinkMAC}
	b := frame(w)
	putFlow(b, 0x12345678)
	f, err := packet.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	ip := packet.IPv4(b[packet.EthernetSize:])
	if len(b) != frameSize || f.Ethernet().Dst() != sinkMAC || ip.Src().String() != w.Source || ip.Dst().String() != w.Sink ||
		packet.Checksum(ip[:packet.IPv4Size], 0) != 0 || ip.TotalLen() != len(b)-packet.EthernetSize {
		t.Errorf("% x", b)
	}
	if got, want := [4]byte(b[atUDP:]), [4]byte{0x56, 0x78, 0x12, 0x34}; got != want {
		t.Errorf("ports % x, want % x", got, want)
	}
}

func TestReceived(t *testing.T) {
	const head = "Inter-|   Receive                                                |  Transmit\n" +
		" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"
	tests := []struct {
		name, text string
		want       uint64
		fails      bool
	}{
		{"the second of two", head + "    lo:    1036      18    0 0\n  eth1: 7410123  123506    0    0 0\n", 123506, false},
		{"a number without a space before it", head + "  eth1:74101231 123507    0    0 0\n", 123507, false},
		{"no such line", head + "    lo:    1036      18    0 0\n", 0, true},
		{"a line that is cut", head + "  eth1: 7410123", 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := received([]byte(tt.text), []byte("eth1:"))
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("%d, %v; want %d", got, err, tt.want)
			}
		})
	}
}

// TestEntriesDiffer: none of many entries replaces another.
func TestEntriesDiffer(t *testing.T) {
	for name, list := range map[string][]openflow.Message{"sessions": sessions(100_000), "crowd": crowd(100_000)} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]bool{}
			for _, m := range list {
				seen[string(m.(*openflow.FlowMod).Match)] = true
			}
			if len(seen) != len(list) {
				t.Errorf("%d matches of %d entries", len(seen), len(list))
			}
		})
	}
}

func TestEcho(t *testing.T) {
	b := make([]byte, packet.IPv4Size+echoSize)
	echo := b[packet.IPv4Size:]
	putEcho(echo, 7)
	if packet.Checksum(echo, 0) != 0 || isEcho(b, 7) {
		t.Errorf("% x", echo)
	}
	echo[0] = 0 // the answer
	if !isEcho(b, 7) || isEcho(b, 8) || isEcho(b[:40], 7) {
		t.Errorf("% x", echo)
	}
}
