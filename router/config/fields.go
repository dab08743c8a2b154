package config

import (
	"fmt"
	"slices"
	"strings"

	"baton/document"
)

// ClientAddress is how a surrogate learns a client's address: by a header of the PROXY protocol before a connection's first byte, or by
// a field in the head of each request, whose name it is, in lower case. Empty: not at all.
type ClientAddress string

// The ways that have a form of their own. Other fields have the address alone, as X-Real-Ip.
const (
	ProxyV1       ClientAddress = "proxy-v1"
	ProxyV2       ClientAddress = "proxy-v2"
	XForwardedFor ClientAddress = "x-forwarded-for"
	Forwarded     ClientAddress = "forwarded" // RFC 7239
	XRealIP       ClientAddress = "x-real-ip"
)

// IsField reports whether it is a field of HTTP.
func (a ClientAddress) IsField() bool { return a != "" && a != ProxyV1 && a != ProxyV2 }

// AddressMode says what becomes of a client's own field of the name.
type AddressMode string

// The modes. The first is the default, as a client's own words are no evidence.
const (
	Replace AddressMode = "replace" // it is removed
	Append  AddressMode = "append"  // it stays, and the router's comes behind it
)

// AddedField names a further field that the router sets in each request. It replaces the client's.
type AddedField string

// The fields.
const (
	XForwardedProto AddedField = "x-forwarded-proto" // http or https
	XRequestID      AddedField = "x-request-id"      // 32 hexadecimal digits
)

const (
	// maxFieldName is that of a client_address, in bytes: the lines of all fields must fit the kernel's text.
	maxFieldName = 40
	// MaxReplaced is the number of different fields that the kernel looks for in the requests of a VIP.
	MaxReplaced = 4
)

// HasFields reports whether requests to the pool get fields of the router's.
func (p *Pool) HasFields() bool { return p.ClientAddress.IsField() || len(p.AddFields) > 0 }

// Replaced are the names of fields, in lower case, that the pool's surrogates get from the router alone.
func (p *Pool) Replaced() []string {
	var names []string
	if p.ClientAddress.IsField() && p.AddressMode == Replace {
		names = append(names, string(p.ClientAddress))
	}
	for _, f := range p.AddFields {
		names = append(names, string(f))
	}
	return names
}

// ReplacedAt are those of all pools that the VIP's routes lead to, each once.
func (c *Config) ReplacedAt(v *VIP) []string {
	var names []string
	leads := v.LeadsTo()
	for i := range c.Pools {
		p := &c.Pools[i]
		if p.HasFields() && leads[p.Name] {
			for _, name := range p.Replaced() {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// LeadsTo are the names of the pools that the VIP's routes lead to.
func (v *VIP) LeadsTo() map[string]bool {
	names := make(map[string]bool)
	for i := range v.Routes {
		names[v.Routes[i].Pool] = true
	}
	return names
}

// waysToTell are the client addresses with a form of their own, for messages.
var waysToTell = []string{string(ProxyV1), string(ProxyV2), string(XForwardedFor), string(Forwarded), string(XRealIP)}

// meanings are the fields that a server or a cache acts on, so that an address in them would change what a request does.
var meanings = []string{
	"accept", "age", "allow", "alt-used", "authorization", "cache-control", "close", "connection", "cookie", "cookie2", "date", "depth", "destination",
	"dnt", "early-data", "etag", "expect", "expires", "from", "host", "http2-settings", "keep-alive", "last-modified", "link", "location", "max-forwards",
	"origin", "overwrite", "pragma", "prefer", "priority", "range", "referer", "server", "set-cookie", "te", "timeout", "trailer", "transfer-encoding",
	"upgrade", "upgrade-insecure-requests", "user-agent", "vary", "via", "x-forwarded-host", "x-http-method-override",
}

// meaningsFrom are the beginnings of more such names.
var meaningsFrom = []string{"accept-", "access-control-", "content-", "if-", "sec-", "www-authenticate"}

// noNames are words that are valid field names, but that a user writes to switch something on or off.
var noNames = []string{"client", "false", "hidden", "keep", "no", "none", "off", "on", "relay", "router", "source", "transparent", "true", "yes"}

func hasMeaning(name string) bool {
	return slices.Contains(meanings, name) || slices.ContainsFunc(meaningsFrom, func(from string) bool { return strings.HasPrefix(name, from) })
}

func (d *decoder) clientAddress(path string, n *node) ClientAddress {
	s := d.Text(path, n)
	if d.Err() != nil {
		return ""
	}
	const example = "such as x-client-ip"
	problem := "is not a way to tell the client's address"
	valid := strings.Join(waysToTell, ", ") + " or the name of a field"
	name := strings.ToLower(s)
	switch near := document.Nearest(name, waysToTell); {
	case slices.Contains(waysToTell, name):
		return ClientAddress(name)
	case near != "":
		valid = "did you mean " + near + "?"
	case slices.Contains(noNames, name):
		valid += "; none without client_address"
	case strings.HasPrefix(name, "proxy"):
		valid = "did you mean proxy-v2?"
	case !isToken(s):
		problem, valid = "is not the name of a field", example
	case len(s) > maxFieldName:
		problem, valid = fmt.Sprintf("is longer than %d bytes", maxFieldName), "a shorter name"
	case name == string(XForwardedProto) || name == string(XRequestID):
		problem, valid = "is not the field of an address", fmt.Sprintf("add_fields: [%s]", name)
	case hasMeaning(name):
		problem, valid = "has a meaning of its own in a request", "x-forwarded-for, or another name "+example
	default:
		if strings.Contains(name, "_") {
			d.Warn(n.Place, path, fmt.Sprintf("nginx and other servers drop fields with _ in their names: write %s if yours does", strings.ReplaceAll(name, "_", "-")))
		}
		return ClientAddress(name)
	}
	d.WrongText(n, path, s, problem, valid)
	return ""
}

func (d *decoder) addressMode(path string, n *node) AddressMode {
	return AddressMode(d.Choice(path, n, "is not a mode", string(Replace), string(Append)))
}

func (d *decoder) addedField(path string, n *node) AddedField {
	return AddedField(d.Choice(path, n, "is not a field that the router can add", string(XForwardedProto), string(XRequestID)))
}

// checkAddress refuses keys of a pool that do not go with its client_address, and fills in what follows from it.
func (d *decoder) checkAddress(path string, p *Pool) {
	header := p.ClientAddress != "" && !p.ClientAddress.IsField()
	if at := document.Join(path, "client_address_mode"); d.Given(at) && header {
		d.WrongAt(d.Place(at), at, fmt.Sprintf("is for fields, and %s is a header in front of a connection", p.ClientAddress), "no mode: a client cannot send that header")
	} else if given := document.Join(path, "client_address"); d.Given(at) && !d.Given(given) {
		d.WrongAt(d.Place(at), at, "is without client_address", "client_address: x-forwarded-for")
	}
	if at := document.Join(path, "add_fields"); header && len(p.AddFields) > 0 {
		d.WrongAt(d.Place(at), at, fmt.Sprintf("cannot be combined with %s: a connection gets that header, or its requests get fields", p.ClientAddress),
			"a field such as x-forwarded-for as client_address, or no add_fields")
	}
	if p.ClientAddress.IsField() && p.AddressMode == "" {
		p.AddressMode = Replace
	}
	if header {
		if at := document.Join(path, "reuse"); d.Given(at) && p.Reuse != ReuseNever {
			d.WrongAt(d.Place(at), at, fmt.Sprintf("%s shares connections, and client_address: %s is sent once per connection", p.Reuse, p.ClientAddress), "never, or no reuse")
		}
		p.Reuse = ReuseNever
	}
}

// checkFields refuses VIPs whose requests cannot have the fields of a pool, and has requests of the others wait for each other: one that
// follows another unseen would be without fields.
func (d *decoder) checkFields(cfg *Config) {
	refused := make(map[string]bool) // pools
	for i := range cfg.VIPs {
		v := &cfg.VIPs[i]
		at := fmt.Sprintf("vips[%d]", i)
		leads := v.LeadsTo()
		for j := range cfg.Pools {
			p := &cfg.Pools[j]
			switch {
			case !p.HasFields() || !leads[p.Name] || refused[p.Name]:
			case v.Protocol.Encrypted():
				refused[p.Name] = true
				d.refuseFields(p, v)
			case v.Mode != Handoff:
			case v.Pipelining == PipeliningPass && d.Given(document.Join(at, "pipelining")):
				at := document.Join(at, "pipelining")
				d.WrongAt(d.Place(at), at, fmt.Sprintf("pass lets requests follow unseen, without the fields of pool %q on line %d", document.Clip(p.Name), p.Line), "hold, or no pipelining")
			default:
				v.Pipelining = PipeliningHold
			}
		}
		if names := cfg.ReplacedAt(v); v.Mode == Handoff && len(names) > MaxReplaced {
			at := document.Join(at, "routes")
			d.WrongAt(d.Place(at), at, fmt.Sprintf("lead to pools with %d fields that replace a client's own (%s), and the kernel looks for %d", len(names), strings.Join(names, ", "), MaxReplaced),
				"the same fields in all pools, client_address_mode: append, or another VIP")
		}
	}
}

// refuseFields refuses the fields of a pool whose requests the router cannot read.
func (d *decoder) refuseFields(p *Pool, v *VIP) {
	at, what, valid := document.Join(document.Join("pools", p.Name), "client_address"), string(p.ClientAddress), "proxy-v2, or a pool for each"
	if !p.ClientAddress.IsField() {
		at, what, valid = document.Join(document.Join("pools", p.Name), "add_fields"), "add_fields", "no add_fields, or a pool for each"
	} else if v.Protocol == QUIC {
		valid = "source: keep, or a pool for each"
	}
	d.WrongAt(d.Place(at), at, fmt.Sprintf("%s is for requests of HTTP, and those of the VIP on line %d are encrypted by protocol %s", what, v.Line, v.Protocol), valid)
}
