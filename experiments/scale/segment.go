package scale

import (
	"encoding/binary"

	"baton/packet"
)

// Where the headers are in the frames that the end points send and take: Ethernet, IPv4 and TCP, no IP options.
const (
	atIP      = packet.EthernetSize
	atSource  = atIP + 12
	atTCP     = atIP + packet.IPv4Size
	atOptions = atTCP + packet.TCPSize
	maxFrame  = 1514
)

// endpoint is an IPv4 address and port, as a number that can be computed with.
type endpoint struct {
	address uint32
	port    uint16
}

// segment is a TCP segment as it is put into a frame, or was found in one.
type segment struct {
	from, to       endpoint
	seq, ack       uint32
	flags          packet.Flags
	options        options
	tsval, tsecr   uint32
	payload        []byte
	destinationMAC packet.MAC
	sourceMAC      packet.MAC
}

// options are those that the two ends agree on, as Linux does by default.
type options uint8

const (
	timestamps  options = 1 << iota
	negotiation         // MSS, and with it SACK and window scaling: of a SYN
)

const (
	mss         = 1460
	windowShift = 7
	window      = 0xffff
)

// put writes the frame and returns its length.
func (s *segment) put(frame []byte) int {
	ethernet := packet.Ethernet(frame)
	ethernet.SetDst(s.destinationMAC)
	ethernet.SetSrc(s.sourceMAC)
	ethernet.SetType(packet.EtherTypeIPv4)

	tcp := packet.TCP(frame[atTCP:])
	list := packet.Options(frame[atOptions:atOptions])
	if s.options&negotiation != 0 {
		list = list.AppendMSS(mss).AppendSACKPermitted()
	}
	if s.options&timestamps != 0 {
		if s.options&negotiation == 0 {
			list = list.AppendNOP(2)
		}
		list = list.AppendTimestamps(s.tsval, s.tsecr)
	}
	if s.options&negotiation != 0 {
		list = list.AppendNOP(1).AppendWindowScale(windowShift)
	}
	for len(list)%4 != 0 {
		list = list.AppendNOP(1)
	}
	headers := packet.TCPSize + len(list)
	length := headers + copy(frame[atTCP+headers:], s.payload)
	tcp.SetSrcPort(s.from.port)
	tcp.SetDstPort(s.to.port)
	tcp.SetSeq(packet.Seq(s.seq))
	tcp.SetAck(packet.Seq(s.ack))
	tcp[12] = byte(headers / 4 << 4)
	tcp.SetFlags(s.flags)
	tcp.SetWindow(window)
	tcp.SetChecksum(0)
	binary.BigEndian.PutUint16(tcp[18:], 0) // no urgent data

	ip := packet.IPv4(frame[atIP:])
	copy(ip, []byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, packet.DefaultTTL, byte(packet.ProtocolTCP), 0, 0})
	ip.SetTotalLen(packet.IPv4Size + length)
	binary.BigEndian.PutUint32(frame[atSource:], s.from.address)
	binary.BigEndian.PutUint32(frame[atSource+4:], s.to.address)
	ip.SetChecksum(packet.Checksum(frame[atIP:atTCP], 0))
	pseudo := packet.Sum(frame[atSource:atTCP], uint16(packet.ProtocolTCP)+uint16(length))
	tcp.SetChecksum(packet.Checksum(frame[atTCP:atTCP+length], pseudo))
	return atTCP + length
}

// take reads a frame; false: it is no whole TCP segment over IPv4. The payload stays in the frame. Checksums are the receiver's
// affair who pays for an error: here that is nobody.
func (s *segment) take(frame []byte) bool {
	if len(frame) < atOptions || packet.Ethernet(frame).Type() != packet.EtherTypeIPv4 || frame[atIP] != 0x45 ||
		packet.Protocol(frame[atIP+9]) != packet.ProtocolTCP {
		return false
	}
	tcp := packet.TCP(frame[atTCP:])
	end := atIP + packet.IPv4(frame[atIP:]).TotalLen()
	data := atTCP + tcp.HeaderLen()
	if end > len(frame) || data > end || tcp.HeaderLen() < packet.TCPSize {
		return false
	}
	s.destinationMAC, s.sourceMAC = packet.Ethernet(frame).Dst(), packet.Ethernet(frame).Src()
	s.from = endpoint{binary.BigEndian.Uint32(frame[atSource:]), tcp.SrcPort()}
	s.to = endpoint{binary.BigEndian.Uint32(frame[atSource+4:]), tcp.DstPort()}
	s.seq, s.ack, s.flags = uint32(tcp.Seq()), uint32(tcp.Ack()), tcp.Flags()
	s.payload = frame[data:end]
	s.options = 0
	list := packet.Options(frame[atOptions:data])
	// Nearly every segment has what Linux sends: two NOPs and timestamps.
	if len(list) == 12 && binary.BigEndian.Uint32(list) == 0x0101080a {
		s.options, s.tsval, s.tsecr = timestamps, binary.BigEndian.Uint32(list[4:]), binary.BigEndian.Uint32(list[8:])
		return true
	}
	if _, ok := list.MSS(); ok {
		s.options |= negotiation
	}
	var ok bool
	if s.tsval, s.tsecr, ok = list.Timestamps(); ok {
		s.options |= timestamps
	}
	return true
}

// reply is a segment the other way that acknowledges all of this one.
func (s *segment) reply(flags packet.Flags, tsval uint32) segment {
	length := uint32(len(s.payload))
	if s.flags.Has(packet.SYN) {
		length++
	}
	if s.flags.Has(packet.FIN) {
		length++
	}
	return segment{from: s.to, to: s.from, seq: s.ack, ack: s.seq + length, flags: flags, options: s.options & timestamps,
		tsval: tsval, tsecr: s.tsval, destinationMAC: s.sourceMAC, sourceMAC: s.destinationMAC}
}
