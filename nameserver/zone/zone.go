// Package zone reads the files of a zone (RFC 1035, section 5), checks them, and answers questions of them as RFC 1034, section 4.3.2, RFC 4592
// and RFC 6604 say, in records. Package answer makes messages of it.
package zone

import (
	"time"

	"github.com/miekg/dns"
)

// Zone is a zone that was read and checked. It is never changed.
type Zone struct {
	Origin   string // in lower case, absolute
	Key      Key    // of Origin
	SOA      *dns.SOA
	Negative *dns.SOA // with the time for which negative answers may be kept (RFC 2308, section 3)
	Files    []string // that were read, within the folder
	Records  int
	Warnings []string
	Nodes    map[Key]*Node // all names, with those that have no records themselves but names below them
	order    []*Node       // as the file has them
}

// Node is a name of a zone.
type Node struct {
	Key    Key
	Name   string // as the file has it
	Sets   []Set
	Cut    *Node  // the delegation at this name or above it; nil: the zone has authority
	Routed string // the name by which addresses are chosen for each client, the wildcard for a name that it covers; "": none
	line   string // "file:line" of its first record
	listed bool   // it has records, or is routed; else it is there for names below
}

// Set is the records of a name and a type.
type Set struct {
	Type    uint16
	Records []dns.RR
}

// Set returns the records of a type; nil for none.
func (n *Node) Set(kind uint16) []dns.RR {
	for i := range n.Sets {
		if n.Sets[i].Type == kind {
			return n.Sets[i].Records
		}
	}
	return nil
}

// Types are those of the name's records.
func (n *Node) Types() []uint16 {
	var all []uint16
	for i := range n.Sets {
		all = append(all, n.Sets[i].Type)
	}
	return all
}

// Serial is the version of the zone.
func (z *Zone) Serial() uint32 { return z.SOA.Serial }

// All returns the zone's records, the SOA first, as a transfer has them without the last.
func (z *Zone) All(yield func(dns.RR) bool) {
	if !yield(z.SOA) {
		return
	}
	for _, n := range z.order {
		for _, s := range n.Sets {
			for _, rr := range s.Records {
				if s.Type != dns.TypeSOA && !yield(rr) {
					return
				}
			}
		}
	}
}

// LongestTTL is the longest time for which a record may be kept.
func (z *Zone) LongestTTL() (longest time.Duration) {
	for rr := range z.All {
		longest = max(longest, time.Duration(rr.Header().Ttl)*time.Second)
	}
	return longest
}

// Find returns a name's node; if there is none, the closest encloser (RFC 4592, section 3.3.1), the nearest name above that exists. The name is
// within the zone.
func (z *Zone) Find(name Key) (node, encloser *Node) {
	if n := z.Nodes[name]; n != nil {
		return n, n
	}
	for {
		name = name.Parent()
		if n := z.Nodes[name]; n != nil {
			return nil, n
		}
	}
}
