// Package sign signs answers when they are made (DNSSEC, RFC 4034), with the keys of a zone that are active at the time (RFC 6781, section 4.1), and denies
// what does not exist by compact records (RFC 9824): one NSEC record that covers the asked name alone, so that nobody can list a zone.
package sign

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"baton/nameserver/zone"
)

// How long a signature is valid, how long before it is made anew, and for clocks that are slow. It is longer than any TTL that is of use.
const (
	valid = 7 * 24 * time.Hour
	reuse = 24 * time.Hour
	slow  = time.Hour
)

// kept is how many signatures of a key are remembered. Those of names that do not exist are not: anybody can ask for any number of them.
const kept = 1 << 16

// Signer signs the answers of a zone.
type Signer struct {
	keys []*Key
	now  atomic.Pointer[phase]
}

// New returns the signer of a zone with the given keys.
func New(keys ...*Key) *Signer { return &Signer{keys: keys} }

// phase is what holds at a time: the phase that was asked for last, in most cases.
func (s *Signer) phase(now time.Time) *phase {
	if p := s.now.Load(); p != nil && p.covers(now) {
		return p
	}
	p := phaseOf(s.keys, now)
	s.now.Store(p)
	return p
}

// Makes reports whether a type's records are made of the keys.
func Makes(kind uint16) bool {
	return kind == dns.TypeDNSKEY || kind == dns.TypeCDS || kind == dns.TypeCDNSKEY
}

// Keys answers a question for the zone's keys, or for what the zone above is to take over of them, which are not in its file.
func (s *Signer) Keys(z *zone.Zone, r *zone.Result, kind uint16, now time.Time) {
	if !Makes(kind) || r.Last != z.Key || !r.Negative || r.Code != dns.RcodeSuccess {
		return
	}
	made := s.phase(now).records[kind]
	if len(made) == 0 {
		return
	}
	for _, rr := range made {
		one := dns.Copy(rr)
		*one.Header() = dns.RR_Header{Name: z.SOA.Hdr.Name, Rrtype: kind, Class: dns.ClassINET, Ttl: z.SOA.Hdr.Ttl}
		r.Answer = append(r.Answer, one)
	}
	r.Nameserver, r.Negative = nil, false
}

// Sign adds signatures and denials to an answer, if the zone has keys at the time. last is the text of the name at which the search ended.
func (s *Signer) Sign(z *zone.Zone, r *zone.Result, last string, kind uint16, now time.Time) error {
	p := s.phase(now)
	if !p.signed() {
		return nil
	}
	var err error
	if r.Answer, err = p.sets(r.Answer, now); err != nil {
		return err
	}
	switch {
	case r.Cut != nil:
		return p.refer(z, r, now)
	case !r.Negative:
		return nil
	}
	if r.Nameserver, err = p.sets(r.Nameserver, now); err != nil {
		return err
	}
	nothing := r.Code == dns.RcodeNameError
	types := []uint16{dns.TypeRRSIG, dns.TypeNSEC}
	if nothing {
		r.Code = dns.RcodeSuccess // RFC 9824, section 3.3: the record says so
		types = append(types, dns.TypeNXNAME)
	} else {
		types = append(types, p.typesOf(z, r, kind)...)
	}
	return p.deny(z, r, last, types, !nothing, now)
}

// typesOf are the types that a name has beside the one that was asked for.
func (p *phase) typesOf(z *zone.Zone, r *zone.Result, kind uint16) []uint16 {
	types := r.Node.Types()
	if r.Node.Routed != "" {
		for _, routed := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeHTTPS} {
			if routed != kind {
				types = append(types, routed)
			}
		}
	}
	if r.Last == z.Key {
		for made := range p.records {
			types = append(types, made)
		}
	}
	return types
}

// refer adds the DS records of a delegation, or that it has none.
func (p *phase) refer(z *zone.Zone, r *zone.Result, now time.Time) error {
	if ds := r.Cut.Set(dns.TypeDS); ds != nil {
		signed, err := p.sets(ds, now)
		r.Nameserver = append(r.Nameserver, signed...)
		return err
	}
	return p.deny(z, r, r.Cut.Name, []uint16{dns.TypeNS, dns.TypeRRSIG, dns.TypeNSEC}, true, now)
}

func (p *phase) deny(z *zone.Zone, r *zone.Result, name string, types []uint16, keep bool, now time.Time) error {
	slices.Sort(types)
	next := `\000.` + name
	if name == "." {
		next = `\000.`
	}
	denial := []dns.RR{&dns.NSEC{
		Hdr:        dns.RR_Header{Name: name, Rrtype: dns.TypeNSEC, Class: dns.ClassINET, Ttl: z.Negative.Hdr.Ttl},
		NextDomain: next, TypeBitMap: slices.Compact(types),
	}}
	if keep {
		signed, err := p.sets(denial, now)
		r.Nameserver = append(r.Nameserver, signed...)
		return err
	}
	r.Nameserver = append(r.Nameserver, denial...)
	for _, by := range p.data {
		sig, err := by.sign(by.record, denial, now)
		if err != nil {
			return err
		}
		r.Nameserver = append(r.Nameserver, sig)
	}
	return nil
}

// sets returns records with the signatures behind each set of them.
func (p *phase) sets(all []dns.RR, now time.Time) ([]dns.RR, error) {
	var out []dns.RR
	for len(all) > 0 {
		n, h := 1, all[0].Header()
		for n < len(all) && all[n].Header().Rrtype == h.Rrtype && strings.EqualFold(all[n].Header().Name, h.Name) {
			n++
		}
		out = append(out, all[:n]...)
		signers := p.data
		if Makes(h.Rrtype) {
			signers = p.top
		}
		for _, by := range signers {
			sig, err := by.remembered(by.record, all[:n], now)
			if err != nil {
				return nil, err
			}
			out = append(out, sig)
		}
		all = all[n:]
	}
	return out, nil
}
