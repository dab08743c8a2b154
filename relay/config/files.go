package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"baton/document"
)

// How much of a file is read, in bytes: a mistaken path must not fill the memory.
const (
	maxPEM    = 4 << 20
	maxSecret = 4 << 10
)

const leastSecret = 32 // bytes, as many as SHA-256 gives (RFC 2104, section 3)

// Read reads the files of TLS anew: a certificate that has been replaced is used from the next trunk on. It gives this relay's
// certificate, and those that must have signed the peers'.
func (c *Credentials) Read() (tls.Certificate, *x509.CertPool, error) {
	pair, err := readPair(c.Certificate, c.Key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("read certificate: %w", err)
	}
	authorities, err := readCertificates(c.CA)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("read authorities: %w", err)
	}
	pool := x509.NewCertPool()
	for _, a := range authorities {
		pool.AddCert(a)
	}
	return pair, pool, nil
}

func readPair(certificate, key string) (tls.Certificate, error) {
	c, err := readPEM(certificate)
	if err != nil {
		return tls.Certificate{}, err
	}
	k, err := readPEM(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(c, k)
}

func readCertificates(path string) ([]*x509.Certificate, error) {
	rest, err := readPEM(path)
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
		return nil, errors.New("no certificate in it")
	}
	return out, nil
}

func readPEM(path string) ([]byte, error) {
	data, _, err := readFile(path, maxPEM)
	return data, err
}

// readFile reads an ordinary file of at most limit bytes, and tells who may do so.
func readFile(path string, limit int64) ([]byte, os.FileMode, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not keep the relay waiting
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("not an ordinary file")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("longer than %d bytes", limit)
	}
	return data, info.Mode().Perm(), err
}

// readFiles checks certificates and fills in secrets, each fault at its key.
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
	for _, f := range []struct{ key, path string }{{"certificate", c.Certificate}, {"key", c.Key}, {"ca", c.CA}} {
		if _, err := readPEM(f.path); err != nil {
			d.refuseFile(document.Join(s.path, f.key), f.path, err)
			return
		}
	}
	at := document.Join(s.path, "certificate")
	pair, err := readPair(c.Certificate, c.Key)
	if err != nil {
		d.Refuse(at, err.Error(), "a PEM file with a certificate, and its private key in "+document.Join(s.path, "key"))
		return
	}
	if pair.Leaf.VerifyHostname(name) != nil {
		d.Refuse(at, fmt.Sprintf("is not for %q, by which peers know this relay", name), "a certificate with that among its DNS names")
	}
	// RFC 5280, section 4.2.1.12; who has none may be used for all.
	usages := pair.Leaf.ExtKeyUsage
	may := func(u x509.ExtKeyUsage) bool {
		return len(usages)+len(pair.Leaf.UnknownExtKeyUsage) == 0 || slices.Contains(usages, u) || slices.Contains(usages, x509.ExtKeyUsageAny)
	}
	if s.opens && !may(x509.ExtKeyUsageClientAuth) {
		d.Refuse(at, "is not for clients, which this relay is where it opens trunks", "an extended key usage of clientAuth, too")
	}
	if s.accepts && !may(x509.ExtKeyUsageServerAuth) {
		d.Refuse(at, "is not for servers, which this relay is where it accepts trunks", "an extended key usage of serverAuth, too")
	}
	d.warnTime(at, pair.Leaf, now)
	authorities, err := readCertificates(c.CA)
	if err != nil {
		d.refuseFile(document.Join(s.path, "ca"), c.CA, err)
	}
	for _, a := range authorities {
		d.warnTime(document.Join(s.path, "ca"), a, now)
	}
}

// warnTime tells of a certificate that others refuse now: it may be replaced without a restart.
func (d *decoder) warnTime(path string, c *x509.Certificate, now time.Time) {
	who := document.Clip(c.Subject.String())
	switch {
	case now.After(c.NotAfter):
		d.Warn(d.Place(path), path, fmt.Sprintf("the certificate of %q ended on %s", who, c.NotAfter.Format(time.RFC3339)))
	case now.Before(c.NotBefore):
		d.Warn(d.Place(path), path, fmt.Sprintf("the certificate of %q begins on %s", who, c.NotBefore.Format(time.RFC3339)))
	}
}

// refuseFile says what is wrong with a file, without the operation and the path that the error may have.
func (d *decoder) refuseFile(path, file string, err error) {
	var cause *os.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	d.Refuse(path, fmt.Sprintf("%q: %v", document.Clip(file), err), "")
}

const makeSecret = "openssl rand -base64 32"

// secret reads what two relays have in common; nobody else may read it. No message quotes it.
func (d *decoder) secret(path, file string) []byte {
	data, mode, err := readFile(file, maxSecret)
	if err != nil {
		d.refuseFile(path, file, err)
		return nil
	}
	if mode&0o077 != 0 {
		d.Refuse(path, fmt.Sprintf("%q can be used by others than its owner: its mode is %#o", document.Clip(file), mode), "chmod 600")
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

// decodeSecret takes for hex what can be: base64 of so many random bytes is hex, too, once in 10^20 times at most.
func decodeSecret(s string) ([]byte, bool) {
	if b, err := hex.DecodeString(s); err == nil {
		return b, true
	}
	b, err := base64.StdEncoding.DecodeString(s) // in lines, too, as openssl writes longer ones
	return b, err == nil
}
