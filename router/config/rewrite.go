package config

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"baton/document"
)

// Rewrite is what of a request a route changes for its surrogates. The zero value changes nothing. Routes, policies and logs go by what the
// client sent.
type Rewrite struct {
	Host   string // in place of the client's, with a port if there is one to be
	Prefix string // in place of the first Strip bytes of the path, which are those that the route matches; "": the path stays
	Strip  int
}

// Path is the target in origin form as surrogates get it.
func (r Rewrite) Path(target string) string {
	if r.Prefix == "" || len(target) < r.Strip {
		return target
	}
	return r.Prefix + target[r.Strip:]
}

// Bounds of rewrites: those of the kernel's tables.
const (
	maxRewritten = 128 // bytes of a host, and of each prefix
	maxRewrites  = 100 // different ones, with the fields of their pools
)

func (d *decoder) rewrite(path string, n *node) Rewrite {
	var r Rewrite
	d.Fields(path, n, []key{
		{Name: "host", Help: "Host field that surrogates get", Decode: func(path string, n *node) { r.Host = d.rewrittenHost(path, n) }},
		{Name: "path_prefix", Help: "instead of the prefix that the route matches", Decode: func(path string, n *node) { r.Prefix = d.rewrittenPrefix(path, n) }},
	})
	if d.Err() == nil && r == (Rewrite{}) {
		d.Wrong(n, path, "rewrites nothing", "host, path_prefix or both")
	}
	return r
}

var badEscape = regexp.MustCompile(`%.?[^0-9A-Fa-f]`)

// rewrittenPrefix decodes the beginning of a path as a surrogate is to read it: // in front is an authority, where a URL is read without its
// scheme, and dots lead elsewhere.
func (d *decoder) rewrittenPrefix(path string, n *node) string {
	s := d.pathPrefix(path, n)
	if d.Err() != nil {
		return ""
	}
	for i, segment := range strings.Split(s, "/")[1:] {
		problem := ""
		switch {
		case segment == "" && i < strings.Count(s, "/")-1:
			problem = "holds //, which servers read in different ways"
		case segment == "." || segment == "..":
			problem = fmt.Sprintf("holds %q as a segment, which leads elsewhere", segment)
		case badEscape.MatchString(segment + "/"):
			problem = "holds % without two hexadecimal digits"
		default:
			continue
		}
		d.Wrong(n, path, fmt.Sprintf("%q %s", document.Clip(s), problem), "such as /video/")
		return ""
	}
	return s
}

// rewrittenHost decodes the value of a Host field: a host as in match, without *, and a port.
func (d *decoder) rewrittenHost(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() != nil {
		return ""
	}
	const example = "such as origin.example.net or origin.example.net:8080"
	name, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		name, port = s[:i], s[i+1:]
	}
	bracketed := strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]")
	wrong := strings.Trim(port, "0123456789") != "" || len(port) > 5 || strings.HasSuffix(s, ":") || name == "" || len(s) > maxRewritten
	for _, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_'
		wrong = wrong || !letter && !(bracketed && (c == ':' || c == '[' || c == ']'))
	}
	if wrong {
		d.Wrong(n, path, fmt.Sprintf("%q is not a host", document.Clip(s)), example)
		return ""
	}
	return s
}

// checkRewrites refuses rewrites that no request can have, and those that would not be what their author means; the others know the part of
// the path that they take the place of.
func (d *decoder) checkRewrites(cfg *Config) {
	different := make(map[any]bool)
	for i := range cfg.VIPs {
		v := &cfg.VIPs[i]
		for j := range v.Routes {
			r := &v.Routes[j]
			at := document.Join(fmt.Sprintf("vips[%d].routes[%d]", i, j), "rewrite")
			if r.Rewrite == (Rewrite{}) {
				continue
			}
			d.checkRewrite(at, v, r, cfg.pool(r.Pool))
			d.holdForRewrite(fmt.Sprintf("vips[%d]", i), v, r)
			if r.Rewrite.Prefix != "" {
				r.Rewrite.Strip = len(r.Match.PathPrefix)
			}
			different[struct {
				Rewrite
				pool string
			}{r.Rewrite, r.Pool}] = true
		}
	}
	if len(different) > maxRewrites {
		d.WrongAt(d.Place("vips"), "vips", fmt.Sprintf("have routes with %d different rewrites, and the kernel has room for %d", len(different), maxRewrites), "fewer, or a VIP of mode proxy on another router")
	}
}

func (d *decoder) checkRewrite(at string, v *VIP, r *Route, p *Pool) {
	prefix := document.Join(at, "path_prefix")
	old, next := r.Match.PathPrefix, r.Rewrite.Prefix
	switch slash := strings.HasSuffix(old, "/"); {
	case v.Protocol.Encrypted():
		d.WrongAt(d.Place(at), at, fmt.Sprintf("is for requests of HTTP, and those of the VIP on line %d are encrypted by protocol %s", v.Line, v.Protocol), "no rewrite")
	case v.Mode == Redirect && r.Rewrite.Host != "":
		at := document.Join(at, "host")
		d.WrongAt(d.Place(at), at, "is not for mode redirect, where clients are sent to the surrogate's own name", "public of the surrogates")
	case p != nil && p.ClientAddress != "" && !p.ClientAddress.IsField():
		d.WrongAt(d.Place(at), at, fmt.Sprintf("cannot be combined with client_address: %s of pool %q on line %d: that is for connections, whose requests are not changed", p.ClientAddress, document.Clip(p.Name), p.Line),
			"client_address: x-forwarded-for")
	case next == "":
	case len(next) > maxRewritten || len(old) > maxRewritten:
		d.WrongAt(d.Place(prefix), prefix, fmt.Sprintf("and match.path_prefix have at most %d bytes", maxRewritten), "shorter ones")
	case next == old && r.Rewrite.Host == "":
		d.WrongAt(d.Place(prefix), prefix, fmt.Sprintf("%q is match.path_prefix, so that no path changes", document.Clip(next)), "another one, or no rewrite")
	case old == "" && strings.HasSuffix(next, "/"):
		d.WrongAt(d.Place(prefix), prefix, fmt.Sprintf("%q goes in front of whole paths, as the route has no match.path_prefix: /a would become %sa", document.Clip(next), document.Clip(next+"/")),
			cmp.Or(strings.TrimRight(next, "/"), "no path_prefix"))
	case old != "" && slash != strings.HasSuffix(next, "/"):
		example := old + strings.Repeat("/", map[bool]int{false: 1}[slash]) + "a"
		d.WrongAt(d.Place(prefix), prefix, fmt.Sprintf("%q and match.path_prefix %q do not both end with /: %s would become %s", document.Clip(next), document.Clip(old), document.Clip(example), document.Clip(next+example[len(old):])),
			"both with /, or both without")
	}
}

// holdForRewrite has the requests of a VIP wait for each other: one that follows another unseen would stay as it is.
func (d *decoder) holdForRewrite(at string, v *VIP, r *Route) {
	if v.Mode != Handoff || v.Protocol.Encrypted() {
		return
	}
	if at := document.Join(at, "pipelining"); v.Pipelining == PipeliningPass && d.Given(at) {
		d.WrongAt(d.Place(at), at, fmt.Sprintf("pass lets requests follow unseen, without the rewrite of the route on line %d", r.Line), "hold, or no pipelining")
		return
	}
	v.Pipelining = PipeliningHold
}

// pool finds a pool by name.
func (c *Config) pool(name string) *Pool {
	for i := range c.Pools {
		if c.Pools[i].Name == name {
			return &c.Pools[i]
		}
	}
	return nil
}
