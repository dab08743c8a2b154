package router

import (
	"bytes"
	"net/netip"
	"testing"

	"baton/datapath/kerneltest"
	"baton/packet"
)

// Frames of legs leave by the interface with the next hop's address, each whole, more than fit into a command; those of unknown neighbours are
// returned.
func TestFramesAreSent(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		kerneltest.Forward(t)
		south := k.link("south0")
		prefix, own, known, unknown := "10.99.0.1/24", "10.99.0.1", "10.99.0.9", "10.99.0.10"
		family := "-4"
		if f.client.Addr().Is6() {
			prefix, own, known, unknown, family = "fd99::1/64", "fd99::1", "fd99::9", "fd99::10", "-6"
		}
		kerneltest.IP(t, "addr", "add", prefix, "dev", "south0", "nodad")
		kerneltest.IP(t, family, "neigh", "replace", known, "lladdr", "02:00:00:00:00:77", "dev", "south0", "nud", "permanent")
		wire := k.capture(south)
		frame := func(to string, port uint16) []byte {
			return packet.Build(packet.Spec{
				Src: netip.AddrPortFrom(netip.MustParseAddr(own), port), Dst: netip.AddrPortFrom(netip.MustParseAddr(to), 443), Seq: packet.Seq(port), Flags: packet.SYN,
				Options: packet.Options{}.AppendMSS(1400).AppendSACKPermitted().AppendTimestamps(uint32(port), 0).AppendNOP(1).AppendWindowScale(7), DontFragment: true,
			})
		}
		var frames [][]byte
		for i := range uint16(routerBoundCOMMAND_FRAMES) + 3 {
			frames = append(frames, frame(known, 3000+i))
		}
		lost := frame(unknown, 2999)
		frames = append(frames[:5:5], append([][]byte{lost}, frames[5:]...)...)
		unsent, err := k.SendFrames(int(south), frames)
		if err != nil || len(unsent) != 1 || !bytes.Equal(unsent[0], lost) {
			t.Fatalf("%d unsent, %v", len(unsent), err)
		}
		for i, want := range frames {
			if i == 5 {
				continue
			}
			packet.Ethernet(want).SetDst(packet.MAC{2, 0, 0, 0, 0, 0x77})
			got := wire.next().Bytes
			packet.Ethernet(want).SetSrc(packet.Ethernet(got).Src())
			if !bytes.Equal(got, want) {
				t.Fatalf("frame %d:\n%x, want\n%x", i, got, want)
			}
		}
	})
}
