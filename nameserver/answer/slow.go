package answer

import (
	"github.com/miekg/dns"

	"baton/nameserver/zone"
)

// slow makes an answer from records: one that is signed, or whose names do not fit a template.
func (w *Worker) slow(out []byte, z *compiled) int {
	r := &w.r
	w.Counts.Slow.Add(1)
	asked, _, err := dns.UnpackDomainName(r.raw, header)
	if err != nil {
		return w.refuse(out, dns.RcodeFormatError)
	}
	res := z.Data.Resolve(zone.Key(r.key[:r.name]), asked, r.kind)
	last, scope := lastOwner(&res, asked), 0
	if res.Routed {
		w.choose(z.Routes[res.Node.Routed])
		records, err := w.choice.records(last, r.kind)
		if err != nil || w.choice.Fail {
			return w.refuse(out, dns.RcodeServerFailure)
		}
		if scope = w.choice.Scope; records == nil {
			res.Negative, res.Nameserver = true, []dns.RR{z.Data.Negative}
		}
		res.Answer = append(res.Answer, records...)
	}
	if z.Signer != nil {
		z.Signer.Keys(z.Data, &res, r.kind, w.s.now())
	}
	k := kindOf(res)
	id := z.id
	if k == positive || k == nodata {
		id = hash64(r.key[:r.name], uint64(r.kind))
	}
	if w.spare(k, id) {
		return w.spared(out)
	}
	if z.Signer != nil && r.do {
		if err := z.Signer.Sign(z.Data, &res, last, r.kind, w.s.now()); err != nil {
			return w.refuse(out, dns.RcodeServerFailure)
		}
	}
	limit := w.limit()
	room := out[:limit-w.optionsSize()]
	m := message(asked, r.kind, res)
	raw, err := m.PackBuffer(room[:cap(room)])
	switch {
	case err != nil && limit == maxMessage:
		return w.refuse(out, dns.RcodeServerFailure)
	case err != nil || len(raw) > len(room):
		w.Counts.Truncated.Add(1)
		flags := byte(flagTC)
		if res.Authority {
			flags |= flagAA
		}
		return w.short(out, flags, byte(res.Code))
	}
	copy(out, raw) // it is in out already but for long messages
	out[0], out[1] = r.raw[0], r.raw[1]
	out[2] |= r.raw[2] & flagRD
	w.Counts.Kinds[k].Add(1)
	return w.options(out, len(raw), 0, scope)
}
