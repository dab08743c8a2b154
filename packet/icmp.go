package packet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ICMPSize is the size in bytes of the header of an ICMPv4 or ICMPv6 error, before the packet that it quotes.
const ICMPSize = 8

// The ICMPv4 errors of RFC 792, and the code of RFC 1191, and the ICMPv6 errors of RFC 4443 that concern a splice.
const (
	ICMPv4Unreachable     = 3
	ICMPv4TimeExceeded    = 11
	ICMPv4CodeFragNeeded  = 4
	ICMPv6Unreachable     = 1
	ICMPv6PacketTooBig    = 2
	ICMPv6TimeExceeded    = 3
	minQuotedTransportLen = 8
)

// ErrNotError says that a frame is no ICMP error, so that it quotes nothing.
var ErrNotError = errors.New("parse quoted packet: not an ICMP error that concerns a transport")

// ICMP is a view of an ICMPv4 or ICMPv6 message: at least ICMPSize bytes.
type ICMP []byte

// Type returns the message type, whose meaning depends on the family.
func (h ICMP) Type() uint8 { return h[0] }

// Code returns the message code.
func (h ICMP) Code() uint8 { return h[1] }

// Checksum returns the checksum field.
func (h ICMP) Checksum() uint16 { return binary.BigEndian.Uint16(h[2:]) }

// SetChecksum replaces the checksum field.
func (h ICMP) SetChecksum(c uint16) { binary.BigEndian.PutUint16(h[2:], c) }

// MTU returns the next hop's MTU in bytes that "fragmentation needed" or "packet too big" reports.
func (h ICMP) MTU(family Family) uint32 {
	if family == FamilyIPv4 {
		return uint32(binary.BigEndian.Uint16(h[6:]))
	}
	return binary.BigEndian.Uint32(h[4:])
}

// SetMTU replaces that.
func (h ICMP) SetMTU(family Family, mtu uint32) {
	if family == FamilyIPv4 {
		binary.BigEndian.PutUint16(h[6:], uint16(mtu))
		return
	}
	binary.BigEndian.PutUint32(h[4:], mtu)
}

// TellsMTU reports whether the message is of one of the two kinds that have an MTU.
func (h ICMP) TellsMTU(family Family) bool {
	if family == FamilyIPv4 {
		return h.Type() == ICMPv4Unreachable && h.Code() == ICMPv4CodeFragNeeded
	}
	return h.Type() == ICMPv6PacketTooBig
}

// isTransportError reports whether the message quotes a packet and tells its sender that it did not arrive.
func (h ICMP) isTransportError(family Family) bool {
	if family == FamilyIPv4 {
		return h.Type() == ICMPv4Unreachable || h.Type() == ICMPv4TimeExceeded
	}
	return h.Type() == ICMPv6Unreachable || h.Type() == ICMPv6PacketTooBig || h.Type() == ICMPv6TimeExceeded
}

// Quote is the packet that an ICMP error quotes, as a Frame whose Bytes are those of the whole frame that carries the
// error. Its L3, L4, Data and End lie within it, End where the quoted packet or the quotation ends.
type Quote struct {
	Frame
	// Whole is set when the transport header is quoted to its end. Otherwise only its first 8 bytes may be read, which
	// are TCP's ports and sequence number (RFC 792); Frame.TCP then returns no more than is there.
	Whole bool
}

// Quote parses the packet that an ICMP error (destination unreachable, packet too big, time exceeded) quotes. It
// returns [ErrNotError] for any other frame, and the errors of [Parse] for a quoted packet that cannot be read. The
// first fragment of a packet is read, a later one is an [ErrFragment]. Of a protocol other than TCP no ports are read.
func (f Frame) Quote() (Quote, error) {
	if f.Protocol != f.icmpProtocol() || f.End-f.L4 < ICMPSize || !ICMP(f.Bytes[f.L4:f.End]).isTransportError(f.Family) {
		return Quote{}, ErrNotError
	}
	q := Quote{Frame: Frame{Bytes: f.Bytes, L3: f.Data, End: f.End}}
	length, err := q.parseIP(f.Family)
	if err != nil {
		return q, fmt.Errorf("parse quoted packet: %w", err)
	}
	q.End = min(q.End, q.L3+length) // what follows are the extensions of RFC 4884
	if q.Protocol != ProtocolTCP {
		q.Data = q.L4
		return q, nil
	}
	if f.Family == FamilyIPv4 {
		if ip := q.IPv4(); ip.HeaderLen() != IPv4Size {
			return q, fmt.Errorf("parse quoted packet: %w", ErrIPOptions)
		} else if ip.FragmentOffset() != 0 {
			return q, fmt.Errorf("parse quoted packet: %w", ErrFragment)
		}
	}
	have := q.End - q.L4
	if have < minQuotedTransportLen {
		return q, fmt.Errorf("parse quoted packet: %w", ErrTruncated)
	}
	q.Data = q.End
	if have >= TCPSize {
		size := TCP(q.Bytes[q.L4:]).HeaderLen()
		if size < TCPSize {
			return q, fmt.Errorf("parse quoted packet: %w", ErrHeader)
		}
		if size <= have {
			q.Data, q.Whole = q.L4+size, true
		}
	}
	q.setPorts()
	return q, nil
}
