package packet

import (
	"encoding/binary"
	"strings"
)

// TCPSize is the size of a TCP header without options, in bytes.
const TCPSize = 20

// Flags are the control bits of a TCP header (RFC 9293 section 3.1; ECE and CWR from RFC 3168).
type Flags uint8

// The control bits.
const (
	FIN Flags = 1 << iota
	SYN
	RST
	PSH
	ACK
	URG
	ECE
	CWR
)

// Has reports whether all bits of want are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

func (f Flags) String() string {
	var names []string
	for i, name := range []string{"FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"} {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, "|")
}

// TCP is a view of a TCP header: at least TCPSize bytes, and HeaderLen bytes where options are read.
type TCP []byte

// SrcPort returns the source port.
func (h TCP) SrcPort() uint16 { return binary.BigEndian.Uint16(h) }

// DstPort returns the destination port.
func (h TCP) DstPort() uint16 { return binary.BigEndian.Uint16(h[2:]) }

// Seq returns the sequence number.
func (h TCP) Seq() Seq { return Seq(binary.BigEndian.Uint32(h[4:])) }

// Ack returns the acknowledgement number, which means something only when the ACK flag is set.
func (h TCP) Ack() Seq { return Seq(binary.BigEndian.Uint32(h[8:])) }

// HeaderLen returns the length of the header in bytes as the header itself states it.
func (h TCP) HeaderLen() int { return int(h[12]>>4) * 4 }

// Flags returns the control bits.
func (h TCP) Flags() Flags { return Flags(h[13]) }

// Window returns the window field, not scaled.
func (h TCP) Window() uint16 { return binary.BigEndian.Uint16(h[14:]) }

// Checksum returns the checksum field.
func (h TCP) Checksum() uint16 { return binary.BigEndian.Uint16(h[16:]) }

// ClearUrgent takes back what marks bytes as urgent: the flag and the pointer. The checksum stays.
func (h TCP) ClearUrgent() {
	h[13] &^= byte(URG)
	h[18], h[19] = 0, 0
}

// Urgent returns the urgent pointer.
func (h TCP) Urgent() uint16 { return binary.BigEndian.Uint16(h[18:]) }

// Options returns the options, padding included; empty when the header is shorter than it states.
func (h TCP) Options() Options {
	if len(h) < TCPSize { // in a quotation
		return nil
	}
	end := h.HeaderLen()
	if end < TCPSize || end > len(h) {
		return nil
	}
	return Options(h[TCPSize:end:end])
}

// SetSrcPort replaces the source port. No setter touches the checksum.
func (h TCP) SetSrcPort(p uint16) { binary.BigEndian.PutUint16(h, p) }

// SetDstPort replaces the destination port.
func (h TCP) SetDstPort(p uint16) { binary.BigEndian.PutUint16(h[2:], p) }

// SetSeq replaces the sequence number.
func (h TCP) SetSeq(s Seq) { binary.BigEndian.PutUint32(h[4:], uint32(s)) }

// SetAck replaces the acknowledgement number.
func (h TCP) SetAck(s Seq) { binary.BigEndian.PutUint32(h[8:], uint32(s)) }

// SetFlags replaces the control bits.
func (h TCP) SetFlags(f Flags) { h[13] = byte(f) }

// SetWindow replaces the window field.
func (h TCP) SetWindow(w uint16) { binary.BigEndian.PutUint16(h[14:], w) }

// SetChecksum replaces the checksum field.
func (h TCP) SetChecksum(c uint16) { binary.BigEndian.PutUint16(h[16:], c) }
