package answer

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/miekg/dns"

	"baton/nameserver/zone"
)

// Route chooses addresses for a client. It is called from many goroutines.
type Route interface {
	Choose(Asked, *Choice)
}

// Asked is a question for the addresses of a routed name.
type Asked struct {
	Client   netip.Addr // of the client's network, or the resolver
	Subnet   bool       // Client came with the query
	Bits     int        // of Client that are known: fewer than all for a client subnet
	Resolver netip.Addr
	Kind     uint16
	Dry      bool   // only to explain
	Name     []byte // in wire form, in lower case; valid during the call only
}

// Choice is the addresses for a client.
type Choice struct {
	V4, V6 []netip.Addr
	TTL    uint32
	Scope  int    // for how long a prefix of the client's the choice holds (RFC 7871); 0: for all
	Params []byte // of HTTPS records, in wire form, below those of the addresses; nil: there are none
	Fail   bool   // there is nothing to answer with: SERVFAIL
}

// choose fills the worker's choice.
func (w *Worker) choose(route Route) {
	c := &w.choice
	*c = Choice{V4: c.V4[:0], V6: c.V6[:0]}
	a := w.asked()
	route.Choose(a, c)
	if !a.Subnet {
		c.Scope = 0 // it was chosen by the resolver's address
		return
	}
	w.Counts.Subnets.Add(1)
}

// asked is the question to a route.
func (w *Worker) asked() Asked {
	r := &w.r
	a := Asked{Kind: r.kind, Dry: w.dry, Resolver: r.from.Addr().Unmap(), Name: r.key[:r.name]}
	a.Client, a.Bits = a.Resolver, a.Resolver.BitLen()
	if r.subnet.given && r.subnet.addr.IsValid() && w.s.o.Subnet {
		a.Client, a.Bits, a.Subnet = r.subnet.addr, int(r.subnet.source), true
	}
	return a
}

// none reports whether there is no record of a type.
func (c *Choice) none(kind uint16) bool {
	switch kind {
	case dns.TypeA:
		return len(c.V4) == 0
	case dns.TypeAAAA:
		return len(c.V6) == 0
	}
	return c.Params == nil
}

// Lengths of records with a pointer as the owner, without data, and of hints without addresses.
const (
	recordHeader = 12
	httpsStart   = 3
	hintHeader   = 4
)

// size is how many octets the records have.
func (c *Choice) size(kind uint16) int {
	switch kind {
	case dns.TypeA:
		return len(c.V4) * (recordHeader + net.IPv4len)
	case dns.TypeAAAA:
		return len(c.V6) * (recordHeader + net.IPv6len)
	}
	return recordHeader + c.httpsData()
}

func (c *Choice) httpsData() int {
	n := httpsStart + len(c.Params)
	if len(c.V4) > 0 {
		n += hintHeader + len(c.V4)*net.IPv4len
	}
	if len(c.V6) > 0 {
		n += hintHeader + len(c.V6)*net.IPv6len
	}
	return n
}

// addresses adds the records for the client behind a template's answer of n octets.
func (w *Worker) addresses(out []byte, n int, t *template) int {
	c, owner := &w.choice, t.owner
	if owner != header {
		owner += w.r.name - t.name
	}
	record := func(length int) []byte {
		o := out[n:]
		binary.BigEndian.PutUint16(o, 0xc000|uint16(owner))
		binary.BigEndian.PutUint16(o[2:], w.r.kind)
		binary.BigEndian.PutUint16(o[4:], dns.ClassINET)
		binary.BigEndian.PutUint32(o[6:], c.TTL)
		binary.BigEndian.PutUint16(o[10:], uint16(length))
		n += recordHeader + length
		addCount(out, 6, 1)
		return o[recordHeader:]
	}
	switch w.r.kind {
	case dns.TypeA:
		for _, a := range c.V4 {
			b := a.As4()
			copy(record(net.IPv4len), b[:])
		}
	case dns.TypeAAAA:
		for _, a := range c.V6 {
			b := a.As16()
			copy(record(net.IPv6len), b[:])
		}
	default:
		c.https(record(c.httpsData())[:0])
	}
	return n
}

// https appends the data of an HTTPS record for the name itself, with the addresses as hints (RFC 9460).
func (c *Choice) https(to []byte) {
	to = append(to, 0, 1, 0)
	to = append(to, c.Params...)
	if len(c.V4) > 0 {
		to = binary.BigEndian.AppendUint16(to, uint16(dns.SVCB_IPV4HINT))
		to = binary.BigEndian.AppendUint16(to, uint16(len(c.V4)*net.IPv4len))
		for _, a := range c.V4 {
			b := a.As4()
			to = append(to, b[:]...)
		}
	}
	if len(c.V6) > 0 {
		to = binary.BigEndian.AppendUint16(to, uint16(dns.SVCB_IPV6HINT))
		to = binary.BigEndian.AppendUint16(to, uint16(len(c.V6)*net.IPv6len))
		for _, a := range c.V6 {
			b := a.As16()
			to = append(to, b[:]...)
		}
	}
}

// records are the choice as the library has them, for answers that are signed.
func (c *Choice) records(owner string, kind uint16) ([]dns.RR, error) {
	if c.none(kind) {
		return nil, nil
	}
	h := dns.RR_Header{Name: owner, Rrtype: kind, Class: dns.ClassINET, Ttl: c.TTL}
	var all []dns.RR
	switch kind {
	case dns.TypeA:
		for _, a := range c.V4 {
			all = append(all, &dns.A{Hdr: h, A: a.AsSlice()})
		}
	case dns.TypeAAAA:
		for _, a := range c.V6 {
			all = append(all, &dns.AAAA{Hdr: h, AAAA: a.AsSlice()})
		}
	default:
		data := make([]byte, c.httpsData())
		c.https(data[:0])
		h.Rdlength = uint16(len(data))
		rr, _, err := dns.UnpackRRWithHeader(h, data, 0)
		if err != nil {
			return nil, err
		}
		all = append(all, rr)
	}
	return all, nil
}

// lastOwner is the text of the name behind all aliases.
func lastOwner(r *zone.Result, asked string) string {
	if n := len(r.Answer); n > 0 {
		if alias, ok := r.Answer[n-1].(*dns.CNAME); ok {
			return alias.Target
		}
	}
	return asked
}
