// Package fields makes the lines in the head of a request that tell a surrogate its client, as its pool's client_address and add_fields say:
// as a text for the kernel, which puts them into spliced requests, and in the header of proxied ones.
package fields

import (
	"encoding/hex"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	kernel "baton/datapath/router"
	"baton/router/config"
	"baton/router/head"
	"baton/router/outcome"
	"baton/router/route"
)

// Set are the fields of a pool, in the order of their lines.
type Set []field

type field struct {
	name   string // canonical
	value  value
	append bool // the client's own lines stay
}

type value uint8

const (
	address value = iota
	element       // of Forwarded
	proto
	requestID
	host
)

// Of are the fields that requests to a pool get; none: nil.
func Of(p *config.Pool) Set {
	var s Set
	if a := p.ClientAddress; a.IsField() {
		f := field{name: textproto.CanonicalMIMEHeaderKey(string(a)), append: p.AddressMode == config.Append}
		if a == config.Forwarded {
			f.value = element
		}
		s = append(s, f)
	}
	for _, added := range p.AddFields {
		f := field{name: textproto.CanonicalMIMEHeaderKey(string(added)), value: requestID}
		if added == config.XForwardedProto {
			f.value = proto
		}
		s = append(s, f)
	}
	return s
}

// usual are the fields that the proxy sets for pools that do not say otherwise.
var usual = Set{{name: "X-Forwarded-For"}, {name: "X-Forwarded-Host", value: host}, {name: "X-Forwarded-Proto", value: proto}}

// Client is what the values of fields are made of.
type Client struct {
	Address netip.Addr
	Host    string   // as sent; for the proxy's usual fields
	Secure  bool     // it uses TLS
	ID      [16]byte // of the request
}

// Text are the lines for spliced requests, with the kernel's marks for values. Their clients do not use TLS.
func (s Set) Text() string {
	var b strings.Builder
	for _, f := range s {
		b.WriteString(f.name + ": ")
		switch f.value {
		case address:
			b.WriteString(kernel.MarkAddress)
		case element:
			b.WriteString("for=" + kernel.MarkNode + ";proto=" + scheme(false))
		case proto:
			b.WriteString(scheme(false))
		case requestID:
			b.WriteString(kernel.MarkRequestID)
		}
		b.WriteString("\r\n")
	}
	return b.String()
}

// Describe are the lines for people. client need not be known.
func (s Set) Describe(client netip.Addr, secure bool) []string {
	var lines []string
	for _, f := range s {
		line := f.name + ": " + f.of(&Client{Address: client, Secure: secure})
		switch {
		case f.value == requestID:
			line = f.name + ": 32 hexadecimal digits"
		case !client.IsValid() && f.value == address:
			line = f.name + ": the client's address"
		case !client.IsValid() && f.value == element:
			line = f.name + ": for=the client's address;proto=" + scheme(secure)
		}
		if f.append {
			line += " (behind the client's own)"
		}
		lines = append(lines, line)
	}
	return lines
}

// SetProxied sets the fields, and the proxy's usual ones that are not among them, in the header of a request that the proxy sends. in is the
// client's own.
func (s Set) SetProxied(out, in http.Header, c *Client) {
	for _, f := range usual {
		if !s.has(f.name) {
			f.set(out, in, c)
		}
	}
	for _, f := range s {
		f.set(out, in, c)
	}
}

// Strip removes the names of fields that SetProxied sets, in every spelling: from a request's trailer, which a surrogate may add to the header.
func (s Set) Strip(h http.Header) {
	for _, of := range []Set{usual, s} {
		for _, f := range of {
			remove(h, f.name)
		}
	}
}

func (s Set) has(name string) bool {
	return slices.ContainsFunc(s, func(f field) bool { return f.name == name })
}

// set puts the field behind the client's own, or in their place. A line with another spelling of the name never stays: net/http sorts lines
// by name, so that it could come behind.
func (f *field) set(out, in http.Header, c *Client) {
	var values []string
	if f.append && !listed(in, f.name) {
		values = slices.Clone(in[f.name])
	}
	remove(out, f.name)
	out[f.name] = append(values, f.of(c))
}

func (f *field) of(c *Client) string {
	switch f.value {
	case element:
		return "for=" + node(c.Address) + ";proto=" + scheme(c.Secure)
	case proto:
		return scheme(c.Secure)
	case requestID:
		return hex.EncodeToString(c.ID[:])
	case host:
		return c.Host
	}
	return c.Address.WithZone("").String()
}

// node is an address of Forwarded (RFC 7239 section 6).
func node(a netip.Addr) string {
	if a.Is6() && !a.Is4In6() {
		return `"[` + a.WithZone("").String() + `]"`
	}
	return a.Unmap().String()
}

func scheme(secure bool) string {
	if secure {
		return "https"
	}
	return "http"
}

// remove deletes a field in every spelling that a surrogate may take for it.
func remove(h http.Header, name string) {
	for have := range h {
		if alike(have, name) {
			delete(h, have)
		}
	}
}

// alike compares names as CGI does, and what follows its rules: case does not count, and _ is -.
func alike(a, b string) bool {
	return len(a) == len(b) && strings.EqualFold(strings.ReplaceAll(a, "_", "-"), strings.ReplaceAll(b, "_", "-"))
}

// listed reports whether Connection names a field, which then is for the router alone (RFC 9110 section 7.6.1).
func listed(h http.Header, name string) bool {
	for _, line := range h["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.Trim(option, " \t"), name) {
				return true
			}
		}
	}
	return false
}

// unrewritten says why the kernel does not rewrite a request, "" if it does.
func unrewritten(req *head.Request, r config.Rewrite) string {
	host, named := req.Fields.Get("Host")
	switch {
	case r == (config.Rewrite{}):
	case req.Form != head.Origin:
		return "the target is not a path"
	case r.Host != "" && !named:
		return "it has no Host"
	case r.Host != "" && len(host)+r.Strip > kernel.EditPadding:
		return "its Host is too long to be replaced"
	case r.Prefix != "" && route.MethodID(req.Method) == 0:
		return "the kernel rewrites paths of GET, HEAD, POST, PUT and DELETE alone"
	case r.Prefix != "" && len(req.Fields) == 0:
		return "it has no field"
	}
	return ""
}

// Unfit says why the kernel does not change a request with a head of so many bytes, of which so many are in the first packet: an
// outcome, and the reason; "" if it does. watched are the names for which it looks at the VIP, rewrite is the route's.
func Unfit(req *head.Request, size, first int, watched []string, rewrite config.Rewrite) (_ outcome.Outcome, why string) {
	for name := range req.Fields.All() {
		if kernel.IsWatched(string(name), watched) {
			return outcome.ClientField, "the request has " + string(name) + ", which the router sets"
		}
	}
	if why := route.UnreadHead(req, size); why != "" {
		return outcome.NotInsertable, why
	}
	if size > first {
		return outcome.NotInsertable, "the head is in more than one packet"
	}
	if why := unrewritten(req, rewrite); why != "" {
		return outcome.NotInsertable, why
	}
	return "", ""
}
