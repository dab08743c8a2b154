package answer

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"baton/nameserver/zone"
)

// transferMessage is how long a message of a transfer is at most, in octets: pointers reach names in the first 16 KiB alone.
const transferMessage = 16 << 10

// Transfer answers a query over TCP if it asks for a whole zone and the client may have it: it writes one message after the other, each in
// out. A question for the changes of a zone gets all of it, too (RFC 1995, section 4). Routed names and signatures are made for each question, and are not in
// it.
func (w *Worker) Transfer(query []byte, from netip.AddrPort, out []byte, write func([]byte) error) (done bool, err error) {
	r := &w.r
	if r.read(query, from, true) != 0 || r.class != dns.ClassINET || r.kind != dns.TypeAXFR && r.kind != dns.TypeIXFR {
		return false, nil
	}
	z := w.s.tables.Load().zones[zone.Key(r.key[:r.name])]
	if z == nil || !slices.ContainsFunc(z.Transfer, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) }) {
		return false, nil // Handle refuses it
	}
	w.Counts.Queries.Add(1)
	w.Counts.Transfers.Add(1)
	asked, _, err := dns.UnpackDomainName(r.raw, header)
	if err != nil {
		return true, err
	}
	m := &dns.Msg{
		MsgHdr:   dns.MsgHdr{Id: binary.BigEndian.Uint16(query), Response: true, Authoritative: true},
		Compress: true, Question: []dns.Question{{Name: asked, Qtype: r.kind, Qclass: dns.ClassINET}},
	}
	size := header + r.name + fixed
	flush := func() error {
		raw, err := m.PackBuffer(out)
		if err == nil {
			err = write(raw)
		}
		m.Answer, m.Question, size = m.Answer[:0], nil, header
		return err
	}
	add := func(rr dns.RR) bool {
		n := dns.Len(rr)
		if size+n > transferMessage && len(m.Answer) > 0 {
			if err = flush(); err != nil {
				return false
			}
		}
		m.Answer, size = append(m.Answer, rr), size+n
		return true
	}
	z.Data.All(add)
	if err == nil && add(z.Data.SOA) {
		err = flush()
	}
	return true, err
}
