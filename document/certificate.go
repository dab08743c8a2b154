package document

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"
)

// maxPEM is more than the longest list of authorities needs, in bytes.
const maxPEM = 4 << 20

// ReadPEM reads a file with certificates or a key.
func ReadPEM(path string) ([]byte, error) {
	data, _, err := ReadFile(path, maxPEM)
	return data, err
}

// ReadKeyPair reads a certificate and its private key.
func ReadKeyPair(certificate, key string) (tls.Certificate, error) {
	c, err := ReadPEM(certificate)
	if err != nil {
		return tls.Certificate{}, err
	}
	k, err := ReadPEM(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(c, k)
}

// ReadCertificates reads the certificates of a file, at least one.
func ReadCertificates(path string) ([]*x509.Certificate, error) {
	rest, err := ReadPEM(path)
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, &os.PathError{Op: "read", Path: path, Err: errors.New("no certificate in it")}
	}
	return out, nil
}

// ReadIdentity reads a process's own certificate and key, and the authorities that its peers' certificates must be signed by.
func ReadIdentity(certificate, key, authorities string) (tls.Certificate, *x509.CertPool, error) {
	pair, err := ReadKeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("read certificate: %w", err)
	}
	all, err := ReadCertificates(authorities)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("read authorities: %w", err)
	}
	return pair, PoolOf(all), nil
}

// KeyPair reads a certificate and its private key, whose files are named by the keys certificate and key below a key path. It refuses each file that cannot
// be read, and two that do not belong together, and returns nil then.
func (d *Decoder) KeyPair(path, certificate, key string) *tls.Certificate {
	readable := true
	for _, f := range []struct{ key, file string }{{"certificate", certificate}, {"key", key}} {
		if _, err := ReadPEM(f.file); err != nil {
			d.refuseFile(Join(path, f.key), f.file, err, "a PEM file")
			readable = false
		}
	}
	if !readable {
		return nil
	}
	pair, err := ReadKeyPair(certificate, key)
	if err != nil {
		d.Refuse(Join(path, "certificate"), fmt.Sprintf("%q with key %q: %v", Clip(certificate), Clip(key), err),
			"a PEM file with the certificate and its chain, and a PEM file with its private key")
		return nil
	}
	return &pair
}

// Authorities reads certificates from the file that the value at a key path names, or refuses it and returns none.
func (d *Decoder) Authorities(path, file string) []*x509.Certificate {
	all, err := ReadCertificates(file)
	if err != nil {
		d.refuseFile(path, file, err, "a PEM file with certificates")
	}
	return all
}

// PoolOf makes a pool of certificates.
func PoolOf(all []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range all {
		pool.AddCert(c)
	}
	return pool
}

// WarnTime warns of a certificate that is not valid now. It is no error: the file may be replaced without a restart.
func (d *Decoder) WarnTime(path string, c *x509.Certificate, now time.Time) {
	subject := Clip(c.Subject.String())
	switch {
	case now.After(c.NotAfter):
		d.Warn(d.Place(path), path, fmt.Sprintf("the certificate of %q ended on %s", subject, c.NotAfter.Format(time.RFC3339)))
	case now.Before(c.NotBefore):
		d.Warn(d.Place(path), path, fmt.Sprintf("the certificate of %q begins on %s", subject, c.NotBefore.Format(time.RFC3339)))
	}
}
