package model

import (
	"encoding/binary"
	"hash/crc32"

	"baton/packet"
)

// What a change may concern: the checksum of IPv4's header, that of the transport by its pseudo header or by itself.
const (
	sumIP = 1 << iota
	sumPseudo
	sumL4
)

// keeping makes a change, which leaves headers where they are, and keeps checksums right. It reports whether that was possible: a checksum that
// has been cut off the frame cannot be.
func (p *state) keeping(which int, change func(b []byte)) bool {
	v := look(p.frame)
	at := v.checksum()
	if which&sumPseudo != 0 && !v.sctp && !v.icmp { // they have none
		which |= sumL4
	}
	if which&sumL4 != 0 && at > 0 && !has(p.frame, at, 2) {
		return false
	}
	if which&sumL4 != 0 && v.sctp && !v.fragment && !has(p.frame, v.l4+8, 4) {
		return false
	}
	header, before, crc := v.header(p.frame), v.segment(p.frame, at), v.crc(p.frame)
	change(p.frame)
	if which&sumIP != 0 && v.ipv4 {
		adjust(p.frame[v.l3+10:], header, v.header(p.frame))
	}
	if which&sumL4 != 0 && v.sctp && !v.fragment {
		field := p.frame[v.l4+8:]
		binary.LittleEndian.PutUint32(field, binary.LittleEndian.Uint32(field)^crc^v.crc(p.frame))
	}
	if which&sumL4 == 0 || at == 0 || v.udp && be16(p.frame, at) == 0 {
		return true
	}
	adjust(p.frame[at:], before, v.segment(p.frame, at))
	if v.udp && be16(p.frame, at) == 0 {
		binary.BigEndian.PutUint16(p.frame[at:], 0xffff) // 0 would say that there is none (RFC 768)
	}
	return true
}

// checksum is where the transport's is, 0 if there is no such transport.
func (v *view) checksum() int {
	switch {
	case v.tcp:
		return v.l4 + 16
	case v.udp:
		return v.l4 + 6
	case v.icmp, v.icmpv6:
		return v.l4 + 2
	}
	return 0
}

// header sums up IPv4's header without its checksum.
func (v *view) header(b []byte) uint16 {
	if !v.ipv4 {
		return 0
	}
	end := min(v.l4, len(b))
	return packet.Sum(b[v.l3+12:end], packet.Sum(b[v.l3:v.l3+10], 0))
}

// segment sums up the transport from its header to the end of the frame, without its checksum, which is at at; and its pseudo header
// but for the length, which never changes.
func (v *view) segment(b []byte, at int) uint16 {
	if at == 0 || !has(b, at, 2) {
		return 0
	}
	sum := packet.Sum(b[at+2:], packet.Sum(b[v.l4:at], 0))
	switch {
	case v.icmp:
		return sum
	case v.ipv4:
		return packet.Sum([]byte{0, b[v.l3+9]}, packet.Sum(b[v.l3+12:v.l3+20], sum))
	}
	protocol := byte(v.protocol)
	if len(v.extensions) == 0 {
		protocol = b[v.l3+6]
	}
	return packet.Sum([]byte{0, protocol}, packet.Sum(b[v.l3+8:v.l3+40], sum))
}

// adjust changes the checksum that b begins with by the difference of what it covers.
func adjust(b []byte, before, after uint16) {
	pair := func(sum uint16) []byte { return []byte{byte(sum >> 8), byte(sum)} }
	binary.BigEndian.PutUint16(b, packet.UpdateChecksum(binary.BigEndian.Uint16(b), pair(before), pair(after)))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crc is SCTP's checksum (RFC 9260, 6.8), with zeros in its place. That of a fragment cannot be known.
func (v *view) crc(b []byte) uint32 {
	if !v.sctp {
		return 0
	}
	end := v.l3 + be16(b, v.l3+2)
	if v.ipv6 {
		end = v.l3 + packet.IPv6Size + be16(b, v.l3+4)
	}
	segment := append([]byte(nil), b[v.l4:max(min(end, len(b)), v.l4)]...)
	if len(segment) >= 12 {
		clear(segment[8:12])
	}
	return crc32.Checksum(segment, castagnoli)
}
