package peers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"baton/lab"
)

// Authority signs the certificates of a lab's servers, for the time of a run.
type Authority struct {
	Pool *x509.CertPool
	File string // its certificate, for clients

	lab  *lab.Lab
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

const certificateLife = 24 * time.Hour

// NewAuthority makes an authority whose files are in the lab's folder.
func NewAuthority(l *lab.Lab) *Authority {
	l.T().Helper()
	a := &Authority{lab: l, Pool: x509.NewCertPool(), File: filepath.Join(l.Dir(), "authority.pem")}
	a.key = a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lab"}, NotAfter: time.Now().Add(certificateLife), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = template
	der := a.create(template, a.key)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		l.T().Fatalf("make an authority: %v", err)
	}
	a.Pool.AddCert(a.cert)
	a.write(a.File, "CERTIFICATE", der)
	return a
}

// Sign writes a certificate for the names, of ECDSA P-256, and its key to files, which are called as the first name.
func (a *Authority) Sign(names ...string) (certificate, key string) {
	a.lab.T().Helper()
	own := a.newKey()
	der := a.create(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotAfter: time.Now().Add(certificateLife),
	}, own)
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		a.lab.T().Fatalf("sign a certificate: %v", err)
	}
	certificate, key = a.fileOf(names[0]), filepath.Join(a.lab.Dir(), names[0]+".key")
	a.write(certificate, "CERTIFICATE", der)
	a.write(key, "PRIVATE KEY", private)
	return certificate, key
}

// fileOf is the certificate whose first name it is.
func (a *Authority) fileOf(name string) string { return filepath.Join(a.lab.Dir(), name+".pem") }

func parseCertificate(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the certificate is not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.lab.T().Fatalf("make a key: %v", err)
	}
	return key
}

func (a *Authority) create(template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.lab.T().Fatalf("sign a certificate: %v", err)
	}
	return der
}

func (a *Authority) write(file, kind string, der []byte) {
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644); err != nil {
		a.lab.T().Fatalf("write a certificate: %v", err)
	}
}
