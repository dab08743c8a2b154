package config

import (
	"fmt"

	"baton/document"
	"baton/packet/hello"
)

// sni decodes a name to be compared with that in a TLS hello: a name, or "*." and the rest of it.
func (d *decoder) sni(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() != nil {
		return ""
	}
	if err := hello.CheckPattern(s); err != nil {
		d.Wrong(n, path, fmt.Sprintf("%q cannot be matched: %v", document.Clip(s), err), "such as cdn.example.net or *.example.net")
		return ""
	}
	return hello.Canonical(s)
}

// maxALPN is the length of a protocol's name in bytes, RFC 7301 section 3.1.
const maxALPN = 255

func (d *decoder) alpn(path string, n *node) []string {
	names := document.Distinct(d.Decoder, path, n, d.Text)
	for _, name := range names {
		if len(name) > maxALPN {
			d.Wrong(n, path, fmt.Sprintf("%q is longer than %d bytes", document.Clip(name), maxALPN), "such as h2 or http/1.1")
		}
	}
	return names
}

// checkProtocol refuses settings that do not fit the protocol of the VIP.
func (d *decoder) checkProtocol(path string, n *node, v *VIP) {
	at := document.Join(path, "tls")
	if len(v.TLS) > 0 && (v.Mode == Handoff || v.Protocol.Encrypted()) {
		problem, remedy := "needs a socket, and sessions of mode handoff are spliced", "mode: proxy, or protocol: tls with the certificates at the surrogates"
		if v.Protocol.Encrypted() {
			problem, remedy = "is for protocol http: with protocol tls the surrogates have the certificates", "no tls, or mode: proxy without protocol"
		}
		d.WrongAt(d.Place(at), at, problem, remedy)
	}
	if !v.Protocol.Encrypted() {
		d.refuseKeys(path, v.Routes, []string{"sni", "alpn", "no_sni"}, "is for protocol tls: an HTTP request has no TLS hello", "host, or protocol: tls for the VIP")
		return
	}
	if v.Protocol == QUIC {
		d.checkQUICVIP(path, v)
	}
	switch {
	case v.Mode == Redirect && v.Protocol == TLS:
		d.WrongAt(d.Place(document.Join(path, "mode")), document.Join(path, "mode"), "redirect needs the request, which TLS encrypts", "handoff or proxy")
	case v.Pipelining != "":
		d.Wrong(n, document.Join(path, "pipelining"), "needs the requests, which TLS encrypts", "no pipelining: all requests of a connection go to the same surrogate")
	}
	d.refuseKeys(path, v.Routes, []string{"host", "path_prefix", "path_regex", "methods", "headers"}, "is a part of the request, which TLS encrypts", "sni or alpn")
	for i, r := range v.Routes {
		if at := fmt.Sprintf("%s.routes[%d].match", path, i); r.Match.NoSNI && r.Match.SNI != "" {
			d.WrongAt(d.Place(at), at, "has both sni and no_sni", "a route for each")
		}
	}
}

// refuseKeys refuses keys of the routes' matches.
func (d *decoder) refuseKeys(path string, routes []Route, keys []string, problem, remedy string) {
	for i := range routes {
		for _, key := range keys {
			at := document.Join(fmt.Sprintf("%s.routes[%d].match", path, i), key)
			if d.Given(at) {
				d.WrongAt(d.Place(at), at, problem, remedy)
			}
		}
	}
}

// checkEncrypted finds the pools of encrypted sessions, and refuses what a pool of them cannot have.
func (d *decoder) checkEncrypted(cfg *Config) {
	first := make(map[string]*VIP) // by pool
	pools := make(map[string]*Pool, len(cfg.Pools))
	for i := range cfg.Pools {
		pools[cfg.Pools[i].Name] = &cfg.Pools[i]
	}
	for i := range cfg.VIPs {
		v := &cfg.VIPs[i]
		for j, r := range v.Routes {
			p := pools[r.Pool]
			if p == nil {
				continue
			}
			if other := first[r.Pool]; other != nil && other.Protocol.Encrypted() != v.Protocol.Encrypted() {
				at := fmt.Sprintf("vips[%d].routes[%d].pool", i, j)
				d.WrongAt(d.Place(at), at, fmt.Sprintf("%q has protocol %s here and %s at the VIP on line %d", document.Clip(r.Pool), v.Protocol, other.Protocol, other.Line),
					"a pool for each")
				continue
			}
			first[r.Pool] = v
			p.Encrypted = v.Protocol.Encrypted()
		}
	}
	for i := range cfg.Pools {
		if p := &cfg.Pools[i]; p.Encrypted {
			d.checkEncryptedPool(p)
		}
	}
}

func (d *decoder) checkEncryptedPool(p *Pool) {
	path := document.Join("pools", p.Name)
	if at := document.Join(path, "reuse"); d.Given(at) && p.Reuse != ReuseNever {
		d.WrongAt(d.Place(at), at, fmt.Sprintf("%s is for HTTP: a connection of TLS serves one client", p.Reuse), "never, or no reuse")
	}
	p.Reuse = ReuseNever
	if at := document.Join(document.Join(path, "health"), "path"); p.Health != nil && !d.Given(at) {
		p.Health.Path = "" // names and certificates are checked
	}
	if at := document.Join(path, "hash_query"); p.HashQuery != nil {
		d.WrongAt(d.Place(at), at, "is a part of the request, which TLS encrypts", "no hash_query: the client's prefix and the name in its hello are hashed")
	}
}
