package config

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"strings"

	"baton/document"
)

// Limits of the kernel's 16-bit numbers, and of what is read and compiled in seconds.
const (
	maxVIPs   = 4096
	maxRoutes = 131072
	maxPools  = 4096
)

func (d *decoder) vip(path string, n *node) VIP {
	v := VIP{Mode: Handoff, Protocol: HTTP, Line: n.Line}
	d.Fields(path, n, []key{
		{Name: "address", Help: "address and port", Decode: func(path string, n *node) { v.Address = d.AddrPort(path, n) }},
		{Name: "mode", Default: "handoff", Help: "what is done with a request: splice it, redirect the client, proxy it, or have a controller hand it over",
			Decode: func(path string, n *node) {
				v.Mode = Mode(d.Choice(path, n, "is not a mode", string(Handoff), string(Redirect), string(Proxy), string(Reactive)))
			}},
		{Name: "protocol", Default: "http", Help: "http: each request is routed; tls and quic: each session, by its hello", Decode: func(path string, n *node) {
			v.Protocol = Protocol(d.Choice(path, n, "is not a protocol", string(HTTP), string(TLS), string(QUIC)))
		}},
		{Name: "controller", Help: "mode reactive: the controller that hands sessions over", Decode: func(path string, n *node) { v.Controller = d.controller(path, n) }},
		{Name: "tls", Help: "modes proxy and redirect: the router's own certificates", Decode: func(path string, n *node) { v.TLS = d.keyPairs(path, n) }},
		{Name: "interfaces", Help: "towards clients; required by mode handoff",
			Decode: func(path string, n *node) { v.Interfaces = document.Distinct(d.Decoder, path, n, d.Device) }},
		{Name: "pipelining", Help: "hold: each request is routed; pass: a pipelined one follows the one before it (default: pass if one pool answers everything, else hold)",
			Decode: func(path string, n *node) {
				v.Pipelining = Pipelining(d.Choice(path, n, "is not a kind of pipelining", string(PipeliningHold), string(PipeliningPass)))
			}},
		{Name: "log", Default: "true", Help: "false: its requests are in no access log", Decode: func(path string, n *node) { v.Unlogged = !d.Boolean(path, n) }},
		{Name: "routes", Help: "in order, at most 131072; the first match applies, and without one the answer is 404", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxRoutes)
			d.NonEmptyList(path, n, func(at string, n *node) { v.Routes = append(v.Routes, d.route(at, n)) })
		}},
	})
	d.Require(path, n, "address", "routes")
	d.checkProtocol(path, n, &v)
	d.checkReactive(path, n, &v)
	switch {
	case d.Doubtful(document.Join(path, "mode")): // what it needs is not known
	case v.Mode == Handoff:
		d.Require(path, n, "interfaces")
	case v.Pipelining != "":
		d.Wrong(n, document.Join(path, "pipelining"), "is for mode handoff alone", "no pipelining: the proxy routes each request")
	}
	if v.Mode == Handoff && v.Pipelining == "" && !v.Protocol.Encrypted() {
		v.Pipelining = v.usualPipelining()
	}
	return v
}

// usualPipelining is pass where all requests go to one pool, so that routing them again would change nothing.
func (v *VIP) usualPipelining() Pipelining {
	for _, r := range v.Routes {
		if r.Pool != v.Routes[0].Pool {
			return PipeliningHold
		}
	}
	for _, r := range v.Routes {
		if r.Match.everything() {
			return PipeliningPass
		}
	}
	return PipeliningHold
}

// everything reports whether every request matches.
func (m *Match) everything() bool {
	return m.Host == "" && m.PathPrefix == "" && m.PathRegex == nil && len(m.Methods) == 0 && len(m.Headers) == 0
}

func (d *decoder) route(path string, n *node) Route {
	r := Route{Line: n.Line}
	d.Fields(path, n, []key{
		{Name: "match", Help: "conditions, all of which must hold (default: everything matches)", Decode: func(path string, n *node) { r.Match = d.match(path, n) }},
		{Name: "pool", Help: "that answers", Decode: func(path string, n *node) { r.Pool = d.Text(path, n) }},
		{Name: "rewrite", Help: "another host or path for the surrogates", Decode: func(path string, n *node) { r.Rewrite = d.rewrite(path, n) }},
	})
	d.Require(path, n, "pool")
	return r
}

func (d *decoder) match(path string, n *node) Match {
	var m Match
	d.Fields(path, n, []key{
		{Name: "host", Help: "the request's host; *.example.net is every name below", Decode: func(path string, n *node) { m.Host = d.host(path, n) }},
		{Name: "path_prefix", Help: "start of the path, byte by byte", Decode: func(path string, n *node) { m.PathPrefix = d.pathPrefix(path, n) }},
		{Name: "path_regex", Help: "an RE2 expression on the path", Decode: func(path string, n *node) { m.PathRegex = d.Regexp(path, n) }},
		{Name: "methods", Help: "one of the list", Decode: func(path string, n *node) { m.Methods = d.methods(path, n) }},
		{Name: "headers", Help: "all of the list", Decode: func(path string, n *node) {
			if n.Kind == document.Mapping {
				d.Wrong(n, path, "is a mapping, and must be a list", "such as [{name: X-Device, value: phone}]")
			}
			d.NonEmptyList(path, n, func(at string, n *node) { m.Headers = append(m.Headers, d.header(at, n)) })
		}},
		{Name: "sni", Help: "name in the TLS hello; *.example.net is one label below", Decode: func(path string, n *node) { m.SNI = d.sni(path, n) }},
		{Name: "alpn", Help: "the client offers one of the list, such as h2", Decode: func(path string, n *node) { m.ALPN = d.alpn(path, n) }},
		{Name: "no_sni", Help: "true: hellos without a name, which no other route matches", Decode: func(path string, n *node) { m.NoSNI = d.Boolean(path, n) }},
	})
	return m
}

// host decodes a name to be compared with Host: a name, "*.name", an IPv4 address or a bracketed IPv6 address. A trailing dot is
// ignored.
func (d *decoder) host(path string, n *node) string {
	s := strings.ToLower(d.Text(path, n))
	if d.Err() != nil {
		return ""
	}
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		if a, err := netip.ParseAddr(s[1 : len(s)-1]); err != nil || !a.Is6() || a.Zone() != "" {
			d.Wrong(n, path, fmt.Sprintf("%q is not an IPv6 address in brackets", document.Clip(s)), "such as [2001:db8::9]")
		}
		return s
	}
	s = strings.TrimSuffix(s, ".")
	name := strings.TrimPrefix(s, "*.")
	switch {
	case s == "*":
		d.Wrong(n, path, `"*" is every host`, "leave host out")
	case strings.Contains(name, ":"):
		d.Wrong(n, path, fmt.Sprintf("%q has a port or is a bare IPv6 address", document.Clip(s)), "the name alone: the port is the VIP's")
	case strings.Contains(name, "*"):
		d.Wrong(n, path, fmt.Sprintf("%q has a * elsewhere than as its first label", document.Clip(s)), "such as *.example.net")
	case name == "" || name[0] == '.' || strings.HasSuffix(name, ".") || strings.Contains(name, "..") || len(name) > 253:
		d.Wrong(n, path, fmt.Sprintf("%q is not a host name", document.Clip(s)), "such as cdn.example.net")
	default:
		for _, c := range []byte(name) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
				d.Wrong(n, path, fmt.Sprintf("%q holds %q", document.Clip(s), c), "letters, digits, - and .; other scripts as xn--")
				break
			}
		}
	}
	return s
}

func (d *decoder) pathPrefix(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() != nil {
		return ""
	}
	if s[0] != '/' {
		d.Wrong(n, path, fmt.Sprintf("%q does not begin with /", document.Clip(s)), "such as /video/")
		return ""
	}
	for _, c := range []byte(s) {
		switch {
		case c == '?' || c == '#':
			d.Wrong(n, path, fmt.Sprintf("%q holds %q, which is never part of a path", document.Clip(s), c),
				"the path alone: a query is not matched")
			return ""
		case c <= ' ' || c >= 0x7f:
			d.Wrong(n, path, fmt.Sprintf("%q holds %q, which a request sends percent-encoded", document.Clip(s), c), "such as /a%20b/")
			return ""
		}
	}
	return s
}

func (d *decoder) methods(path string, n *node) []string {
	methods := document.Distinct(d.Decoder, path, n, d.Text)
	for _, m := range methods {
		switch {
		case !isToken(m):
			d.Wrong(n, path, fmt.Sprintf("%q is not a method", document.Clip(m)), "such as GET")
		case m != strings.ToUpper(m):
			d.Wrong(n, path, fmt.Sprintf("%q is not upper case, and methods are case-sensitive", document.Clip(m)), strings.ToUpper(m))
		case m == "CONNECT":
			d.Wrong(n, path, "CONNECT is never routed", "the router refuses it")
		}
	}
	return methods
}

func (d *decoder) header(path string, n *node) HeaderMatch {
	var h HeaderMatch
	d.Fields(path, n, []key{
		{Name: "name", Help: "of the field, which must be present", Decode: func(path string, n *node) {
			s := d.Text(path, n)
			if d.Err() == nil && !isToken(s) {
				d.Wrong(n, path, fmt.Sprintf("%q is not the name of a header", document.Clip(s)), "such as X-Device")
			}
			h.Name = textproto.CanonicalMIMEHeaderKey(s)
			if h.Name == "Host" {
				d.Wrong(n, path, "Host is matched by its own key", "match: {host: ...}")
			}
		}},
		{Name: "value", Help: "its exact value", Decode: func(path string, n *node) {
			h.Value = d.Text(path, n)
			if d.Err() == nil && h.Value != strings.Trim(h.Value, " ") {
				d.Wrong(n, path, fmt.Sprintf("%q has spaces around it, which a request's value never has", document.Clip(h.Value)), "without them")
			}
		}},
		{Name: "regex", Help: "an RE2 expression on its value", Decode: func(path string, n *node) { h.Regex = d.Regexp(path, n) }},
	})
	d.Require(path, n, "name")
	if h.Value != "" && h.Regex != nil {
		d.Wrong(n, path, "has both value and regex", "one of them, or neither for a header that is present")
	}
	return h
}

// isToken reports whether s is a token (RFC 9110 section 5.6.2).
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
