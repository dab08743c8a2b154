package zone

import (
	"github.com/miekg/dns"
)

// Result is an answer in records. The owners of the answer's first records are the question's name.
type Result struct {
	Code       int
	Authority  bool // AA
	Answer     []dns.RR
	Nameserver []dns.RR // the authority section
	Additional []dns.RR

	Last     Key   // the name at which the search ended, behind all aliases
	Node     *Node // that has the records of Last, perhaps as a wildcard; nil: no such name
	Cut      *Node // the delegation to which the answer refers; nil: none
	Routed   bool  // addresses for the client come behind Answer, of the rule Node.Routed, with the owner Last
	Negative bool  // there is no such name or no such data
	Loop     bool  // the aliases lead nowhere
}

// maxAliases bounds a chain of aliases within a zone.
const maxAliases = 16

// HINFOTTL is how long the answer to a question for all types may be kept, in seconds (RFC 8482).
const hinfoTTL = 3600

// RoutedTypes are the types that a routed name has beside those of its file.
func RoutedTypes(kind uint16) bool {
	return kind == dns.TypeA || kind == dns.TypeAAAA || kind == dns.TypeHTTPS
}

// Resolve answers a question. name is within the zone; owner is its text, with the letters of the question.
func (z *Zone) Resolve(name Key, owner string, kind uint16) Result {
	r := Result{Authority: true}
	for range maxAliases {
		node, encloser := z.Find(name)
		if cut := encloser.Cut; cut != nil && (node != cut || kind != dns.TypeDS) {
			z.refer(&r, cut)
			return r
		}
		r.Last = name
		if node == nil {
			node = z.Nodes[encloser.Key.Wild()]
		}
		r.Node = node
		if node == nil {
			r.Code = dns.RcodeNameError
			z.negative(&r)
			return r
		}
		alias := node.Set(dns.TypeCNAME)
		if alias == nil || kind == dns.TypeCNAME {
			z.data(&r, node, owner, kind)
			return r
		}
		r.Answer = append(r.Answer, owned(alias[0], owner))
		owner = alias[0].(*dns.CNAME).Target
		target, err := KeyOf(owner)
		if err != nil || !target.Within(z.Key) || kind == dns.TypeANY {
			return r
		}
		name = target
	}
	r.Loop = true
	return r
}

// data is the answer of a name that is no alias.
func (z *Zone) data(r *Result, node *Node, owner string, kind uint16) {
	if kind == dns.TypeANY {
		if len(node.Sets) == 0 && node.Routed == "" {
			z.negative(r)
			return
		}
		r.Answer = append(r.Answer, &dns.HINFO{Hdr: dns.RR_Header{Name: owner, Rrtype: dns.TypeHINFO, Class: dns.ClassINET, Ttl: hinfoTTL}, Cpu: "RFC8482"})
		return
	}
	set := node.Set(kind)
	if set == nil && node.Routed != "" && RoutedTypes(kind) {
		r.Routed = true
		return
	}
	if set == nil {
		z.negative(r)
		return
	}
	for _, rr := range set {
		r.Answer = append(r.Answer, owned(rr, owner))
	}
}

func (z *Zone) negative(r *Result) {
	r.Negative = true
	r.Nameserver = append(r.Nameserver, z.Negative)
}

// refer makes the answer a referral to the name servers of a delegation, with the addresses that this zone has of them (RFC 9471).
func (z *Zone) refer(r *Result, cut *Node) {
	r.Cut = cut
	r.Authority = len(r.Answer) > 0 // of the alias that led here
	for _, rr := range cut.Set(dns.TypeNS) {
		r.Nameserver = append(r.Nameserver, rr)
		host, err := KeyOf(rr.(*dns.NS).Ns)
		if err != nil || !host.Within(z.Key) {
			continue
		}
		if glue := z.Nodes[host]; glue != nil {
			r.Additional = append(r.Additional, glue.Set(dns.TypeA)...)
			r.Additional = append(r.Additional, glue.Set(dns.TypeAAAA)...)
		}
	}
}

// owned is a record under another name, as of a wildcard, or with the letters of the question.
func owned(rr dns.RR, owner string) dns.RR {
	if rr.Header().Name == owner {
		return rr
	}
	rr = dns.Copy(rr)
	rr.Header().Name = owner
	return rr
}
