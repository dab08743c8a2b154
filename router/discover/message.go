package discover

import (
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
	records, err := p.AllAnswers()
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

// resolve follows the aliases to the records of the question's type.
func resolve(records []dnsmessage.Resource, q question) answer {
	var a answer
	name, ttl, some := strings.ToLower(q.name), ^uint32(0), false
	for range maxAliases {
		next := ""
		for _, r := range records {
			if fold(r.Header.Name) != name || r.Header.Class != dnsmessage.ClassINET {
				continue
			}
			if cname, ok := r.Body.(*dnsmessage.CNAMEResource); ok {
				next, ttl = fold(cname.CNAME), min(ttl, r.Header.TTL)
				continue
			}
			if r.Header.Type == q.kind && a.add(r.Body) {
				some, ttl = true, min(ttl, r.Header.TTL)
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

func (a *answer) add(body dnsmessage.ResourceBody) bool {
	switch r := body.(type) {
	case *dnsmessage.AResource:
		a.addresses = append(a.addresses, netip.AddrFrom4(r.A))
	case *dnsmessage.AAAAResource:
		a.addresses = append(a.addresses, netip.AddrFrom16(r.AAAA))
	case *dnsmessage.SRVResource:
		a.targets = append(a.targets, target{r.Priority, r.Weight, r.Port, fold(r.Target)})
	default:
		return false
	}
	return true
}

// negativeTTL is how long it holds that there is no record (RFC 2308); 0: unknown.
func negativeTTL(p *dnsmessage.Parser) time.Duration {
	records, err := p.AllAuthorities()
	if err != nil {
		return 0
	}
	for _, r := range records {
		if soa, ok := r.Body.(*dnsmessage.SOAResource); ok {
			return time.Duration(min(r.Header.TTL, soa.MinTTL)) * time.Second
		}
	}
	return 0
}
