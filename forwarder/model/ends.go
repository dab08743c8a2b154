package model

import (
	"encoding/binary"
	"net/netip"

	"baton/packet"
)

// ICMP and ICMPv6 types.
const (
	echoReply, echoRequest       = 0, 8
	echoReplySix, echoRequestSix = 129, 128
	unreachable                  = 3
	timeExceeded                 = 11
	parameterProblem             = 12
	errorsSixFirst               = 1
	errorsSixLast                = 4
)

// ends are a packet's addresses, and its ports or their substitutes.
type ends struct {
	protocol uint8
	src, dst netip.AddrPort
	flags    packet.Flags // of TCP
	payload  bool         // of TCP: has payload; or a later fragment
	lost     bool         // a later fragment whose first fragment was not seen

	quoteAt       int   // of an ICMP error: offset of the quoted packet; 0: not an error
	quote         *ends // of the quoted packet, nil if unknown
	quoteChecksum int   // offset of the quoted transport checksum; 0: none
}

// fragmentKey is common to the fragments of a packet.
type fragmentKey struct {
	src, dst netip.Addr
	protocol uint8
	id       uint32
}

// ends parses a packet; ok is false if it is not IP.
func (m *Bindings) ends(b []byte) (e ends, ok bool) {
	v := look(b)
	if !v.ipv4 && !v.ipv6 {
		return ends{}, false
	}
	src, dst := ipAddresses(b, v.l3, v.ipv6)
	var ports [2]uint16
	switch {
	case v.tcp, v.udp, v.sctp:
		ports = [2]uint16{uint16(be16(b, v.l4)), uint16(be16(b, v.l4+2))}
	case v.icmp || v.icmpv6:
		ports = e.icmp(b, &v)
	}
	if v.tcp {
		e.flags = packet.Flags(b[v.l4+13])
		e.payload = v.hasPayload(b)
	}
	e.payload = e.payload || v.later
	e.protocol = uint8(v.protocol)
	if v.fragment {
		k := fragmentKey{src, dst, e.protocol, v.fragmentID(b)}
		if v.later {
			var seen bool
			ports, seen = m.fragments[k]
			e.lost = !seen
		} else {
			m.fragments[k] = ports
		}
	}
	e.src, e.dst = netip.AddrPortFrom(src, ports[0]), netip.AddrPortFrom(dst, ports[1])
	return e, true
}

// hasPayload reports whether a TCP segment has payload, by its headers, because frames may be padded. Length 0 means a frame too large for the
// field.
func (v *view) hasPayload(b []byte) bool {
	size, from := be16(b, v.l3+2), v.l3
	if v.ipv6 {
		size, from = be16(b, v.l3+4), v.l3+packet.IPv6Size
	}
	return size == 0 || size > v.l4-from+int(b[v.l4+12]>>4)*4
}

func ipAddresses(b []byte, at int, six bool) (src, dst netip.Addr) {
	from := func(at, n int) netip.Addr {
		a, _ := netip.AddrFromSlice(b[at : at+n]) // 4 or 16 are right
		return a
	}
	if six {
		return from(at+8, 16), from(at+24, 16)
	}
	return from(at+12, 4), from(at+16, 4)
}

// icmp returns the identifier of an echo as the requester's port, and parses the packet that an error quotes.
func (e *ends) icmp(b []byte, v *view) (ports [2]uint16) {
	kind := b[v.l4]
	if isError := v.icmp && (kind == unreachable || kind == timeExceeded || kind == parameterProblem) ||
		v.icmpv6 && kind >= errorsSixFirst && kind <= errorsSixLast; isError {
		e.quoteAt = v.l4 + packet.ICMPSize
		e.quote = e.quoted(b, v.ipv6)
	}
	if has(b, v.l4+4, 2) {
		ports = echoPorts(b, v.l4, v.ipv6)
	}
	return ports
}

func echoPorts(b []byte, at int, six bool) (ports [2]uint16) {
	asks, answers := byte(echoRequest), byte(echoReply)
	if six {
		asks, answers = echoRequestSix, echoReplySix
	}
	switch b[at] {
	case asks:
		ports[0] = uint16(be16(b, at+4))
	case answers:
		ports[1] = uint16(be16(b, at+4))
	}
	return ports
}

// quoted parses the packet at quoteAt; nil if its flow cannot be determined.
func (e *ends) quoted(b []byte, six bool) *ends {
	at, size := e.quoteAt, packet.IPv4Size
	if six {
		size = packet.IPv6Size
	}
	if !has(b, at, size) || (b[at]>>4 == 6) != six || (b[at]>>4 == 4) == six {
		return nil
	}
	q := &ends{}
	if six {
		q.protocol = b[at+6]
	} else {
		q.protocol, size = b[at+9], int(b[at]&15)*4
	}
	l4 := at + size
	if !six && (size < packet.IPv4Size || be16(b, at+6)&0x1fff != 0) {
		return nil
	}
	if six && q.protocol == headerFragment {
		if !has(b, l4, 8) || be16(b, l4+2)>>3 != 0 {
			return nil
		}
		q.protocol = b[l4]
		l4 += 8
	}
	var ports [2]uint16
	switch q.protocol {
	case protocolTCP, protocolUDP, protocolSCTP:
		if !has(b, l4, 4) {
			return nil
		}
		ports = [2]uint16{uint16(be16(b, l4)), uint16(be16(b, l4+2))}
	case protocolICMP, protocolICMPv6:
		if !has(b, l4, 8) {
			return nil
		}
		ports[0] = echoPorts(b, l4, q.protocol == protocolICMPv6)[0]
	}
	src, dst := ipAddresses(b, at, six)
	q.src, q.dst = netip.AddrPortFrom(src, ports[0]), netip.AddrPortFrom(dst, ports[1])
	e.quoteChecksum = quoteChecksum(b, q.protocol, l4)
	return q
}

// quoteChecksum is the offset of a quoted transport checksum that covers the addresses: 0 if it is not quoted, or not used.
func quoteChecksum(b []byte, protocol uint8, l4 int) int {
	at := 0
	switch protocol {
	case protocolTCP:
		at = l4 + 16
	case protocolUDP:
		at = l4 + 6
	case protocolICMPv6:
		at = l4 + 2
	}
	if at == 0 || !has(b, at, 2) || protocol == protocolUDP && be16(b, at) == 0 {
		return 0
	}
	return at
}

// answer is the key of the flow that the packet would be a reply to; ok is false if it cannot be a reply.
func (e *ends) answer() (k answerKey, ok bool) {
	switch q := e.quote; {
	case e.quoteAt == 0:
		return answerKey{protocol: e.protocol, remote: e.src, internal: e.dst.Port()}, !e.lost
	case q == nil || q.src.Addr() != e.dst.Addr():
		return answerKey{}, false
	default:
		return answerKey{protocol: q.protocol, remote: q.dst, internal: q.src.Port()}, true
	}
}

// restore rewrites the destination of a reply to the flow's internal address.
func (p *state) restore(e *ends, internal netip.Addr) bool {
	v := look(p.frame)
	to, at := internal.AsSlice(), v.l3+16
	if v.ipv6 {
		at = v.l3 + 24
	}
	return p.keeping(sumIP|sumPseudo|sumL4, func(b []byte) {
		copy(b[at:], to)
		if e.quote != nil {
			restoreQuote(b, e, to, v.ipv6)
		}
	})
}

// restoreQuote rewrites the quoted source address, and updates the quoted checksums.
func restoreQuote(b []byte, e *ends, to []byte, six bool) {
	at := e.quoteAt + 12
	if six {
		at = e.quoteAt + 8
	}
	mend := func(check int, old []byte) {
		binary.BigEndian.PutUint16(b[check:], packet.UpdateChecksum(binary.BigEndian.Uint16(b[check:]), old, to))
	}
	old := append([]byte(nil), b[at:at+len(to)]...)
	copy(b[at:], to)
	if !six {
		mend(e.quoteAt+10, old)
	}
	if e.quoteChecksum != 0 {
		mend(e.quoteChecksum, old)
	}
}

// fragmentID is the identification of a packet's fragments.
func (v *view) fragmentID(b []byte) uint32 {
	switch {
	case v.ipv4:
		return uint32(be16(b, v.l3+4))
	case has(b, v.fragmentAt+4, 4):
		return binary.BigEndian.Uint32(b[v.fragmentAt+4:])
	}
	return 0
}
