package answer

import (
	"encoding/binary"
	"fmt"

	"github.com/miekg/dns"

	"baton/nameserver/zone"
)

// template is an answer in wire form, made when the zone was read: for a question it is copied, and gets the question's own identifier, flag
// and letters. Where the same template serves longer names (below a delegation, a wildcard, or in no zone), pointers are moved by the difference.
type template struct {
	msg      []byte
	name     int      // length of its question's name
	pointers []uint16 // where pointers are that move
	kind     kind
	id       uint64 // of like answers, for limits

	// Of routed names: addresses for the client come behind msg, with the owner at this offset. negative is the answer if there are none.
	route    Route
	owner    int
	negative *template
}

// kind is what an answer is, for counters and for the limits of answers.
type kind uint8

const (
	positive kind = iota
	nodata
	nxdomain
	referral
	failure
	routed
	kinds // their number
)

// entry is what a name answers.
type entry struct {
	types []typed
	other *template // to questions for all other types
	slow  bool      // the answers are made from records for each question
	cut   bool      // it is delegated: other answers for names below, too
	wild  bool      // there is a wildcard below
}

type typed struct {
	kind uint16
	*template
}

func (e *entry) of(kind uint16) *template {
	for i := range e.types {
		if e.types[i].kind == kind {
			return e.types[i].template
		}
	}
	return e.other
}

// compiled is a zone, ready to answer.
type compiled struct {
	*Zone
	entries map[zone.Key]*entry
	none    *template // no such name
	id      uint64    // for the limits of answers
}

// compile makes the answers of a zone. The error names a set of records that fits no message.
func compile(z *Zone) (*compiled, error) {
	c := &compiled{Zone: z, entries: make(map[zone.Key]*entry, len(z.Data.Nodes)), id: hash64([]byte(z.Data.Key), 0)}
	for key, node := range z.Data.Nodes {
		e, err := c.entry(key, node)
		if err != nil {
			return nil, err
		}
		c.entries[key] = e
	}
	nothing := zone.Result{Code: dns.RcodeNameError, Authority: true, Nameserver: []dns.RR{z.Data.Negative}, Negative: true}
	var err error
	c.none, err = c.template(z.Data.Key, dns.TypeA, nothing, true)
	return c, err
}

// entry makes the answers of a name.
func (c *compiled) entry(key zone.Key, node *zone.Node) (*entry, error) {
	e := &entry{cut: node.Cut != nil, wild: c.Data.Nodes[key.Wild()] != nil}
	kinds := node.Types()
	if node.Cut != nil {
		kinds = []uint16{dns.TypeDS} // all else goes to the other name servers
	}
	if alias := node.Set(dns.TypeCNAME); alias != nil {
		kinds = append(kinds, c.behind(key)...)
	}
	if node.Routed != "" {
		kinds = append(kinds, dns.TypeA, dns.TypeAAAA, dns.TypeHTTPS)
	}
	moves := key.IsWild() || node.Cut != nil
	for _, kind := range append(kinds, dns.TypeANY) {
		t, err := c.make(key, kind, moves)
		if err != nil {
			return nil, err
		}
		e.slow = e.slow || t == nil
		e.types = append(e.types, typed{kind, t})
	}
	var err error
	e.other, err = c.make(key, dns.TypeNULL, moves)
	e.slow = e.slow || e.other == nil
	return e, err
}

// behind are the types of the name to which an alias leads.
func (c *compiled) behind(key zone.Key) []uint16 {
	r := c.Data.Resolve(key, key.String(), dns.TypeNULL)
	if r.Node == nil || r.Cut != nil {
		return nil
	}
	if r.Node.Routed != "" {
		return append(r.Node.Types(), dns.TypeA, dns.TypeAAAA, dns.TypeHTTPS)
	}
	return r.Node.Types()
}

// make makes a template, or returns nil if the message's compression pointers cannot be moved.
func (c *compiled) make(key zone.Key, kind uint16, moves bool) (*template, error) {
	r := c.Data.Resolve(key, key.String(), kind)
	t, err := c.template(key, kind, r, moves)
	if err != nil || t == nil || !r.Routed {
		return t, err
	}
	t.route, t.kind = c.Routes[r.Node.Routed], routed
	t.owner = header
	if n := len(r.Answer); n > 0 {
		t.owner = lastTarget(t.msg)
	}
	r.Routed, r.Negative = false, true
	r.Nameserver = []dns.RR{c.Data.Negative}
	t.negative, err = c.template(key, kind, r, moves)
	if t.negative == nil {
		return nil, err
	}
	return t, err
}

func (c *compiled) template(key zone.Key, kind uint16, r zone.Result, moves bool) (*template, error) {
	m := message(key.String(), kind, r)
	raw, err := m.Pack()
	if err != nil {
		return nil, fmt.Errorf("%s %s fits no message: %w", key, dns.TypeToString[kind], err)
	}
	t := &template{msg: raw, name: len(key), kind: kindOf(r), id: hash64([]byte(key), uint64(kind))}
	if t.kind == referral {
		t.id = hash64([]byte(r.Cut.Key), 0)
	}
	if !moves {
		return t, nil
	}
	owners, data, ok := pointersOf(raw)
	if !ok {
		return nil, nil
	}
	for _, at := range append(owners, data...) {
		to := binary.BigEndian.Uint16(raw[at:]) & 0x3fff
		if to > 0x3fff-maxName {
			return nil, nil // it might not reach any more
		}
		if !key.IsWild() || to != header {
			t.pointers = append(t.pointers, at)
		}
	}
	for _, at := range data {
		if key.IsWild() && binary.BigEndian.Uint16(raw[at:])&0x3fff == header {
			return nil, nil // it means the wildcard itself, and not the question's name
		}
	}
	return t, nil
}

// message is an answer as the library has it.
func message(name string, kind uint16, r zone.Result) *dns.Msg {
	m := &dns.Msg{
		MsgHdr:   dns.MsgHdr{Response: true, Authoritative: r.Authority, Rcode: r.Code},
		Compress: true,
		Question: []dns.Question{{Name: name, Qtype: kind, Qclass: dns.ClassINET}},
		Answer:   r.Answer, Ns: r.Nameserver, Extra: r.Additional,
	}
	return m
}

func kindOf(r zone.Result) kind {
	switch {
	case r.Code == dns.RcodeNameError:
		return nxdomain
	case r.Negative:
		return nodata
	case r.Cut != nil:
		return referral
	}
	return positive
}

// pointersOf finds the pointers of a message's records: those of owners, and those in their data. It fails if a name has no pointer at its end
// although it could be a suffix of the question's.
func pointersOf(raw []byte) (owners, data []uint16, ok bool) {
	_, at := skipName(raw, header)
	at += fixed
	records := 0
	for i := range 3 {
		records += int(binary.BigEndian.Uint16(raw[6+2*i:]))
	}
	for range records {
		owners = appendPointer(owners, raw, at)
		_, at = skipName(raw, at)
		kind, n := binary.BigEndian.Uint16(raw[at:]), int(binary.BigEndian.Uint16(raw[at+8:]))
		at += 10
		switch kind {
		case dns.TypeNS, dns.TypeCNAME, dns.TypePTR, dns.TypeMD, dns.TypeMF, dns.TypeMB, dns.TypeMG, dns.TypeMR:
			data = appendPointer(data, raw, at)
		case dns.TypeSOA, dns.TypeMINFO:
			data = appendPointer(data, raw, at)
			_, second := skipName(raw, at)
			data = appendPointer(data, raw, second)
		case dns.TypeMX:
			data = appendPointer(data, raw, at+2)
		}
		at += n
	}
	return owners, data, at == len(raw)
}

// appendPointer adds where the pointer of a name is, if it has one.
func appendPointer(to []uint16, raw []byte, at int) []uint16 {
	for raw[at] != 0 {
		if raw[at] >= 0xc0 {
			return append(to, uint16(at))
		}
		at += 1 + int(raw[at])
	}
	return to
}

// lastTarget is the offset of the name to which the last record, an alias, leads.
func lastTarget(raw []byte) int {
	_, at := skipName(raw, header)
	at += fixed
	target := 0
	for range binary.BigEndian.Uint16(raw[6:]) {
		_, at = skipName(raw, at)
		target = at + 10
		at = target + int(binary.BigEndian.Uint16(raw[at+8:]))
	}
	return target
}

// fill writes the answer to a question into out, which is long enough for it, and returns its length.
func (t *template) fill(out []byte, r *request) int {
	question := header + r.name + fixed
	moved := r.name - t.name
	copy(out, t.msg[:header])
	out[0], out[1] = r.raw[0], r.raw[1]
	out[2] |= r.raw[2] & flagRD
	copy(out[header:], r.raw[header:question])
	n := question + copy(out[question:], t.msg[header+t.name+fixed:])
	if moved > 0 {
		for _, at := range t.pointers {
			p := out[int(at)+moved:]
			binary.BigEndian.PutUint16(p, binary.BigEndian.Uint16(p)+uint16(moved))
		}
	}
	return n
}

// size is how long the answer will be.
func (t *template) size(r *request) int { return len(t.msg) + r.name - t.name }
