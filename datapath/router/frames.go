package router

import (
	"encoding/binary"
	"fmt"

	"baton/datapath"
	"baton/packet"
)

// SendFrames sends SYNs and ACKs of legs by an interface, many with one system call. They are whole but for the Ethernet addresses, and of one
// family. It returns those that the kernel program could not send, mostly because the neighbour's address is not known: a socket can, and
// has it resolved.
func (r *Router) SendFrames(ifindex int, frames [][]byte) (unsent [][]byte, err error) {
	for len(frames) > 0 {
		some := frames[:min(len(frames), int(routerBoundCOMMAND_FRAMES))]
		frames = frames[len(some):]
		in := make([]routerLegFrame, len(some))
		for i, f := range some {
			if len(f) > len(in[i].Bytes) || len(f) < packet.EthernetSize {
				return unsent, fmt.Errorf("send frames: one of %d bytes", len(f))
			}
			in[i].Length = uint32(copy(in[i].Bytes[:], f))
		}
		c := routerSpliceCommand{Kind: uint16(routerCommandKindCOMMAND_SEND), Count: uint32(len(in)), First: uint32(ifindex)}
		binary.BigEndian.PutUint16(c.Ethernet[12:], uint16(packet.Ethernet(some[0]).Type())) // the packets' protocol
		if err := datapath.Command(r.programs.RouterCommand, &c, in); err != nil {
			return append(append(unsent, some...), frames...), fmt.Errorf("send frames: %w", err)
		}
		for i, f := range some {
			if c.Result&(1<<i) == 0 {
				unsent = append(unsent, f)
			}
		}
	}
	return unsent, nil
}
