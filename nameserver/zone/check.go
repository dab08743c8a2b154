package zone

import (
	"fmt"

	"github.com/miekg/dns"
)

// check refuses what cannot be served across the whole zone, and warns of what hardly anybody means.
func (l *loader) check() {
	first := l.shown(l.from.names[0]) + ":1"
	apex := l.zone.Nodes[l.zone.Key]
	if l.zone.SOA == nil {
		l.wrong(first, "the zone %s has no SOA record", l.zone.Origin)
	}
	if apex == nil || apex.Set(dns.TypeNS) == nil {
		l.wrong(first, "the zone %s has no NS record at its own name", l.zone.Origin)
	}
	for _, n := range l.zone.order {
		l.alias(n)
		l.delegation(n)
		for _, s := range n.Sets {
			for _, rr := range s.Records {
				if target, of := targetOf(rr); target != "" {
					l.target(n, target, of)
				}
			}
		}
	}
	if l.more {
		l.mistakes = append(l.mistakes, fmt.Errorf("%s: and more mistakes like these", first))
	}
}

func (l *loader) alias(n *Node) {
	if n.Set(dns.TypeCNAME) == nil {
		return
	}
	if len(n.Sets) > 1 {
		l.wrong(n.line, "%s is an alias (CNAME) and has other records too (RFC 1034, section 3.6.2)", n.Name)
	}
	if r := l.zone.Resolve(n.Key, n.Name, dns.TypeA); r.Loop {
		l.wrong(n.line, "%s is an alias that leads nowhere: more than %d aliases in a row, or a loop", n.Name, maxAliases)
	}
}

func (l *loader) delegation(n *Node) {
	switch {
	case n.Cut == nil:
		if n.Set(dns.TypeDS) != nil {
			l.wrong(n.line, "%s has DS records, but no NS records: it is no delegation", n.Name)
		}
		return
	case n.Routed != "":
		l.wrong(l.shown(l.from.names[0])+":1", "%s is routed, but %s is delegated to other name servers", n.Name, n.Cut.Name)
		return
	case n.Cut != n:
		for _, s := range n.Sets {
			if s.Type != dns.TypeA && s.Type != dns.TypeAAAA {
				l.warn(n.line, "%s %s is not served: %s is delegated to other name servers", n.Name, dns.TypeToString[s.Type], n.Cut.Name)
			}
		}
		return
	case n.Key.IsWild():
		l.wrong(n.line, "%s: a wildcard cannot be delegated (RFC 4592, section 4.2)", n.Name)
	}
	for _, s := range n.Sets {
		if s.Type != dns.TypeNS && s.Type != dns.TypeDS && s.Type != dns.TypeA && s.Type != dns.TypeAAAA {
			l.warn(n.line, "%s %s is not served: the name is delegated to other name servers", n.Name, dns.TypeToString[s.Type])
		}
	}
}

// targetOf is the host name in a record, which should have an address.
func targetOf(rr dns.RR) (target, of string) {
	switch rr := rr.(type) {
	case *dns.NS:
		return rr.Ns, "NS"
	case *dns.MX:
		return rr.Mx, "MX"
	case *dns.SRV:
		return rr.Target, "SRV"
	case *dns.CNAME:
		return rr.Target, "CNAME"
	case *dns.HTTPS:
		return rr.Target, "HTTPS"
	case *dns.SVCB:
		return rr.Target, "SVCB"
	}
	return "", ""
}

// target checks a host name of a record that is in this zone.
func (l *loader) target(n *Node, target, of string) {
	key, err := KeyOf(target)
	if err != nil || !key.Within(l.zone.Key) || key == Root || target == "." {
		return
	}
	node, encloser := l.zone.Find(key)
	if encloser.Cut != nil && of != "NS" {
		return
	}
	if node == nil {
		node = l.zone.Nodes[encloser.Key.Wild()]
	}
	switch {
	case of == "CNAME":
		if node == nil {
			l.warn(n.line, "%s is an alias of %s, which does not exist", n.Name, target)
		}
	case node != nil && node.Set(dns.TypeCNAME) != nil && of != "HTTPS" && of != "SVCB":
		l.warn(n.line, "%s %s leads to %s, which is an alias (RFC 2181, section 10.3)", n.Name, of, target)
	case node == nil || node.Set(dns.TypeA) == nil && node.Set(dns.TypeAAAA) == nil && node.Set(dns.TypeCNAME) == nil && node.Routed == "":
		if of == "NS" && encloser.Cut == nil || of == "NS" && encloser.Cut == n {
			l.wrong(n.line, "%s NS leads to %s, which has no address in this zone", n.Name, target)
			return
		}
		l.warn(n.line, "%s %s leads to %s, which has no address", n.Name, of, target)
	}
}
