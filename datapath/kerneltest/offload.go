package kerneltest

import (
	"encoding/binary"
	"testing"
	"time"

	"baton/datapath"
	"baton/packet"
)

// Wires are two taps: a program is at the ingress of one, and what it sends leaves by the other, which may be the same. Frames carry
// virtio-net headers, so that the kernel holds them as a device with offloads would have made them.
type Wires struct {
	T       testing.TB
	In, Out *datapath.Tap
	Counts  func() []uint64 // shown when nothing leaves; may be nil
}

// Vnet is a virtio-net header (struct virtio_net_hdr).
type Vnet struct {
	Flags, GSOType                         uint8
	HdrLen, GSOSize, CsumStart, CsumOffset uint16
}

// Flags of a Vnet, and its types of segments.
const (
	VnetNeedsCsum = 1
	VnetTCPv4     = 1
	VnetTCPv6     = 4
)

// Send has a frame come in.
func (w *Wires) Send(h Vnet, frame []byte) {
	w.T.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, h)
	if err == nil {
		err = w.In.Write(append(b, frame...))
	}
	if err != nil {
		w.T.Fatal(err)
	}
}

// Receive waits for the next TCP frame that leaves.
func (w *Wires) Receive() (h Vnet, frame []byte) {
	w.T.Helper()
	if err := w.Out.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		w.T.Fatal(err)
	}
	b := make([]byte, 70000)
	for {
		n, err := w.Out.Read(b)
		if err != nil {
			var counts []uint64
			if w.Counts != nil {
				counts = w.Counts()
			}
			w.T.Fatalf("nothing left: %v; verdicts %v", err, counts)
		}
		if f, err := packet.Parse(b[datapath.VnetHeader:n]); err != nil || f.Protocol != packet.ProtocolTCP {
			continue
		}
		if _, err = binary.Decode(b[:datapath.VnetHeader], binary.LittleEndian, &h); err != nil {
			w.T.Fatal(err)
		}
		return h, b[datapath.VnetHeader:n]
	}
}
