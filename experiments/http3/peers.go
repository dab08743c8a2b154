package http3

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"

	"baton/lab"
	"baton/lab/peers"
)

// variant is a way in which a server serves, by a name of its own.
type variant string

const (
	plain variant = ""
	retry variant = "retry" // it validates every client by a Retry
	big   variant = "big"   // its certificate has more bytes than it may send to a client that is not validated
	named variant = "named" // its connection ids name it
)

var variants = []variant{plain, retry, big, named}

// kinds are the servers; the first one serves the costs.
var kinds = []string{"quic-go", "aioquic", "caddy", "nginx"}

// server is a server of HTTP/3 on its host.
type server struct {
	kind    string
	host    *lab.Host
	address netip.Addr
	id      string            // in its connection ids, hexadecimal
	lacks   map[string]string // situation → why it is not offered
	silent  bool              // it does not say whether a session was resumed, and early data accepted
}

// port is where a server serves in a way.
func (v variant) port() uint16 {
	for i, w := range variants[1:] {
		if v == w {
			return uint16(8443 + i)
		}
	}
	return 443
}

func (s *server) at(v variant) netip.AddrPort {
	if v == big && s.kind == "caddy" { // it chooses the certificate by the name
		v = plain
	}
	return netip.AddrPortFrom(s.address, v.port())
}

func (s *server) name(v variant) string {
	if v == plain {
		return s.kind + ".test"
	}
	return string(v) + "." + s.kind + ".test"
}

// manyNames is how many names a big certificate has: 9 kB, where a hello of two datagrams allows 7,200 bytes.
const manyNames = 300

// sign makes the server's certificate.
func (s *server) sign(a *peers.Authority, v variant) (certificate, key string) {
	names := []string{s.name(v)}
	for i := range manyNames {
		if v == big {
			names = append(names, fmt.Sprintf("a-name-that-is-long-%03d.test", i))
		}
	}
	return a.Sign(names...)
}

// idPrefix is how connection ids begin that name the server: draft-ietf-quic-load-balancers, rotation 1.
func (s *server) idPrefix() string {
	b, _ := hex.DecodeString("20" + s.id) // our own digits
	return string(b)
}

// start starts the server. It returns its process; nil: it is in this one, or not there.
func (s *server) start(a *peers.Authority) *peers.Server {
	switch s.kind {
	case "quic-go":
		for _, v := range variants {
			o := peers.QUICGoOptions{Port: int(v.port()), Retry: v == retry, More: map[string]http.Handler{paced: http.HandlerFunc(pace)}}
			o.Certificate, o.Key = s.sign(a, v)
			if v == named {
				o.IDs = s.idPrefix()
			}
			peers.QUICGoServer(s.host, o)
		}
		return nil
	case "aioquic":
		o := peers.AioquicOptions{IDs: s.idPrefix()}
		for _, v := range variants {
			l := peers.AioquicListen{Port: int(v.port()), Retry: v == retry, Named: v == named}
			l.Certificate, l.Key = s.sign(a, v)
			o.Listen = append(o.Listen, l)
		}
		return peers.AioquicServer(s.host, o)
	case "caddy":
		return s.startCaddy(a)
	}
	return s.startNginx(a)
}

const noLayout = "the server's connection ids do not name it"

func (s *server) startCaddy(a *peers.Authority) *peers.Server {
	const stays = "the server goes on sending to the client's first address (the quic-go of Caddy 2.6)"
	s.silent = true
	s.lacks = map[string]string{
		"retry": "the server sends a Retry under load alone", "migration": noLayout, "rebind port": stays, "rebind address": stays,
		"v2": "the server knows a draft of version 2, which has another number",
	}
	o := peers.CaddyOptions{Site: s.name(plain)}
	o.Certificate, o.Key = s.sign(a, plain)
	more := peers.CaddySite{Site: s.name(big)}
	more.Certificate, more.Key = s.sign(a, big)
	o.More = []peers.CaddySite{more}
	return peers.Caddy(s.host, o)
}

func (s *server) startNginx(a *peers.Authority) *peers.Server {
	if !peers.NginxHasHTTP3() {
		s.lacks = map[string]string{everything: "this nginx has no HTTP/3 (Debian 12's has not, Debian 13's has)"}
		return nil
	}
	s.lacks = map[string]string{"v2": "the server knows version 1 alone", "migration": noLayout, "0-RTT": "nginx has none in QUIC with Debian's OpenSSL"}
	o := peers.NginxHTTP3Options{Site: s.name(plain), Retry: s.name(retry), RetryPort: int(retry.port()), Big: s.name(big), BigPort: int(big.port())}
	for _, v := range []struct {
		variant
		to *[2]string
	}{{plain, &o.Pair}, {retry, &o.RetryPair}, {big, &o.BigPair}} {
		v.to[0], v.to[1] = s.sign(a, v.variant)
	}
	return peers.NginxHTTP3(s.host, o)
}

// client is a client of HTTP/3.
type client struct {
	name  string
	visit peers.Client
	lacks map[string]string
}

func clients() []client {
	const oneVersion = "the client knows version 1 alone"
	const stays = "the client does not migrate by itself"
	return []client{
		{name: "quic-go", visit: peers.QUICGo},
		{name: "aioquic", visit: peers.Aioquic},
		{name: "curl", visit: peers.CurlHTTP3, lacks: map[string]string{"v2": oneVersion, "migration": stays}},
		{name: "chromium", visit: peers.ChromiumHTTP3, lacks: map[string]string{"v2": oneVersion, "migration": stays}},
	}
}

func pair(client, server string) string { return client + " → " + server }
