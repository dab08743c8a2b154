package certs

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"baton/document"
	"baton/packet/hello"
	"baton/router/config"
	"baton/router/route"
)

// Soon is how long before its end a certificate is worth a warning. Those that are renewed by ACME are renewed 30 days before.
const Soon = 14 * 24 * time.Hour

// Certificate is what a surrogate shows for a name.
type Certificate struct {
	Seen
	Warnings []string
}

// Overlap is a name by which certificates of two pools overlap.
type Overlap struct {
	VIP         netip.AddrPort
	Pool, Other string   // in the order of the file
	Names       []string // of the certificates
}

// Report is what is to be said about the certificates seen.
type Report struct {
	Surrogates map[string][]Certificate // by name
	Overlaps   []Overlap
	Warnings   []string // one line each, in the form of errors in the configuration
}

// Look makes the report. seen returns what a surrogate has shown.
func Look(cfg *config.Config, routes *route.Table, seen func(surrogate string) []Seen, now time.Time) *Report {
	r := &Report{Surrogates: make(map[string][]Certificate)}
	shown := make(map[string][]Seen) // by pool
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		if !p.Encrypted {
			continue
		}
		for j := range p.Surrogates {
			s := &p.Surrogates[j]
			all := seen(s.Name)
			shown[p.Name] = append(shown[p.Name], all...)
			at := document.Index(document.Join("pools", p.Name)+".surrogates", j)
			for k := range all {
				c := Certificate{all[k], judge(&all[k], now)}
				r.Surrogates[s.Name] = append(r.Surrogates[s.Name], c)
				for _, text := range c.Warnings {
					r.warn(cfg, at, text)
				}
			}
		}
	}
	r.own(cfg, now)
	r.overlaps(cfg, routes, shown)
	return r
}

func (r *Report) warn(cfg *config.Config, at, text string) {
	line := cfg.Places.Wrong(at, text, "").Error()
	if !slices.Contains(r.Warnings, line) {
		r.Warnings = append(r.Warnings, line)
	}
}

// judge says what is wrong with a certificate, but not whether it is trusted.
func judge(s *Seen, now time.Time) []string {
	if s.Leaf == nil {
		text := "refuses the handshake" + forName(s.Name) + ": " + s.Refused
		if s.MadeUp {
			text += " (set health.host to a name that it has)"
		}
		return []string{text}
	}
	var out []string
	name := s.Route
	if name == "" {
		name = s.Name
	}
	if s.Name != "" && !covers(s.Leaf.DNSNames, s.Name) {
		out = append(out, fmt.Sprintf("certificate does not cover %s: it is for %s", name, names(s.Leaf.DNSNames)))
	}
	if text := validity(s.Leaf, now); text != "" {
		out = append(out, "certificate"+forName(name)+" "+text)
	}
	return out
}

// validity says that a certificate is not valid, or not for long; "" if it is.
func validity(c *x509.Certificate, now time.Time) string {
	ends := c.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case now.After(c.NotAfter):
		return "expired on " + ends
	case now.Add(Soon).After(c.NotAfter):
		return "expires on " + ends + ", within 14 days"
	case now.Before(c.NotBefore):
		return "is not valid before " + c.NotBefore.UTC().Format(time.RFC3339)
	}
	return ""
}

// own looks at the router's own certificates. Those of Parse are not there.
func (r *Report) own(cfg *config.Config, now time.Time) {
	for i := range cfg.VIPs {
		v := &cfg.VIPs[i]
		for j, k := range v.TLS {
			if k.Pair.Leaf == nil {
				continue
			}
			if text := validity(k.Pair.Leaf, now); text != "" {
				at := document.Index(document.Join(document.Index("vips", i), "tls"), j)
				r.warn(cfg, at, fmt.Sprintf("certificate %s, for %s, %s", document.Clip(k.Certificate), names(k.Pair.Leaf.DNSNames), text))
			}
		}
	}
}

// mostNames is how many of a certificate's names a message has.
const mostNames = 5

func names(all []string) string {
	if len(all) == 0 {
		return "no DNS name"
	}
	more := ""
	if len(all) > mostNames {
		more = fmt.Sprintf(" and %d more", len(all)-mostNames)
		all = all[:mostNames]
	}
	clipped := make([]string, len(all))
	for i, name := range all {
		clipped[i] = document.Clip(name)
	}
	return strings.Join(clipped, ", ") + more
}

func covers(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return hello.Match(hello.Canonical(p), name) })
}
