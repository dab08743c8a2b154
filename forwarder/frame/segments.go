package frame

import (
	"encoding/binary"
	"iter"

	"baton/packet"
)

// maxIP is the maximum of the length field of an IPv4 header.
const maxIP = 65535

// Segments splits a GSO frame into its packets, as Linux does for a card that cannot (tcp_gso_segment, __udp_gso_segment, inet_gso_segment).
// size is the payload of each packet but the last (gso_size); 0: the frame is one packet. All packets have the frame's headers and options,
// with their own lengths, IPv4 identifications (ascending), sequence numbers and checksums; CWR stays on the first TCP packet, FIN and PSH on
// the last.
//
// The packets share memory owned by the sequence: each is valid until the next. A frame that is one packet, or is neither TCP nor UDP, is
// completed in place ([Complete]) and yielded alone.
func Segments(b []byte, size int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		l, ok := find(b, size > 0)
		headers := l.headers(b, ok)
		if size <= 0 || headers == 0 || len(b)-headers <= size || headers-l.l3+size > maxIP {
			Complete(b)
			yield(b)
			return
		}
		one := make([]byte, headers+size)
		for n, at := 0, headers; at < len(b); n, at = n+1, at+size {
			end := min(at+size, len(b))
			one = append(append(one[:0], b[:headers]...), b[at:end]...)
			l.finish(one, n, at-headers, end == len(b))
			if !yield(one) {
				return
			}
		}
	}
}

// headers is the length of the headers common to all packets; 0: the frame cannot be split.
func (l *layout) headers(b []byte, found bool) int {
	switch {
	case found && l.protocol == packet.ProtocolTCP:
		return l.l4 + packet.TCP(b[l.l4:]).HeaderLen()
	case found && l.protocol == protocolUDP:
		return l.l4 + udpSize
	}
	return 0
}

// finish sets the fields that differ between packets: n is the packet's index, at the offset of its payload.
func (l *layout) finish(b []byte, n, at int, last bool) {
	if l.v6 {
		packet.IPv6(b[l.l3:]).SetPayloadLen(len(b) - l.l3 - packet.IPv6Size)
	} else {
		ip := packet.IPv4(b[l.l3:l.l4])
		ip.SetTotalLen(len(b) - l.l3)
		ip.SetID(ip.ID() + uint16(n))
		ip.SetChecksum(0)
		ip.SetChecksum(packet.Checksum(ip, 0))
	}
	segment := b[l.l4:]
	pseudo := l.pseudo(b, len(segment))
	if l.protocol == protocolUDP {
		binary.BigEndian.PutUint16(segment[4:], uint16(len(segment)))
		binary.BigEndian.PutUint16(segment[6:], 0)
		binary.BigEndian.PutUint16(segment[6:], notNone(packet.Checksum(segment, pseudo)))
		return
	}
	tcp := packet.TCP(segment)
	tcp.SetSeq(tcp.Seq().Add(uint32(at)))
	flags := tcp.Flags()
	if n > 0 {
		flags &^= packet.CWR
	}
	if !last {
		flags &^= packet.FIN | packet.PSH
	}
	tcp.SetFlags(flags)
	tcp.SetChecksum(0)
	tcp.SetChecksum(packet.Checksum(tcp, pseudo))
}
