package splice

import (
	"encoding/binary"

	"baton/packet"
)

// ClampMSS lowers the MSS option of a SYN or SYN-ACK to limit bytes, in place, so that the segments that its receiver
// will send fit the other leg too. An MSS that is no larger stays, and so does a SYN without the option, which
// allows 536 bytes over IPv4 and 1220 over IPv6 (RFC 9293 section 3.7.1). It returns [Translated] for every SYN whose
// options can be read, [NotSYN] for a TCP packet that is none; otherwise the reasons of Translate but TTL.
func ClampMSS(frame []byte, limit uint16) Reason {
	return clampMSS(frame, limit, false)
}

// ClampMSSPartial is ClampMSS for a packet with CHECKSUM_PARTIAL.
func ClampMSSPartial(frame []byte, limit uint16) Reason { return clampMSS(frame, limit, true) }

func clampMSS(frame []byte, limit uint16, partial bool) Reason {
	f, reason := parseTCP(frame)
	if reason != Translated {
		return reason
	}
	tcp := f.TCP()
	if !tcp.Flags().Has(packet.SYN) {
		return NotSYN
	}
	options := tcp.Options()
	if options.Check() != nil {
		return BadOptions
	}
	before := append([]byte(nil), tcp...)
	for opt := range options.All() {
		if opt.Kind == packet.OptionMSS && opt.Size() == packet.MSSSize && binary.BigEndian.Uint16(opt.Data) > limit {
			binary.BigEndian.PutUint16(opt.Data, limit)
		}
	}
	if !partial {
		tcp.SetChecksum(packet.UpdateChecksum(tcp.Checksum(), before, tcp))
	}
	return Translated
}
