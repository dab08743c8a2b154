package answer

import (
	"encoding/binary"
	"net/netip"

	"github.com/miekg/dns"

	"baton/nameserver/zone"
)

// Parts of a message (RFC 1035, section 4.1), in octets.
const (
	header  = 12
	maxName = 255
	fixed   = 4  // type and class of a question
	least   = 17 // a header, a question for the root
)

// Flags of a message's third and fourth octet.
const (
	flagQR     = 1 << 7
	flagAA     = 1 << 2
	flagTC     = 1 << 1
	flagRD     = 1 << 0
	maskOpcode = 0x78
)

// Codes of EDNS options that are understood.
const (
	optionNSID   = 3
	optionSubnet = 8
	optionCookie = 10
)

// request is a query that was read.
type request struct {
	raw      []byte
	from     netip.AddrPort
	tcp      bool
	name     int // length of the question's name
	kind     uint16
	class    uint16
	key      [maxName]byte // the name in lower case
	question bool          // the question was read

	edns    bool
	size    int // of an answer over UDP
	version uint8
	do      bool
	nsid    bool
	subnet  subnet
	cookie  []byte // client's, and perhaps the server's
}

// subnet is a client subnet (RFC 7871).
type subnet struct {
	given  bool
	family uint16
	source uint8
	addr   netip.Addr // invalid: the family is unknown, or source is 0
	raw    [16]byte
	octets int
}

// refusal is why a query gets no answer but a code. 0 is none.
type refusal int

// drop is of what must not be answered at all.
const drop refusal = -1

// read reads a query. It never keeps more than raw itself.
func (r *request) read(raw []byte, from netip.AddrPort, tcp bool) refusal {
	r.raw, r.from, r.tcp = raw, from, tcp
	r.question, r.edns, r.do, r.nsid, r.version, r.cookie = false, false, false, false, 0, nil
	r.subnet.given = false
	r.name, r.size = 0, dns.MinMsgSize
	if len(raw) < header || raw[2]&flagQR != 0 {
		return drop // an answer, or noise: an answer to it could go on forever
	}
	if raw[2]&maskOpcode != 0 {
		return dns.RcodeNotImplemented
	}
	if binary.BigEndian.Uint16(raw[4:]) != 1 || len(raw) < least {
		return dns.RcodeFormatError
	}
	at := r.readName()
	if at == 0 || at+fixed > len(raw) {
		return dns.RcodeFormatError
	}
	r.kind, r.class = binary.BigEndian.Uint16(raw[at:]), binary.BigEndian.Uint16(raw[at+2:])
	r.question = true
	at += fixed
	before := int(binary.BigEndian.Uint16(raw[6:])) + int(binary.BigEndian.Uint16(raw[8:]))
	return r.records(at, before, int(binary.BigEndian.Uint16(raw[10:])))
}

// readName reads the question's name, which has no pointers: nothing is before it. It returns where it ends, or 0.
func (r *request) readName() int {
	at := header
	for {
		if at >= len(r.raw) {
			return 0
		}
		n := int(r.raw[at])
		if n == 0 {
			at++
			break
		}
		if n > 63 || at+1+n >= len(r.raw) || at+1+n-header >= maxName {
			return 0
		}
		at += 1 + n
	}
	r.name = at - header
	copy(r.key[:], r.raw[header:at])
	zone.Lower(r.key[:r.name])
	return at
}

// records passes over all records but the OPT, which it reads.
func (r *request) records(at, before, additional int) refusal {
	for i := range before + additional {
		root, next := skipName(r.raw, at)
		if next == 0 || next+10 > len(r.raw) {
			return dns.RcodeFormatError
		}
		kind, n := binary.BigEndian.Uint16(r.raw[next:]), int(binary.BigEndian.Uint16(r.raw[next+8:]))
		data := next + 10
		if data+n > len(r.raw) {
			return dns.RcodeFormatError
		}
		switch {
		case i < before:
		case kind == dns.TypeOPT && (r.edns || !root):
			return dns.RcodeFormatError // one, of the root (RFC 6891, section 6.1.1)
		case kind == dns.TypeOPT:
			r.edns = true
			r.size = max(int(binary.BigEndian.Uint16(r.raw[next+2:])), dns.MinMsgSize)
			r.version, r.do = r.raw[next+5], r.raw[next+6]&0x80 != 0
			if code := r.options(r.raw[data : data+n]); code != 0 {
				return code
			}
		case kind == dns.TypeTSIG:
			return dns.RcodeNotAuth // there are no keys (RFC 8945, section 5.2)
		}
		at = data + n
	}
	if r.edns && r.version != 0 {
		return dns.RcodeBadVers
	}
	return 0
}

// skipName returns where a name ends, and whether it is the root; 0 if it does not end.
func skipName(raw []byte, at int) (root bool, end int) {
	start := at
	for at < len(raw) {
		n := int(raw[at])
		switch {
		case n == 0:
			return at == start, at + 1
		case n >= 0xc0:
			return false, at + 2
		case n > 63:
			return false, 0
		}
		at += 1 + n
	}
	return false, 0
}

// options reads those that are understood.
func (r *request) options(raw []byte) refusal {
	for len(raw) > 0 {
		if len(raw) < 4 {
			return dns.RcodeFormatError
		}
		code, n := binary.BigEndian.Uint16(raw), int(binary.BigEndian.Uint16(raw[2:]))
		if 4+n > len(raw) {
			return dns.RcodeFormatError
		}
		value := raw[4 : 4+n]
		switch code {
		case optionNSID:
			r.nsid = true
		case optionCookie:
			if n != 8 && (n < 16 || n > 40) {
				return dns.RcodeFormatError // RFC 7873, section 5.2.2
			}
			r.cookie = value
		case optionSubnet:
			if !r.subnet.read(value) {
				return dns.RcodeFormatError
			}
		}
		raw = raw[4+n:]
	}
	return 0
}

// read reads a client subnet as RFC 7871, section 6, wants it: no bits behind the prefix, no more octets than it needs, no scope.
func (s *subnet) read(value []byte) bool {
	if len(value) < 4 || value[3] != 0 {
		return false
	}
	s.family, s.source = binary.BigEndian.Uint16(value), value[2]
	octets := value[4:]
	width := map4or6(s.family)
	if width == 0 || int(s.source) > width || len(octets) != (int(s.source)+7)/8 {
		return false
	}
	if rest := s.source % 8; rest != 0 && octets[len(octets)-1]<<rest != 0 {
		return false
	}
	s.raw = [16]byte{}
	s.octets = copy(s.raw[:], octets)
	s.given = true
	switch {
	case s.source == 0:
		s.addr = netip.Addr{}
	case width == 32:
		s.addr = netip.AddrFrom4([4]byte(s.raw[:4]))
	default:
		s.addr = netip.AddrFrom16(s.raw)
	}
	return true
}

// map4or6 is the width of an address family's addresses in bits; 0: it is unknown.
func map4or6(family uint16) int {
	switch family {
	case 1:
		return 32
	case 2:
		return 128
	}
	return 0
}
