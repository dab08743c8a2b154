package config

import (
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
)

// rule decodes the rule at a place of the list.
func (d *decoder) rule(at string, n *node, place int) Rule {
	r := Rule{Name: fmt.Sprintf("rule-%d", place+1), Otherwise: Any, Line: n.Line}
	d.Fields(at, n, []key{
		{Name: "name", Decode: func(path string, n *node) { r.Name = d.linkName(path, n) }},
		{Name: "to", Decode: func(path string, n *node) { r.To = d.prefixes(path, n) }},
		{Name: "services", Decode: func(path string, n *node) { r.Services = d.services(path, n) }},
		{Name: "application", Decode: func(path string, n *node) { r.Application = d.application(path, n) }},
		{Name: "links", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxLinks)
			d.NonEmptyList(path, n, func(at string, n *node) {
				name := d.Text(at, n)
				d.once(at, n, slices.Contains(r.Links, name))
				r.Links = append(r.Links, name)
			})
		}},
		{Name: "otherwise", Decode: func(path string, n *node) {
			r.Otherwise = Otherwise(d.Choice(path, n, "is not what happens otherwise", string(Any), string(Drop)))
		}},
		{Name: "method", Decode: func(path string, n *node) { r.Method = d.method(path, n) }},
		{Name: "together", Decode: func(path string, n *node) { r.Together = d.together(path, n) }},
	})
	return r
}

// prefixes decodes addresses and prefixes of both families.
func (d *decoder) prefixes(path string, n *node) []netip.Prefix {
	var out []netip.Prefix
	d.AtMost(path, n, maxPrefixes)
	seen := make(map[netip.Prefix]bool)
	d.NonEmptyList(path, n, func(at string, n *node) {
		p := d.prefix(at, n)
		d.once(at, n, seen[p])
		seen[p] = true
		out = append(out, p)
	})
	return out
}

func (d *decoder) prefix(path string, n *node) netip.Prefix {
	s := d.Text(path, n)
	if d.Err() != nil {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(s)
	if a, alone := netip.ParseAddr(s); err != nil && alone == nil && a.Zone() == "" {
		p, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	switch {
	case err != nil:
		d.WrongText(n, path, s, "is neither an address nor address/length", "such as 192.0.2.7 or 2001:db8::/32")
	case p.Addr().Is4In6():
		d.WrongText(n, path, s, "is an IPv4 address written as IPv6", "such as 192.0.2.7")
	case p != p.Masked():
		d.WrongText(n, path, s, "has bits set after its length", p.Masked().String())
	}
	return p
}

// The transport protocols that services are of, by their numbers at IANA.
var protocols = map[string]uint8{"tcp": 6, "udp": 17}

func (d *decoder) services(path string, n *node) []Service {
	var out []Service
	d.AtMost(path, n, maxServices)
	d.NonEmptyList(path, n, func(at string, n *node) {
		v := d.service(at, n)
		d.once(at, n, slices.Contains(out, v))
		out = append(out, v)
	})
	return out
}

// service decodes a protocol, with a port or a range of them or without: "tcp/443", "udp/8000-8100", "tcp".
func (d *decoder) service(path string, n *node) Service {
	s := d.Text(path, n)
	name, ports, some := strings.Cut(s, "/")
	v := Service{Protocol: protocols[name], Last: 65535}
	switch {
	case d.Err() != nil:
	case v.Protocol == 0:
		d.WrongText(n, path, s, "is not a service", "such as tcp/443, udp/8000-8100 or tcp")
	case some:
		from, to, isRange := strings.Cut(ports, "-")
		if !isRange {
			to = from
		}
		v.First, v.Last = portNumber(from), portNumber(to)
		switch {
		case v.First == 0 || v.Last == 0:
			d.WrongText(n, path, s, "has no port", name+"/443 or "+name+"/8000-8100, from 1 to 65535")
		case v.First > v.Last:
			d.WrongText(n, path, s, "ends before it begins", name+"/"+to+"-"+from)
		}
	}
	return v
}

// userForm is what useradd(8) takes, in the widest of its forms, or a number.
var userForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,30}[$]?$`)

const groupPath = 4000 // bytes; the kernel's buffer for a path is a page

func (d *decoder) application(at string, n *node) *Application {
	a := &Application{}
	d.Fields(at, n, []key{
		{Name: "user", Decode: func(path string, n *node) {
			a.User = d.Text(path, n)
			if d.Err() == nil && !userForm.MatchString(a.User) {
				d.WrongText(n, path, a.User, "is not a user", "a name, such as backup, or a number")
			}
		}},
		{Name: "cgroup", Decode: func(at string, n *node) {
			a.Cgroup = d.Text(at, n)
			if d.Err() == nil && (a.Cgroup[0] != '/' || a.Cgroup == "/" || path.Clean(a.Cgroup) != a.Cgroup || len(a.Cgroup) > groupPath) {
				d.WrongText(n, at, a.Cgroup, "is no control group's path", `as in /proc/PID/cgroup behind "0::", such as /system.slice/backup.service`)
			}
		}},
	})
	if d.Err() == nil && (a.User == "") == (a.Cgroup == "") {
		d.Wrong(n, at, "is not one of user and cgroup", "one of them")
	}
	return a
}
