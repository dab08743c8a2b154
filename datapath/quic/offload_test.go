package quic

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"baton/datapath"
	"baton/datapath/kerneltest"
	"baton/packet"
)

const vnetUDP = 5 // VIRTIO_NET_HDR_GSO_UDP_L4

// TestOffload: super-packets, whose checksums are to be completed, leave as the datagrams that they are made of, in order. The tap that
// they leave by has them cut, as a device without the offload does.
func TestOffload(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		var in, out *datapath.Tap
		for _, tap := range []**datapath.Tap{&in, &out} {
			made, err := datapath.OpenTap("offload%d")
			k.must(err)
			t.Cleanup(func() { made.Close() })
			*tap = made
		}
		kerneltest.IP(t, "route", "add", f.surrogate.Addr().String(), "dev", out.Name)
		l, err := link.AttachTCX(link.TCXOptions{Interface: in.Ifindex, Program: k.programs.QuicIngress, Attach: ebpf.AttachTCXIngress})
		k.must(err)
		t.Cleanup(func() { l.Close() })
		s := f.session()
		s.In, s.Out = out.Ifindex, out.Ifindex
		k.must(k.Add(s))
		w := kerneltest.Wires{T: t, In: in, Out: out}
		for _, size := range []int{100, 1200, 1201, 20000} {
			payload := make([]byte, size)
			for i := range payload {
				payload[i] = byte(0x40 | i%64)
			}
			frame := datagram(f.client, f.vip, payload)
			p, err := packet.Parse(frame)
			k.must(err)
			// as for CHECKSUM_PARTIAL: the sum of the pseudo header alone
			sum := packet.PseudoHeader(f.client.Addr(), f.vip.Addr(), packet.ProtocolUDP, len(frame)-p.L4)
			binary.BigEndian.PutUint16(frame[p.L4+6:], sum)
			h := kerneltest.Vnet{Flags: kerneltest.VnetNeedsCsum, CsumStart: uint16(p.L4), CsumOffset: 6}
			if size > 1200 {
				h.GSOType, h.GSOSize, h.HdrLen = vnetUDP, 1200, uint16(p.L4+packet.UDPSize)
			}
			w.Send(h, frame)
			for want := payload; len(want) > 0; {
				got := receive(t, out)
				n := min(1200, len(want))
				if got.Src != f.router || got.Dst != f.surrogate || !bytes.Equal(got.Payload, want[:n]) {
					t.Fatalf("%d bytes from %v to %v, want %d", len(got.Payload), got.Src, got.Dst, n)
				}
				want = want[n:]
			}
		}
	})
}

// receive waits for a datagram to leave, and checks its checksum.
func receive(t *testing.T, tap *datapath.Tap) packet.Datagram {
	t.Helper()
	if err := tap.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 70000)
	for {
		n, err := tap.Read(b)
		if err != nil {
			t.Fatalf("nothing left: %v", err)
		}
		f, err := packet.Parse(b[datapath.VnetHeader:n])
		d, ok := f.Datagram()
		if err != nil || !ok {
			continue // of neighbour discovery
		}
		var h kerneltest.Vnet
		if _, err := binary.Decode(b[:datapath.VnetHeader], binary.LittleEndian, &h); err != nil {
			t.Fatal(err)
		}
		length := f.End - f.L4
		pseudo := packet.PseudoHeader(d.Src.Addr(), d.Dst.Addr(), packet.ProtocolUDP, length)
		if have := binary.BigEndian.Uint16(f.Bytes[f.L4+6:]); h.Flags&kerneltest.VnetNeedsCsum != 0 {
			if have != pseudo {
				t.Fatalf("the checksum to be completed is %#x, want %#x", have, pseudo)
			}
		} else if left := packet.Checksum(f.Bytes[f.L4:f.End], pseudo); left != 0 {
			t.Fatalf("the checksum is wrong by %#x", left)
		}
		return d
	}
}
