package config

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"time"

	"baton/document"
	"baton/packet/hello"
)

// maxKeyPairs bounds the certificates of a VIP: one is chosen by trying each.
const maxKeyPairs = 1024

// keyPairs decodes a certificate with its key, or a list of them.
func (d *decoder) keyPairs(path string, n *node) []KeyPair {
	if n.Kind == document.Mapping {
		return []KeyPair{d.keyPair(path, n)}
	}
	if n.Kind == document.Scalar {
		d.Wrong(n, path, "is a single value", "such as [{certificate: /etc/baton/site.pem, key: /etc/baton/site.key}]")
		return nil
	}
	var out []KeyPair
	d.AtMost(path, n, maxKeyPairs)
	d.NonEmptyList(path, n, func(at string, n *node) { out = append(out, d.keyPair(at, n)) })
	return out
}

func (d *decoder) keyPair(path string, n *node) KeyPair {
	var k KeyPair
	d.Fields(path, n, []key{
		{Name: "certificate", Help: "PEM file with the certificate and its chain", Decode: func(path string, n *node) { k.Certificate = d.FilePath(path, n) }},
		{Name: "key", Help: "PEM file with the private key", Decode: func(path string, n *node) { k.Key = d.FilePath(path, n) }},
	})
	d.Require(path, n, "certificate", "key")
	return k
}

// readKeyPairs reads the VIPs' certificates; each error names its key and file.
func (d *decoder) readKeyPairs(cfg *Config, now time.Time) {
	for i := range cfg.VIPs {
		v := &cfg.VIPs[i]
		path := document.Join(document.Index("vips", i), "tls")
		complete := true
		for j := range v.TLS {
			at := document.Index(path, j)
			if !d.Given(at) {
				at = path // a mapping instead of a list
			}
			complete = d.readKeyPair(at, &v.TLS[j], now) && complete
		}
		if complete && len(v.TLS) > 0 {
			d.warnUncovered(i, v)
		}
	}
	cfg.Warnings = d.Warnings()
}

func (d *decoder) readKeyPair(at string, k *KeyPair, now time.Time) bool {
	pair := d.KeyPair(at, k.Certificate, k.Key)
	if pair == nil {
		return false
	}
	d.WarnTime(document.Join(at, "certificate"), pair.Leaf, now)
	k.Pair = *pair
	return true
}

// warnUncovered warns of hosts that no certificate of their VIP is for.
func (d *decoder) warnUncovered(vip int, v *VIP) {
	covers := func(host string) bool {
		return slices.ContainsFunc(v.TLS, func(k KeyPair) bool {
			if !strings.HasPrefix(host, "*") {
				return k.Pair.Leaf.VerifyHostname(host) == nil
			}
			return slices.ContainsFunc(k.Pair.Leaf.DNSNames, func(name string) bool { return hello.Canonical(name) == host })
		})
	}
	for j, r := range v.Routes {
		if host := r.Match.Host; host != "" && !covers(host) {
			at := fmt.Sprintf("vips[%d].routes[%d].match.host", vip, j)
			d.Warn(d.Place(at), at, "no certificate of the VIP covers "+host)
		}
	}
}

// Certificates are the certificates of a VIP that uses TLS itself.
func (v *VIP) Certificates() []tls.Certificate {
	out := make([]tls.Certificate, len(v.TLS))
	for i, k := range v.TLS {
		out[i] = k.Pair
	}
	return out
}
