package packet

import (
	"errors"
	"fmt"
)

// ErrNotTCP says that a frame carries no TCP.
var ErrNotTCP = errors.New("not TCP")

// Segment cuts the TCP packet in frame into packets of at most mss bytes of payload, as Linux' software segmentation
// (tcp_gso_segment, inet_gso_segment) does: every packet has the headers and options of the first, with its own
// sequence number, length, IPv4 id (counting up) and checksums; CWR stays on the first one alone, FIN and PSH on the
// last. A packet that fits is returned as one. The checksum is computed from scratch, so that a packet with a partial
// checksum may be given. The result shares nothing with frame. It returns the errors of [Parse] and [ErrNotTCP].
func Segment(frame []byte, mss int) ([][]byte, error) {
	f, err := Parse(frame)
	if err != nil {
		return nil, fmt.Errorf("segment: %w", err)
	}
	if f.Protocol != ProtocolTCP {
		return nil, fmt.Errorf("segment: %w", ErrNotTCP)
	}
	if mss < 1 {
		return nil, fmt.Errorf("segment: mss of %d bytes", mss)
	}
	headers, payload := frame[:f.Data], f.Payload()
	var segments [][]byte
	for at := 0; at == 0 || at < len(payload); at += mss {
		end := min(at+mss, len(payload))
		b := append(append(make([]byte, 0, f.Data+end-at), headers...), payload[at:end]...)
		finishSegment(b, f, len(segments), at, end == len(payload))
		segments = append(segments, b)
	}
	return segments, nil
}

// finishSegment sets what differs from packet to packet: n counts them, at is the payload's offset in bytes.
func finishSegment(b []byte, whole Frame, n, at int, last bool) {
	piece := whole
	piece.Bytes, piece.End = b, len(b)
	if whole.Family == FamilyIPv4 {
		ip := piece.IPv4()
		ip.SetTotalLen(len(b) - piece.L3)
		ip.SetID(ip.ID() + uint16(n))
		sumIPv4(ip)
	} else {
		piece.IPv6().SetPayloadLen(len(b) - piece.L4)
	}
	tcp := piece.TCP()
	flags := tcp.Flags()
	if n > 0 {
		flags &^= CWR
	}
	if !last {
		flags &^= FIN | PSH
	}
	tcp.SetFlags(flags)
	tcp.SetSeq(tcp.Seq().Add(uint32(at)))
	tcp.SetChecksum(piece.TransportChecksum())
}
