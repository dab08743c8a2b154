package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"baton/document"
)

// Defaults of a session. Hold is a third of the smallest common default of routers, so that the routes of a dead site vanish soon.
// Keepalives are small.
const (
	defaultKeepalive = 3 * time.Second
	defaultHold      = 9 * time.Second
	defaultRetry     = 5 * time.Second
	defaultPort      = 179
)

const maxAS = 1<<32 - 2 // RFC 7300

func (d *decoder) bgp(path string, n *node) BGP {
	var b BGP
	d.Fields(path, n, []key{
		{Name: "as", Help: "AS of the site", Decode: func(path string, n *node) { b.AS = d.as(path, n) }},
		{Name: "router_id", Help: "an IPv4 address", Decode: func(path string, n *node) { b.RouterID = d.family(path, n, false) }},
		{Name: "communities", Help: "added to every announcement: \"64512:7\", no_export, graceful_shutdown",
			Decode: func(path string, n *node) { b.Communities = d.communities(path, n) }},
		{Name: "next_hop", Help: "needed for prefixes of the other address family (default: local address of the session)", Decode: func(path string, n *node) {
			d.Fields(path, n, []key{
				{Name: "ipv4", Help: "next hop of IPv4 prefixes", Decode: func(path string, n *node) { b.NextHop4 = d.family(path, n, false) }},
				{Name: "ipv6", Help: "next hop of IPv6 prefixes", Decode: func(path string, n *node) { b.NextHop6 = d.family(path, n, true) }},
			})
		}},
		{Name: "peers", Help: "routers to announce to", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxPeers)
			d.NonEmptyList(path, n, func(at string, n *node) { b.Peers = append(b.Peers, d.peer(at, n)) })
		}},
	})
	d.Require(path, n, "as", "router_id", "peers")
	return b
}

func (d *decoder) peer(path string, n *node) Peer {
	p := Peer{Port: defaultPort, Keepalive: defaultKeepalive, Hold: defaultHold, Retry: defaultRetry}
	d.Fields(path, n, []key{
		{Name: "name", Help: "in the status and in metrics", Decode: func(path string, n *node) { p.Name = d.Label(path, n) }},
		{Name: "address", Help: "of the router", Decode: func(path string, n *node) { p.Address = d.Address(path, n) }},
		{Name: "port", Default: "179", Help: "of the router", Decode: func(path string, n *node) { p.Port = uint16(d.Integer(path, n, 1, 65535)) }},
		{Name: "local", Help: "local address (default: by the routing table)", Decode: func(path string, n *node) { p.Local = d.Address(path, n) }},
		{Name: "as", Help: "of the router", Decode: func(path string, n *node) { p.AS = d.as(path, n) }},
		{Name: "families", Help: "address families that are exchanged (default: that of the address)", Decode: func(path string, n *node) {
			d.NonEmptyList(path, n, func(at string, n *node) {
				if d.Choice(at, n, "is not a family", "ipv4", "ipv6") == "ipv6" {
					p.IPv6 = true
				} else {
					p.IPv4 = true
				}
			})
		}},
		{Name: "password_file", Help: "file with the MD5 key (RFC 2385), readable by its owner only",
			Decode: func(path string, n *node) { p.PasswordFile = d.FilePath(path, n) }},
		{Name: "gtsm", Default: "false", Help: "accept only packets from one hop away (RFC 5082)", Decode: func(path string, n *node) { p.GTSM = d.Boolean(path, n) }},
		{Name: "multihop", Help: "TTL, for an external router that is not directly connected", Decode: func(path string, n *node) { p.Multihop = d.Integer(path, n, 2, 255) }},
		{Name: "keepalive", Help: "between two messages (default: a third of hold)",
			Decode: func(path string, n *node) { p.Keepalive = d.seconds(path, n, time.Second, 21845*time.Second) }},
		{Name: "hold", Default: "9s", Help: "without a message for this long, the session ends",
			Decode: func(path string, n *node) { p.Hold = d.seconds(path, n, 3*time.Second, 65535*time.Second) }},
		{Name: "retry", Default: "5s", Help: "between attempts to connect", Decode: func(path string, n *node) { p.Retry = d.seconds(path, n, 2*time.Second, time.Hour) }},
		{Name: "graceful_restart", Help: "how long the router keeps the routes when this end disappears (RFC 4724)",
			Decode: func(path string, n *node) { p.Restart = d.seconds(path, n, time.Second, 4095*time.Second) }},
	})
	d.Require(path, n, "name", "address", "as")
	if d.Err() != nil {
		return p
	}
	if !p.IPv4 && !p.IPv6 {
		p.IPv4, p.IPv6 = p.Address.Is4(), p.Address.Is6()
	}
	if d.Given(document.Join(path, "hold")) && !d.Given(document.Join(path, "keepalive")) {
		p.Keepalive = max(time.Second, (p.Hold / 3).Truncate(time.Second))
	}
	if p.Keepalive*2 > p.Hold {
		d.Refuse(document.Join(path, "keepalive"), "is more than half of hold: one keepalive that is late would end the session",
			"a third of hold (RFC 4271, section 4.4)")
	}
	if p.Local.IsValid() && p.Local.Is4() != p.Address.Is4() {
		d.Refuse(document.Join(path, "local"), "is of another family than address", "an address of its family")
	}
	if p.GTSM && p.Multihop > 0 {
		d.Refuse(document.Join(path, "multihop"), "cannot be with gtsm, which admits one hop alone (RFC 5082)", "one of them")
	}
	return p
}

// checkPeers checks each session against the others and the prefixes.
func (d *decoder) checkPeers(s *Site) {
	b := &s.BGP
	v4, v6 := false, false
	for _, p := range s.Prefixes {
		v4, v6 = v4 || p.Addr().Is4(), v6 || p.Addr().Is6()
	}
	for i := range b.Peers {
		p, path := &b.Peers[i], document.Index("site.bgp.peers", i)
		d.checkTwice(path, i, func(j int) bool { return b.Peers[j].Name == p.Name }, "name", p.Name, "site.bgp.peers")
		d.checkTwice(path, i, func(j int) bool { return b.Peers[j].Address == p.Address }, "address", p.Address.String(), "site.bgp.peers")
		if p.IPv6 && v6 && p.Address.Is4() && !b.NextHop6.IsValid() {
			d.Refuse("site.bgp.next_hop", "has no ipv6, and "+p.Name+" receives IPv6 prefixes over IPv4", "next_hop: {ipv6: ...}")
		}
		if p.IPv4 && v4 && p.Address.Is6() && !b.NextHop4.IsValid() {
			d.Refuse("site.bgp.next_hop", "has no ipv4, and "+p.Name+" receives IPv4 prefixes over IPv6", "next_hop: {ipv4: ...}")
		}
		if p.Internal(b) && (p.Multihop > 0) {
			d.Refuse(path+".multihop", "is for peers of another AS", "without it")
		}
		if !(p.IPv4 && v4) && !(p.IPv6 && v6) {
			d.Refuse(path, "gets none of the prefixes: they are of another address family", "families: [...]")
		}
	}
	d.checkInternal(s)
}

// checkInternal refuses prepending, which internal peers would reject as a loop, and local preferences, which external peers do not see.
func (d *decoder) checkInternal(s *Site) {
	internal := slices.IndexFunc(s.BGP.Peers, func(p Peer) bool { return p.Internal(&s.BGP) })
	for i, l := range s.Control.Ladder {
		path := document.Index("site.levels", i)
		if internal >= 0 && l.Announcement.Prepend > 0 {
			d.Refuse(path+".prepend", "is for peers of another AS: "+s.BGP.Peers[internal].Name+" would see a loop", "local_preference")
		}
		if internal < 0 && l.Announcement.LocalPreference != nil {
			d.Refuse(path+".local_preference", "is for peers of one's own AS: there is none", "med, prepend or communities")
		}
	}
}

// checkTwice refuses duplicates.
func (d *decoder) checkTwice(path string, i int, same func(j int) bool, key, value, list string) {
	for j := range i {
		if same(j) {
			d.Refuse(path+"."+key, strings.TrimSpace(value)+" is that of "+document.Index(list, j)+" already", "one of its own")
			return
		}
	}
}

// as decodes the number of an autonomous system, with the letters in front of it or without.
func (d *decoder) as(path string, n *node) uint32 {
	s := d.Text(path, n)
	v, err := strconv.ParseUint(strings.TrimPrefix(strings.ToUpper(s), "AS"), 10, 32)
	if d.Err() == nil && (err != nil || v < 1 || v > maxAS) {
		d.WrongText(n, path, s, "is not the number of an autonomous system", fmt.Sprintf("from 1 to %d", uint32(maxAS)))
	}
	return uint32(v)
}
