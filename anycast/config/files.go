package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"baton/document"
)

// How much of a file is read, in bytes: a mistaken path must not fill the memory.
const (
	maxPEM      = 4 << 20
	maxPassword = 80 // TCP_MD5SIG_MAXKEYLEN
)

// Read reads the files anew: a certificate that has been replaced is used from the next connection on. It gives the process's own
// certificate, and those that must have signed the others'.
func (i Identity) Read() (tls.Certificate, *x509.CertPool, error) {
	certificate, err := readPEM(i.Certificate)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("read certificate: %w", err)
	}
	key, err := readPEM(i.Key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("read key: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("read certificate: %w", err)
	}
	authorities, err := readPEM(i.CA)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("read authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return tls.Certificate{}, nil, errors.New("read authorities: no certificate in " + i.CA)
	}
	return pair, pool, nil
}

func readPEM(path string) ([]byte, error) {
	data, _, err := readFile(path, maxPEM)
	return data, err
}

// readFile reads an ordinary file of at most limit bytes, and tells who may do so.
func readFile(path string, limit int64) ([]byte, os.FileMode, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not keep the process waiting
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

// readFiles checks certificates and fills in passwords, each fault at its key.
func (d *decoder) readFiles(cfg *Config, now time.Time) {
	if cfg.Identity != (Identity{}) {
		d.checkIdentity(cfg, now)
	}
	if cfg.Site == nil {
		return
	}
	for i := range cfg.Site.BGP.Peers {
		if p := &cfg.Site.BGP.Peers[i]; p.PasswordFile != "" {
			p.Password = d.password(indexed("site.bgp.peers", i)+".password_file", p.PasswordFile)
		}
	}
}

func (d *decoder) checkIdentity(cfg *Config, now time.Time) {
	i := cfg.Identity
	for _, f := range []struct{ key, path string }{{"certificate", i.Certificate}, {"key", i.Key}, {"ca", i.CA}} {
		if _, err := readPEM(f.path); err != nil {
			d.refuseFile(document.Join("identity", f.key), f.path, err)
			return
		}
	}
	pair, _, err := i.Read()
	if err != nil {
		d.Refuse("identity", err.Error(), "PEM files: a certificate, its private key, and the authorities' certificates")
		return
	}
	if pair.Leaf.VerifyHostname(cfg.Name) != nil {
		d.Refuse("identity.certificate", fmt.Sprintf("is not for %q, by which the others know this process", cfg.Name),
			"a certificate with that among its DNS names")
	}
	tell := func(what string, at time.Time) {
		const path = "identity.certificate"
		who := document.Clip(pair.Leaf.Subject.String())
		d.Warn(d.Place(path), path, fmt.Sprintf("the certificate of %q %s on %s", who, what, at.Format(time.RFC3339)))
	}
	switch {
	case now.After(pair.Leaf.NotAfter):
		tell("ended", pair.Leaf.NotAfter)
	case now.Before(pair.Leaf.NotBefore):
		tell("begins", pair.Leaf.NotBefore)
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

// password reads what a site and a router have in common; nobody else may read it. No message quotes it.
func (d *decoder) password(path, file string) string {
	data, mode, err := readFile(file, maxPassword+1)
	if err != nil {
		d.refuseFile(path, file, err)
		return ""
	}
	if mode&0o077 != 0 {
		d.Refuse(path, fmt.Sprintf("%q can be used by others than its owner: its mode is %#o", document.Clip(file), mode), "chmod 600")
		return ""
	}
	password := strings.TrimRight(string(data), "\r\n")
	if password == "" || len(password) > maxPassword {
		d.Refuse(path, fmt.Sprintf("%q holds %d bytes", document.Clip(file), len(password)),
			fmt.Sprintf("from 1 to %d, on one line (RFC 2385)", maxPassword))
	}
	return password
}
