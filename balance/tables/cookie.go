package tables

import "baton/openflow"

// Cookie says whose a flow entry is and what it is for. Packets for the controller come with it.
type Cookie uint64

// Kind is what a flow entry is for.
type Kind uint8

// The kinds.
const (
	Fixed      Kind = iota // does not depend on rules
	RuleOf                 // a rule's; the number is its place
	ResolverOf             // takes questions to the resolvers of links; the number is the set of them
	FlowOf                 // one flow's, which the controller has made; the number is that of the link's group
	EndOf                  // tells the controller how flows end
)

// The cookies of a controller's own: the upper half is "BtNB".
const (
	ours       Cookie = 0x42744e42 << 32
	oursMask   Cookie = 0xffffffff << 32
	cookieKind        = 24
	cookieMask        = 1<<cookieKind - 1
)

// NewCookie returns the cookie of a kind and a number of 24 bits.
func NewCookie(k Kind, number int) Cookie {
	return ours | Cookie(k)<<cookieKind | Cookie(number&cookieMask)
}

// Ours says whether the entry is one of ours.
func (c Cookie) Ours() bool { return c&oursMask == ours }

// Kind returns the kind of a cookie that is ours.
func (c Cookie) Kind() Kind { return Kind(c >> cookieKind) }

// Number returns the number.
func (c Cookie) Number() int { return int(c & cookieMask) }

// flowCookie is that of the flows of a link.
func flowCookie(place int, v6 bool) Cookie { return NewCookie(FlowOf, int(LinkGroup(place, v6))) }

// RuleFor returns the set of links that a packet is for which the controller got by an entry with this cookie, and the rule: for questions
// to resolvers the last one. It reports false if the entry asks nothing of the controller, or if its rule is gone.
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
