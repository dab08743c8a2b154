package splice

import "baton/packet"

// TranslateICMP translates, in place, an ICMP error about a packet of the other direction, so that the packet's sender, which
// is this direction's receiver, can match it with its own session: errors from the surrogate's side about packets of ToServer
// belong to ToClient. It handles destination unreachable (with "fragmentation needed"), packet too big, and time exceeded.
//
// The outer addresses and TTL are rewritten as in any packet, so that the error seems to come from the receiver's peer. In the
// quotation, addresses, ports and seq are restored to what the receiver had sent: equations 1 to 4 backwards. If the TCP header
// is quoted completely, so are ack, window, timestamps, SACK edges and checksum; otherwise the bytes after seq stay. The quoted
// TTL stays; a stripped option cannot be restored; a window is exact up to rounding. The MTU stays, as both legs have the same
// headers, but is at least [LeastMTU].
//
// All checksums are updated by the difference: the quoted IPv4 header's, the quoted TCP's, and the ICMP message's own.
// Unless it returns [Translated] no byte has changed.
func (d Direction) TranslateICMP(frame []byte) Reason {
	f, err := packet.Parse(frame)
	if err != nil {
		return reasonOf(err)
	}
	q, err := f.Quote()
	if err != nil {
		return reasonOf(err)
	}
	if reason := d.admitQuote(f, q); reason != Translated {
		return reason
	}

	message := f.ICMP()
	before := append([]byte(nil), message...)
	oldAddresses, newAddresses := d.rewriteIP(f)
	d.restore(q)
	boundMTU(message, f.Family)
	sum := message.Checksum()
	if f.Family == packet.FamilyIPv6 { // whose checksum covers the pseudo header
		sum = packet.UpdateChecksum(sum, oldAddresses, newAddresses)
	}
	message.SetChecksum(packet.UpdateChecksum(sum, before, message))
	return Translated
}

// LeastMTU is the smallest path MTU that is passed on, in bytes, as the receiver applies it to all clients. Linux accepts none
// below 552 for IPv4 (min_pmtu); the minimum of IPv6 is 1280 (RFC 8200 section 5).
func LeastMTU(f packet.Family) uint32 {
	if f == packet.FamilyIPv4 {
		return 552
	}
	return 1280
}

// boundMTU raises a reported MTU to the least. The checksum stays.
func boundMTU(message packet.ICMP, f packet.Family) {
	if told := message.MTU(f); message.TellsMTU(f) && told > 0 && told < LeastMTU(f) {
		message.SetMTU(f, LeastMTU(f))
	}
}

func (d Direction) admitQuote(f packet.Frame, q packet.Quote) Reason {
	if q.Protocol != packet.ProtocolTCP {
		return NotTCP
	}
	if f.Family != d.family() {
		return WrongFamily
	}
	if q.Src.Addr() != f.Dst.Addr() {
		return BadQuote
	}
	if q.Whole && q.TCP().Flags().Has(packet.SYN) {
		return SYN
	}
	if f.TTL() <= 1 {
		return TTL
	}
	if q.Whole && !translatable(q.TCP().Options()) {
		return BadOptions
	}
	return Translated
}

// restore undoes the other direction's translation of the quoted packet.
func (d Direction) restore(q packet.Quote) {
	source, destination := d.Rewrite.Dst, d.Rewrite.Src
	before := append([]byte(nil), q.Bytes[q.L3:q.Data]...)
	header := q.Bytes[q.L3:q.Data]
	addresses := 8 // offset in the IP header
	if q.Family == packet.FamilyIPv4 {
		addresses = 12
		q.IPv4().SetSrc(source.Addr())
		q.IPv4().SetDst(destination.Addr())
		q.IPv4().SetChecksum(packet.UpdateChecksum(q.IPv4().Checksum(), before[:packet.IPv4Size], q.IPv4()))
	} else {
		q.IPv6().SetSrc(source.Addr())
		q.IPv6().SetDst(destination.Addr())
	}
	tcp := q.TCP()
	tcp.SetSrcPort(source.Port())
	tcp.SetDstPort(destination.Port())
	if !q.Whole {
		tcp.SetSeq(tcp.Seq().Add(d.DeltaAck))
		return
	}
	// The other direction added -DeltaAck to seq (equations 1 and 2), -DeltaSeq to ack (3 and 4), and so on.
	inverse := numbers{d.DeltaAck, d.DeltaSeq, d.Timestamps, d.DeltaTSecr, d.DeltaTSval, d.SACK, d.QuotedWindow}
	inverse.apply(tcp)
	tcp.SetChecksum(packet.UpdateChecksum(tcp.Checksum(), before[addresses:], header[addresses:]))
}
