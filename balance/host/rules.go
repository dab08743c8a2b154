package host

import (
	"net/netip"

	"baton/balance/links"
)

// The kernel's own tables.
const (
	mainTable    = 254
	defaultTable = 253
)

// Routing tables, from Internal.Table on: the internal default route, one for each link, one for VPNs, and one for each class from 1.
const (
	firstLinkTable  = 1
	tunnelTable     = 99
	firstClassTable = 100
)

// Behind is the distance from Internal.Priority to the rules that the jump leads to. Priorities from 32768 on come after the rules of main
// and default, so packets that match a default route get there only by the jump.
const Behind = 40000

// Priorities of the rules, from Internal.Priority+Behind on. Rules with the same priority match different packets; classes have a priority
// each, because the first one that matches a socket applies.
const (
	special      = 0   // multicast and link-local: as without a balance. Always present, as the jump's target
	ofClasses    = 100 // flows of the internal address go on there, whatever routes main learns meanwhile
	ofInternal   = 400
	ofOverlap    = 500  // two links in the same network: each by its own interface
	ofMain       = 600  // LAN, VPNs, containers: routes of main other than defaults
	fromLinks    = 700  // sockets bound to a link's address, and all older connections
	toLinks      = 800  // sockets bound to a link's interface
	bound        = 900  // to another address of the host, such as a VPN's: as without a balance
	ofTunnels    = 950  // a VPN whose default route main prefers
	newOfClasses = 1000 // an unbound socket is new, and gets an internal address
	newFlows     = 2000
	tail         = 3000 // as without a balance
)

const lastPlace = tail + 1

// mark returns the mark, under markMask, of sockets of a class that is a control group. The lower 24 bits are left to others: firewalls,
// wg-quick, Tailscale and container networks. The highest byte is 0x40 plus the class, at most 63.
func mark(class int) uint32 { return uint32(0x40+class) << 24 }

const markMask = 0xff000000

// path is one IP version of a link that has an address.
type path struct {
	place     int // of the link
	device    string
	index     int
	address   netip.Addr
	network   netip.Prefix
	gateway   netip.Addr // not valid: none
	reachable bool       // it can have routes
}

// family is one IP version.
type family struct {
	v6       bool
	internal netip.Prefix
	links    []links.Link
	paths    []path
}

func paths(s State, f family) []path {
	var all []path
	for i, l := range s.Links {
		of := l.V4
		if f.v6 {
			of = l.V6
		}
		if l.Index != 0 && of.Address.IsValid() {
			all = append(all, path{i, l.Interface, l.Index, of.Address, of.Prefix.Masked(), of.Gateway, l.Carrier && of.Gateway.IsValid()})
		}
	}
	return all
}

func (f family) gateway(c Class) netip.Addr {
	if f.v6 {
		return c.IPv6
	}
	return c.IPv4
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// routes returns the routes of our own tables. While no link has a gateway there is no route to the internal interface, so connecting fails
// at once.
func (f family) routes(s State) []Item {
	var items []Item
	leads := false
	for _, w := range f.paths {
		if w.reachable {
			leads = true
			items = append(items, Route{Table: s.Internal.Table + firstLinkTable + w.place, IPv6: f.v6, Device: w.device, Gateway: w.gateway})
		}
		if w.reachable && f.overlaps(w) {
			items = append(items, Route{Table: s.Internal.Table + firstLinkTable + w.place, IPv6: f.v6, Device: w.device, To: w.network})
		}
	}
	if !leads {
		return items
	}
	for k, c := range s.Classes {
		if !f.gateway(c).IsValid() {
			continue
		}
		r := Route{Table: s.Internal.Table, IPv6: f.v6, Device: s.Internal.Interface, Gateway: f.gateway(c), Source: f.internal.Addr()}
		if k > 0 {
			r.Table += firstClassTable + k
		}
		items = append(items, r)
	}
	return items
}

// overlaps reports whether another link shares addresses with w's network.
func (f family) overlaps(w path) bool {
	for _, o := range f.paths {
		if o.place != w.place && o.network.Overlaps(w.network) {
			return true
		}
	}
	return false
}

// loopback is the incoming interface of the host's own packets in routing rules.
const loopback = "lo"

func (f family) jump(s State) Rule {
	return Rule{IPv6: f.v6, Priority: s.Internal.Priority, Incoming: loopback, Goto: s.Internal.Priority + Behind + special}
}

// rules returns the rules that the jump leads to.
func (f family) rules(s State) []Item {
	base := s.Internal.Priority + Behind
	var items []Item
	add := func(place int, r Rule) {
		r.IPv6, r.Priority = f.v6, base+place
		items = append(items, r)
	}
	away := func(place int, r Rule) {
		r.Goto = base + tail
		add(place, r)
	}
	add(tail, Rule{Table: mainTable})
	add(tail+1, Rule{Table: defaultTable})
	for _, p := range f.special() {
		away(special, Rule{To: p})
	}
	internal := hostPrefix(f.internal.Addr())
	add(ofInternal, Rule{From: internal, Table: s.Internal.Table})
	add(ofMain, Rule{Table: mainTable, Suppress: true})
	for _, w := range f.paths {
		own := s.Internal.Table + firstLinkTable + w.place
		if f.overlaps(w) {
			add(ofOverlap, Rule{From: hostPrefix(w.address), To: w.network, Table: own})
		}
		add(fromLinks, Rule{From: hostPrefix(w.address), Table: own})
		add(toLinks, Rule{Outgoing: w.device, Table: own})
	}
	if f.v6 { // a rule with a source never matches a packet without one, so its inverse cannot express "has a source"
		away(bound, Rule{From: netip.MustParsePrefix("::/1")})
		away(bound, Rule{From: netip.MustParsePrefix("8000::/1")})
	} else {
		away(bound, Rule{From: netip.MustParsePrefix("0.0.0.0/32"), Not: true})
	}
	add(ofTunnels, Rule{Table: s.Internal.Table + tunnelTable})
	for k, c := range s.Classes {
		if k == 0 || !f.gateway(c).IsValid() {
			continue
		}
		r := Rule{Table: s.Internal.Table + firstClassTable + k}
		if c.Users != nil {
			r.Users = *c.Users
			r.OfUsers = true
		} else {
			r.Mark, r.Mask = mark(k), markMask
		}
		add(newOfClasses+k, r)
		r.From = internal
		add(ofClasses+k, r)
	}
	add(newFlows, Rule{Table: s.Internal.Table})
	return items
}

func (f family) special() []netip.Prefix {
	if f.v6 {
		return []netip.Prefix{netip.MustParsePrefix("ff00::/8"), netip.MustParsePrefix("fe80::/10")}
	}
	// Multicast and everything above, including limited broadcast.
	return []netip.Prefix{netip.MustParsePrefix("224.0.0.0/3"), netip.MustParsePrefix("169.254.0.0/16")}
}
