package splice

import (
	"encoding/binary"

	"baton/packet"
)

// Translate translates an Ethernet frame from the direction's sender for its receiver, in place. It does not check the tuple, by
// which the caller found the direction. Unless it returns [Translated], no byte has changed.
func (d Direction) Translate(frame []byte) Reason { return d.translate(frame, false) }

// TranslatePartial is Translate for a packet with CHECKSUM_PARTIAL, whose checksum field covers only the pseudo header.
func (d Direction) TranslatePartial(frame []byte) Reason { return d.translate(frame, true) }

func (d Direction) translate(frame []byte, partial bool) Reason {
	f, reason := parseTCP(frame)
	if reason != Translated {
		return reason
	}
	if f.Family != d.family() {
		return WrongFamily
	}
	tcp := f.TCP()
	if tcp.Flags().Has(packet.SYN) {
		return SYN
	}
	if f.TTL() <= 1 {
		return TTL
	}
	if !translatable(tcp.Options()) {
		return BadOptions
	}
	if tcp.Flags()&(packet.ACK|packet.RST) == 0 {
		return NoACK
	}

	before := append([]byte(nil), tcp...)
	oldAddresses, newAddresses := d.rewriteIP(f)
	d.rewritePorts(tcp)
	d.numbers().apply(tcp)
	tcp.ClearUrgent()
	if partial {
		tcp.SetChecksum(packet.UpdatePartial(tcp.Checksum(), oldAddresses, newAddresses))
		return Translated
	}
	sum := packet.UpdateChecksum(tcp.Checksum(), oldAddresses, newAddresses)
	tcp.SetChecksum(packet.UpdateChecksum(sum, before, tcp))
	return Translated
}

// parseTCP parses a frame with a TCP header, or returns the reason why it cannot.
func parseTCP(frame []byte) (packet.Frame, Reason) {
	f, err := packet.Parse(frame)
	isICMP := f.Family != 0 && (f.Protocol == packet.ProtocolICMP || f.Protocol == packet.ProtocolICMPv6)
	switch {
	case isICMP, err == nil && f.Protocol != packet.ProtocolTCP:
		return f, NotTCP
	case err != nil:
		return f, reasonOf(err)
	}
	return f, Translated
}

// family is 0 for a direction not made by New from complete legs of one family: it translates nothing.
func (d Direction) family() packet.Family {
	src, dst := d.Rewrite.Src.Addr(), d.Rewrite.Dst.Addr()
	switch {
	case src.Is4() && dst.Is4():
		return packet.FamilyIPv4
	case src.Is6() && dst.Is6():
		return packet.FamilyIPv6
	}
	return 0
}

// rewriteIP replaces the Ethernet and IP addresses, counts the hop and keeps the IPv4 checksum. It returns the IP
// addresses as the pseudo header has them, before and after.
func (d Direction) rewriteIP(f packet.Frame) (oldAddresses, newAddresses []byte) {
	f.Ethernet().SetDst(d.DstMAC)
	f.Ethernet().SetSrc(d.SrcMAC)
	before := append([]byte(nil), f.Bytes[f.L3:f.L4]...)
	if f.Family == packet.FamilyIPv6 {
		ip := f.IPv6()
		ip.SetHopLimit(ip.HopLimit() - 1)
		ip.SetSrc(d.Rewrite.Src.Addr())
		ip.SetDst(d.Rewrite.Dst.Addr())
		return before[8:40], ip[8:40]
	}
	ip := f.IPv4()
	ip.SetTTL(ip.TTL() - 1)
	ip.SetSrc(d.Rewrite.Src.Addr())
	ip.SetDst(d.Rewrite.Dst.Addr())
	ip.SetChecksum(packet.UpdateChecksum(ip.Checksum(), before, ip))
	return before[12:20], ip[12:20]
}

func (d Direction) rewritePorts(tcp packet.TCP) {
	tcp.SetSrcPort(d.Rewrite.Src.Port())
	tcp.SetDstPort(d.Rewrite.Dst.Port())
}

// numbers is the part of a translation that concerns the TCP header.
type numbers struct {
	seq, ack     uint32
	timestamps   Policy
	tsval, tsecr uint32
	sack         Policy
	window       Shifts
}

func (d Direction) numbers() numbers {
	return numbers{d.DeltaSeq, d.DeltaAck, d.Timestamps, d.DeltaTSval, d.DeltaTSecr, d.SACK, d.Window}
}

// apply translates the numbers of a whole TCP header with valid options; the checksum stays.
func (n numbers) apply(tcp packet.TCP) {
	tcp.SetSeq(tcp.Seq().Add(n.seq))
	hasAck := tcp.Flags().Has(packet.ACK)
	if hasAck {
		tcp.SetAck(tcp.Ack().Add(n.ack))
	}
	tcp.SetWindow(n.window.Apply(tcp.Window()))

	options := tcp.Options()
	for opt := range options.All() {
		switch opt.Kind {
		case packet.OptionTimestamps:
			if n.timestamps == Strip {
				blank(options, opt)
				continue
			}
			addTo(opt.Data, n.tsval)
			if hasAck {
				addTo(opt.Data[4:], n.tsecr)
			}
		case packet.OptionSACK:
			if n.sack == Strip {
				blank(options, opt)
				continue
			}
			for edge := 0; edge < len(opt.Data); edge += 4 {
				addTo(opt.Data[edge:], n.ack)
			}
		}
	}
}

// translatable reports whether all options can be parsed, and timestamps and SACK have a valid length.
func translatable(options packet.Options) bool {
	for opt, err := range options.All() {
		if err != nil {
			return false
		}
		switch opt.Kind {
		case packet.OptionTimestamps:
			if opt.Size() != packet.TimestampsSize {
				return false
			}
		case packet.OptionSACK:
			if len(opt.Data) == 0 || len(opt.Data)%packet.SACKBlockSize != 0 {
				return false
			}
		}
	}
	return true
}

func blank(options packet.Options, opt packet.Option) {
	for i := range opt.Size() {
		options[opt.Offset+i] = byte(packet.OptionNOP)
	}
}

// addTo adds n to the 32-bit big-endian number at the start of b.
func addTo(b []byte, n uint32) {
	binary.BigEndian.PutUint32(b, binary.BigEndian.Uint32(b)+n)
}
