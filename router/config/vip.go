package config

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
)

// What the kernel's tables number with 16 bits, less what no reader of a file could follow anyway.
const (
	maxVIPs   = 4096
	maxRoutes = 4096
	maxPools  = 4096
)

func (d *decoder) vip(path string, n *node) VIP {
	v := VIP{Mode: Handoff, Line: n.line}
	d.mapping(path, n, []key{
		{"address", func(path string, n *node) { v.Address = d.addrPort(path, n) }},
		{"mode", func(path string, n *node) {
			v.Mode = Mode(d.text(path, n))
			if !slices.Contains([]Mode{Handoff, Redirect, Proxy}, v.Mode) {
				d.fail(n.line, path, fmt.Sprintf("%q is not a mode", clip(string(v.Mode))), "handoff, redirect or proxy")
			}
		}},
		{"interfaces", func(path string, n *node) { v.Interfaces = d.interfaces(path, n) }},
		{"routes", func(path string, n *node) {
			d.atMost(path, n, maxRoutes)
			d.sequence(path, n, func(at string, n *node) { v.Routes = append(v.Routes, d.route(at, n)) })
		}},
	})
	d.require(path, n, "address", "routes")
	if v.Mode == Handoff {
		d.require(path, n, "interfaces")
	}
	return v
}

func (d *decoder) interfaces(path string, n *node) []string {
	names := d.texts(path, n)
	for _, name := range names {
		// dev_valid_name() of the kernel: IFNAMSIZ with its NUL, no slash, colon or space.
		if len(name) > 15 || name == "." || name == ".." || strings.ContainsAny(name, "/: ") {
			d.fail(n.line, path, fmt.Sprintf("%q is not the name of an interface", clip(name)), "such as eth0")
		}
	}
	return names
}

func (d *decoder) route(path string, n *node) Route {
	r := Route{Line: n.line}
	d.mapping(path, n, []key{
		{"match", func(path string, n *node) { r.Match = d.match(path, n) }},
		{"pool", func(path string, n *node) { r.Pool = d.nonEmpty(path, n) }},
	})
	d.require(path, n, "pool")
	return r
}

func (d *decoder) match(path string, n *node) Match {
	var m Match
	d.mapping(path, n, []key{
		{"host", func(path string, n *node) { m.Host = d.host(path, n) }},
		{"path_prefix", func(path string, n *node) { m.PathPrefix = d.pathPrefix(path, n) }},
		{"path_regex", func(path string, n *node) { m.PathRegex = d.regex(path, n) }},
		{"methods", func(path string, n *node) { m.Methods = d.methods(path, n) }},
		{"headers", func(path string, n *node) {
			d.sequence(path, n, func(at string, n *node) { m.Headers = append(m.Headers, d.header(at, n)) })
		}},
	})
	return m
}

// host decodes the name that is compared with a request's Host: a name, "*.name", an IPv4 address or an IPv6 address in
// brackets.
func (d *decoder) host(path string, n *node) string {
	s := strings.ToLower(d.nonEmpty(path, n))
	if d.err != nil {
		return ""
	}
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		if a, err := netip.ParseAddr(s[1 : len(s)-1]); err != nil || !a.Is6() || a.Zone() != "" {
			d.fail(n.line, path, fmt.Sprintf("%q is not an IPv6 address in brackets", clip(s)), "such as [2001:db8::9]")
		}
		return s
	}
	name := strings.TrimPrefix(s, "*.")
	switch {
	case s == "*":
		d.fail(n.line, path, `"*" is every host`, "leave host out")
	case strings.Contains(name, ":"):
		d.fail(n.line, path, fmt.Sprintf("%q has a port or is a bare IPv6 address", clip(s)), "the name alone: the port is the VIP's")
	case strings.Contains(name, "*"):
		d.fail(n.line, path, fmt.Sprintf("%q has a * elsewhere than as its first label", clip(s)), "such as *.example.net")
	case name == "" || name[0] == '.' || strings.HasSuffix(name, ".") || strings.Contains(name, "..") || len(name) > 253:
		d.fail(n.line, path, fmt.Sprintf("%q is not a host name", clip(s)), "such as cdn.example.net")
	default:
		for _, c := range []byte(name) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
				d.fail(n.line, path, fmt.Sprintf("%q holds %q", clip(s), c), "letters, digits, - and .; other scripts as xn--")
				break
			}
		}
	}
	return s
}

func (d *decoder) pathPrefix(path string, n *node) string {
	s := d.nonEmpty(path, n)
	if d.err != nil {
		return ""
	}
	if s[0] != '/' {
		d.fail(n.line, path, fmt.Sprintf("%q does not begin with /", clip(s)), "such as /video/")
		return ""
	}
	for _, c := range []byte(s) {
		switch {
		case c == '?' || c == '#':
			d.fail(n.line, path, fmt.Sprintf("%q holds %q, which is never part of a path", clip(s), c), "the path alone: a query is not matched")
			return ""
		case c <= ' ' || c >= 0x7f:
			d.fail(n.line, path, fmt.Sprintf("%q holds %q, which a request sends percent-encoded", clip(s), c), "such as /a%20b/")
			return ""
		}
	}
	return s
}

func (d *decoder) methods(path string, n *node) []string {
	methods := d.texts(path, n)
	for _, m := range methods {
		switch {
		case !isToken(m):
			d.fail(n.line, path, fmt.Sprintf("%q is not a method", clip(m)), "such as GET")
		case m != strings.ToUpper(m):
			d.fail(n.line, path, fmt.Sprintf("%q is not upper case, and methods are case-sensitive", clip(m)), strings.ToUpper(m))
		case m == "CONNECT":
			d.fail(n.line, path, "CONNECT is never routed", "the router refuses it")
		}
	}
	return methods
}

func (d *decoder) header(path string, n *node) HeaderMatch {
	var h HeaderMatch
	d.mapping(path, n, []key{
		{"name", func(path string, n *node) {
			s := d.nonEmpty(path, n)
			if d.err == nil && !isToken(s) {
				d.fail(n.line, path, fmt.Sprintf("%q is not the name of a header", clip(s)), "such as X-Device")
			}
			h.Name = textproto.CanonicalMIMEHeaderKey(s)
			if h.Name == "Host" {
				d.fail(n.line, path, "Host is matched by its own key", "match: {host: ...}")
			}
		}},
		{"value", func(path string, n *node) {
			h.Value = d.nonEmpty(path, n)
			if d.err == nil && h.Value != strings.Trim(h.Value, " ") {
				d.fail(n.line, path, fmt.Sprintf("%q has spaces around it, which a request's value never has", clip(h.Value)), "without them")
			}
		}},
		{"regex", func(path string, n *node) { h.Regex = d.regex(path, n) }},
	})
	d.require(path, n, "name")
	if h.Value != "" && h.Regex != nil {
		d.fail(n.line, path, "has both value and regex", "one of them, or neither for a header that is present")
	}
	return h
}

// isToken tells a token of RFC 9110 section 5.6.2.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
