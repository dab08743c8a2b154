package answer

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

const (
	optRecord  = 11 // an OPT record without options
	optHeader  = 4  // of an option
	cookieFull = 24 // the client's and the server's
)

// optionsSize is how many octets the OPT record of the answer will have.
func (w *Worker) optionsSize() int {
	r := &w.r
	if !r.edns {
		return 0
	}
	n := optRecord
	if r.version != 0 {
		return n
	}
	if r.cookie != nil && w.s.o.Cookies != nil {
		n += optHeader + cookieFull
	}
	if r.subnet.given && w.s.o.Subnet {
		n += optHeader + 4 + r.subnet.octets
	}
	if r.nsid && w.s.o.NSID != "" {
		n += optHeader + len(w.s.o.NSID)
	}
	return n
}

// options adds the OPT record if the query had one: the code's upper bits, and what was asked for. It returns the answer's length.
func (w *Worker) options(out []byte, n, upper, scope int) int {
	r := &w.r
	size := w.optionsSize()
	if size == 0 {
		return n
	}
	addCount(out, 10, 1)
	o := out[n : n+size]
	o[0] = 0
	binary.BigEndian.PutUint16(o[1:], dns.TypeOPT)
	binary.BigEndian.PutUint16(o[3:], uint16(w.s.o.Size))
	o[5], o[6], o[7], o[8] = byte(upper), 0, 0, 0
	if r.do {
		o[7] = 0x80
	}
	binary.BigEndian.PutUint16(o[9:], uint16(size-optRecord))
	o = o[optRecord:]
	if r.version != 0 {
		return n + size
	}
	if r.cookie != nil && w.s.o.Cookies != nil {
		option(o, optionCookie, cookieFull)
		copy(o[4:], r.cookie[:8])
		w.s.o.Cookies.make(o[12:12], r.cookie[:8], r.from.Addr(), w.s.now())
		o = o[optHeader+cookieFull:]
	}
	if r.subnet.given && w.s.o.Subnet {
		option(o, optionSubnet, 4+r.subnet.octets)
		binary.BigEndian.PutUint16(o[4:], r.subnet.family)
		o[6], o[7] = r.subnet.source, byte(scope)
		copy(o[8:], r.subnet.raw[:r.subnet.octets])
		o = o[optHeader+4+r.subnet.octets:]
	}
	if r.nsid && w.s.o.NSID != "" {
		option(o, optionNSID, len(w.s.o.NSID))
		copy(o[optHeader:], w.s.o.NSID)
	}
	return n + size
}

func option(o []byte, code, length int) {
	binary.BigEndian.PutUint16(o, uint16(code))
	binary.BigEndian.PutUint16(o[2:], uint16(length))
}
