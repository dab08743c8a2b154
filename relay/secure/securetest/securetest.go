// Package securetest makes certificates for tests of trunks.
package securetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"baton/relay/config"
)

// Authority signs certificates.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes one.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "relays"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key := newKey(t)
	return &Authority{certificate: sign(t, template, template, key, key), key: key}
}

// Certificate describes how a certificate differs from an ordinary one.
type Certificate struct {
	Names  []string
	Ended  bool               // expired an hour ago
	Usages []x509.ExtKeyUsage // none: for all
	Trusts *Authority         // nil: the signing one
}

// Issue writes a relay's files, and returns them as credentials.
func (a *Authority) Issue(t testing.TB, c Certificate) config.Credentials {
	t.Helper()
	dir := t.TempDir()
	out := config.Credentials{
		Security: config.TLS, Certificate: filepath.Join(dir, "relay.pem"), Key: filepath.Join(dir, "relay-key.pem"),
		Authority: filepath.Join(dir, "relays-ca.pem"),
	}
	a.Replace(t, out, c)
	return out
}

// Replace replaces the files of a relay.
func (a *Authority) Replace(t testing.TB, files config.Credentials, c Certificate) {
	t.Helper()
	end := time.Now().Add(time.Hour)
	if c.Ended {
		end = time.Now().Add(-time.Hour)
	}
	key := newKey(t)
	own := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: c.Names[0]}, DNSNames: c.Names, ExtKeyUsage: c.Usages,
		NotBefore: end.Add(-24 * time.Hour), NotAfter: end,
	}, a.certificate, key, a.key)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if c.Trusts == nil {
		c.Trusts = a
	}
	write(t, files.Certificate, "CERTIFICATE", own.Raw)
	write(t, files.Key, "PRIVATE KEY", private)
	write(t, files.Authority, "CERTIFICATE", c.Trusts.certificate.Raw)
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
