package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"baton/document"
)

// The minimum length of a secret, that of SHA-256's output (RFC 2104, section 3), and the maximum size of its file, in bytes.
const (
	leastSecret = 32
	maxSecret   = 4 << 10
)

// Read rereads the TLS files, so that the next trunk uses a replaced certificate. It returns this relay's certificate, and the authorities
// for those of peers.
func (c *Credentials) Read() (tls.Certificate, *x509.CertPool, error) {
	return document.ReadIdentity(c.Certificate, c.Key, c.Authority)
}

// readFiles checks certificates and reads secrets; each error names its key.
func (d *decoder) readFiles(cfg *Config, now time.Time) {
	for _, s := range d.sections(cfg) {
		c := s.users[0]
		if c.Security == TLS {
			d.checkCertificates(s, c, cfg.Name, now)
			continue
		}
		secret := d.secret(document.Join(s.path, "secret_file"), c.SecretFile)
		for _, u := range s.users {
			u.Secret = secret
		}
	}
}

func (d *decoder) checkCertificates(s *section, c *Credentials, name string, now time.Time) {
	authority := document.Join(s.path, "authority")
	for _, a := range d.Authorities(authority, c.Authority) {
		d.WarnTime(authority, a, now)
	}
	at, pair := document.Join(s.path, "certificate"), d.KeyPair(s.path, c.Certificate, c.Key)
	if pair == nil {
		return
	}
	if pair.Leaf.VerifyHostname(name) != nil {
		d.Refuse(at, fmt.Sprintf("is not for %q, by which peers know this relay", name), "a certificate with that among its DNS names")
	}
	// RFC 5280, section 4.2.1.12: a certificate without key usages is valid for all.
	usages := pair.Leaf.ExtKeyUsage
	may := func(u x509.ExtKeyUsage) bool {
		return len(usages)+len(pair.Leaf.UnknownExtKeyUsage) == 0 || slices.Contains(usages, u) || slices.Contains(usages, x509.ExtKeyUsageAny)
	}
	if s.opens && !may(x509.ExtKeyUsageClientAuth) {
		d.Refuse(at, "is not valid for TLS clients, but this relay opens trunks", "add the extended key usage clientAuth")
	}
	if s.accepts && !may(x509.ExtKeyUsageServerAuth) {
		d.Refuse(at, "is not valid for TLS servers, but this relay accepts trunks", "add the extended key usage serverAuth")
	}
	d.WarnTime(at, pair.Leaf, now)
}

const makeSecret = "openssl rand -base64 32"

// secret reads the secret that two relays share, which only its owner may read. No message quotes it.
func (d *decoder) secret(path, file string) []byte {
	data, mode, err := document.ReadFile(file, maxSecret)
	if err != nil {
		d.RefuseFile(path, file, err)
		return nil
	}
	if mode&0o077 != 0 {
		d.Refuse(path, fmt.Sprintf("%q is accessible to others than its owner: its mode is %#o", document.Clip(file), mode), "chmod 600")
		return nil
	}
	secret, ok := decodeSecret(strings.TrimSpace(string(data)))
	switch {
	case !ok:
		d.Refuse(path, fmt.Sprintf("%q holds neither base64 nor hex", document.Clip(file)), makeSecret)
	case len(secret) < leastSecret:
		d.Refuse(path, fmt.Sprintf("%q holds %d bytes", document.Clip(file), len(secret)),
			fmt.Sprintf("at least %d: %s", leastSecret, makeSecret))
	}
	return secret
}

// decodeSecret prefers hex: base64 of random bytes of this length is valid hex at most once in 10^20 times.
func decodeSecret(s string) ([]byte, bool) {
	if b, err := hex.DecodeString(s); err == nil {
		return b, true
	}
	b, err := base64.StdEncoding.DecodeString(s) // may be in several lines, as openssl writes long ones
	return b, err == nil
}
