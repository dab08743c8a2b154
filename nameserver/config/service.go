package config

import (
	"net/netip"
	"time"

	"baton/document"
)

// Service is how routed names are answered. Which surrogates a client gets is the policy's decision.
type Service struct {
	Name     string
	TTL      time.Duration // of the answers
	Answers  int           // surrogates in an answer
	Fallback Fallback
	HTTPS    *HTTPS // nil: no HTTPS records
	Path     string
}

// Fallback is the answer when no surrogate is usable: all surrogates, the addresses, or else none, which is SERVFAIL.
type Fallback struct {
	All       bool
	Addresses []netip.Addr
}

// HTTPS is what HTTPS records say beside the addresses (RFC 9460).
type HTTPS struct {
	ALPN []string
	Port uint16 // 0: that of the URL
}

// Defaults of a service.
const (
	defaultTTL     = 20 * time.Second
	defaultAnswers = 1

	maxAnswers = 8
)

func (d *decoder) service(path, name string, n *node) Service {
	s := Service{Name: name, TTL: defaultTTL, Answers: defaultAnswers, Fallback: Fallback{All: true}, Path: path}
	d.Fields(path, n, []key{
		{Name: "ttl", Default: "20s", Help: "of answers", Decode: func(path string, n *node) {
			s.TTL = d.Between(path, n, time.Second, 24*time.Hour).Truncate(time.Second)
		}},
		{Name: "answers", Default: "1", Help: "surrogates in an answer", Decode: func(path string, n *node) { s.Answers = d.Integer(path, n, 1, maxAnswers) }},
		{Name: "fallback", Default: "all", Help: "when the policy has no surrogate: all, none, or addresses",
			Decode: func(path string, n *node) { s.Fallback = d.fallback(path, n) }},
		{Name: "https", Help: "HTTPS records", Decode: func(path string, n *node) { s.HTTPS = d.https(path, n) }},
	})
	return s
}

func (d *decoder) fallback(path string, n *node) Fallback {
	if n.Kind == document.Scalar && (n.Text == "all" || n.Text == "none") {
		return Fallback{All: n.Text == "all"}
	}
	if n.Kind == document.Scalar {
		return Fallback{Addresses: []netip.Addr{d.Address(path, n)}}
	}
	d.AtMost(path, n, maxAnswers)
	return Fallback{Addresses: document.Distinct(d.Decoder, path, n, d.Address)}
}

func (d *decoder) https(path string, n *node) *HTTPS {
	h := &HTTPS{}
	d.Fields(path, n, []key{
		{Name: "alpn", Help: "protocols of the servers, such as h2", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxAnswers)
			h.ALPN = document.Distinct(d.Decoder, path, n, func(path string, n *node) string {
				s := d.Text(path, n)
				if len(s) > 255 {
					d.WrongText(n, path, s, "is too long", "such as h2 or h3")
				}
				return s
			})
		}},
		{Name: "port", Help: "of the servers, if it is not 443", Decode: func(path string, n *node) { h.Port = uint16(d.Integer(path, n, 1, 65535)) }},
	})
	d.Require(path, n, "alpn")
	return h
}

// checkServices refuses services that do not fit together with the zones.
func (d *decoder) checkServices(cfg *Config) {
	var names []string
	for _, s := range cfg.Services {
		names = append(names, s.Name)
	}
	used := make(map[string]bool)
	for _, z := range cfg.Zones {
		for _, r := range z.Routed {
			used[r.Service] = true
			d.Refer(r.Path, r.Service, "is not a service", "", "services", names)
		}
	}
	for _, s := range cfg.Services {
		if !used[s.Name] {
			d.Warn(d.Place(s.Path), s.Path, "is unused: no zone routes a name by it")
		}
	}
	if len(cfg.Services) > 0 && cfg.Policy == nil {
		d.Refuse("services", "have no policy", "policy, with sites and their surrogates")
	}
}
