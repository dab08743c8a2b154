package discover

import (
	"errors"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// udpSize is the largest answer over UDP that is asked for: it crosses every link without fragments (DNS flag day 2020).
const udpSize = 1232

// maxAliases bounds a chain of CNAME records.
const maxAliases = 16

// question is what is looked up.
type question struct {
	name string // without a dot at its end
	kind dnsmessage.Type
}

func (q question) String() string { return strings.TrimPrefix(q.kind.String(), "Type") + " " + q.name }

// target is a record of SRV.
type target struct {
	priority, weight, port uint16
	name                   string // "": the service is not offered (RFC 2782)
}

// answer is the records of a question.
type answer struct {
	addresses []netip.Addr
	targets   []target
	ttl       time.Duration // the smallest, also of the aliases
}

// packQuestion makes the query for a question.
func packQuestion(id uint16, q question) ([]byte, error) {
	name, err := dnsmessage.NewName(q.name + ".")
	if err != nil {
		return nil, err
	}
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: id, RecursionDesired: true})
	var h dnsmessage.ResourceHeader
	for _, step := range []func() error{
		b.StartQuestions,
		func() error {
			return b.Question(dnsmessage.Question{Name: name, Type: q.kind, Class: dnsmessage.ClassINET})
		},
		b.StartAdditionals,
		func() error { return h.SetEDNS0(udpSize, dnsmessage.RCodeSuccess, false) },
		func() error { return b.OPTResource(h, dnsmessage.OPTResource{}) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// answers reports whether a message answers the query: others may be of an earlier query, or forged.
func answers(message []byte, id uint16, q question) (p dnsmessage.Parser, h dnsmessage.Header, ok bool) {
	h, err := p.Start(message)
	if err != nil || h.ID != id || !h.Response {
		return p, h, false
	}
	all, err := p.AllQuestions()
	if err != nil || len(all) != 1 {
		return p, h, false
	}
	got := all[0]
	return p, h, got.Type == q.kind && got.Class == dnsmessage.ClassINET && fold(got.Name) == strings.ToLower(q.name)
}

func fold(n dnsmessage.Name) string { return strings.ToLower(strings.TrimSuffix(n.String(), ".")) }

// readAnswer reads what follows the question of a complete answer. The error is a *Failure.
func readAnswer(p *dnsmessage.Parser, h dnsmessage.Header, q question) (answer, error) {
	switch h.RCode {
	case dnsmessage.RCodeSuccess, dnsmessage.RCodeNameError:
	case dnsmessage.RCodeServerFailure:
		return answer{}, failed(ServFail, "%s: SERVFAIL", q)
	case dnsmessage.RCodeRefused, dnsmessage.RCodeNotImplemented:
		return answer{}, failed(Refused, "%s: %s", q, strings.TrimPrefix(h.RCode.String(), "RCode"))
	default:
		return answer{}, failed(Other, "%s: %s", q, h.RCode)
	}
	records, err := readRecords(p)
	if err != nil {
		return answer{}, failed(Malformed, "%s: %v", q, err)
	}
	a := resolve(records, q)
	if len(a.addresses)+len(a.targets) > 0 && h.RCode == dnsmessage.RCodeSuccess {
		return a, nil
	}
	a = answer{ttl: negativeTTL(p)}
	if h.RCode == dnsmessage.RCodeNameError {
		return a, failed(NXDomain, "%s: NXDOMAIN, there is no such name", q)
	}
	return a, failed(NoData, "%s: the name has no such record", q)
}

// aRecord is a record of a kind that counts here.
type aRecord struct {
	name    string
	kind    dnsmessage.Type
	ttl     uint32
	alias   string
	address netip.Addr
	target  target
}

// readRecords reads the answers, kind by kind: the parser's own list would link all kinds of records.
func readRecords(p *dnsmessage.Parser) ([]aRecord, error) {
	var out []aRecord
	for {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		r := aRecord{name: fold(h.Name), kind: h.Type, ttl: h.TTL}
		if h.Class != dnsmessage.ClassINET {
			r.kind = 0
		}
		if err := r.read(p); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
}

// read reads the body of a record.
func (r *aRecord) read(p *dnsmessage.Parser) error {
	switch r.kind {
	case dnsmessage.TypeA:
		body, err := p.AResource()
		r.address = netip.AddrFrom4(body.A)
		return err
	case dnsmessage.TypeAAAA:
		body, err := p.AAAAResource()
		r.address = netip.AddrFrom16(body.AAAA)
		return err
	case dnsmessage.TypeCNAME:
		body, err := p.CNAMEResource()
		r.alias = fold(body.CNAME)
		return err
	case dnsmessage.TypeSRV:
		body, err := p.SRVResource()
		r.target = target{body.Priority, body.Weight, body.Port, fold(body.Target)}
		return err
	}
	return p.SkipAnswer()
}

// resolve follows the aliases to the records of the question's type.
func resolve(records []aRecord, q question) answer {
	var a answer
	name, ttl, some := strings.ToLower(q.name), ^uint32(0), false
	for range maxAliases {
		next := ""
		for _, r := range records {
			switch {
			case r.name != name:
			case r.kind == dnsmessage.TypeCNAME:
				next, ttl = r.alias, min(ttl, r.ttl)
			case r.kind == q.kind:
				some, ttl = true, min(ttl, r.ttl)
				a.add(r)
			}
		}
		if some || next == "" {
			break
		}
		name = next
	}
	if some {
		a.ttl = time.Duration(ttl) * time.Second
	}
	return a
}

func (a *answer) add(r aRecord) {
	if r.kind == dnsmessage.TypeSRV {
		a.targets = append(a.targets, r.target)
	} else {
		a.addresses = append(a.addresses, r.address)
	}
}

// negativeTTL is how long it holds that there is no record (RFC 2308); 0: unknown.
func negativeTTL(p *dnsmessage.Parser) time.Duration {
	for {
		h, err := p.AuthorityHeader()
		if err != nil {
			return 0
		}
		if h.Type != dnsmessage.TypeSOA {
			if p.SkipAuthority() != nil {
				return 0
			}
			continue
		}
		soa, err := p.SOAResource()
		if err != nil {
			return 0
		}
		return time.Duration(min(h.TTL, soa.MinTTL)) * time.Second
	}
}
