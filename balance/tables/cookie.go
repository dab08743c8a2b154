package tables

import "baton/openflow"

// Cookie identifies our flow entries and their purpose. Packet-ins carry the entry's cookie.
type Cookie uint64

// Kind is the purpose of a flow entry.
type Kind uint8

// The kinds.
const (
	Fixed      Kind = iota // independent of rules
	RuleOf                 // of a rule; the number is its place
	ResolverOf             // for queries to links' resolvers; the number is the set of links
	FlowOf                 // of a single flow, added by the controller; the number is that of the link's group
	EndOf                  // reports the end of flows to the controller
)

// The cookies of a controller's own: the upper half is "BtNB".
const (
	ours       Cookie = 0x42744e42 << 32
	oursMask   Cookie = 0xffffffff << 32
	cookieKind        = 24
	cookieMask        = 1<<cookieKind - 1
)

// NewCookie returns a cookie for a kind and a 24-bit number.
func NewCookie(k Kind, number int) Cookie {
	return ours | Cookie(k)<<cookieKind | Cookie(number&cookieMask)
}

// Ours reports whether the entry is ours.
func (c Cookie) Ours() bool { return c&oursMask == ours }

// Kind returns the kind of one of our cookies.
func (c Cookie) Kind() Kind { return Kind(c >> cookieKind) }

// Number returns the number.
func (c Cookie) Number() int { return int(c & cookieMask) }

// flowCookie returns the cookie of a link's flows.
func flowCookie(place int, v6 bool) Cookie { return NewCookie(FlowOf, int(LinkGroup(place, v6))) }

// RuleFor returns the set of links and the rule for a packet-in with this cookie: for queries to resolvers the last rule. It returns false
// if the entry needs no decision of the controller, or the rule is gone.
func (s State) RuleFor(c Cookie) (Set, Rule, bool) {
	if !c.Ours() || len(s.Rules) == 0 {
		return Set{}, Rule{}, false
	}
	switch c.Kind() {
	case RuleOf:
		if n := c.Number(); n < len(s.Rules) {
			return s.Set(s.Rules[n]), s.Rules[n], true
		}
	case ResolverOf:
		return Set{Links: uint16(c.Number())}, s.Rules[len(s.Rules)-1], true
	}
	return Set{}, Rule{}, false
}

// FlowsOf returns the message that removes the controller's flows of a link.
func FlowsOf(place int, v6 bool) openflow.Message {
	m := openflow.NewFlowMod(openflow.FlowDelete)
	m.Table, m.Cookie, m.CookieMask = openflow.TableAll, uint64(flowCookie(place, v6)), ^uint64(0)
	return m
}
