package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"baton/document"
)

const maxPassword = 80 // bytes, TCP_MD5SIG_MAXKEYLEN

// Read rereads the files: a replaced certificate is used for new connections. It returns the own certificate and the authorities of the
// peers.
func (i TLS) Read() (tls.Certificate, *x509.CertPool, error) {
	return document.ReadIdentity(i.Certificate, i.Key, i.Authority)
}

// readFiles checks certificates and reads passwords; an error names its key.
func (d *decoder) readFiles(cfg *Config, now time.Time) {
	if cfg.TLS != (TLS{}) {
		d.checkIdentity(cfg, now)
	}
	if cfg.Site == nil {
		return
	}
	for i := range cfg.Site.BGP.Peers {
		if p := &cfg.Site.BGP.Peers[i]; p.PasswordFile != "" {
			p.Password = d.password(document.Index("site.bgp.peers", i)+".password_file", p.PasswordFile)
		}
	}
}

func (d *decoder) checkIdentity(cfg *Config, now time.Time) {
	i := cfg.TLS
	d.Authorities("tls.authority", i.Authority)
	pair := d.KeyPair("tls", i.Certificate, i.Key)
	if pair == nil {
		return
	}
	if pair.Leaf.VerifyHostname(cfg.Name) != nil {
		d.Refuse("tls.certificate", fmt.Sprintf("is not for %q, by which the others know this process", cfg.Name),
			"a certificate with that among its DNS names")
	}
	d.WarnTime("tls.certificate", pair.Leaf, now)
}

// password reads the shared secret of a BGP session, which only its owner may read. No message quotes it.
func (d *decoder) password(path, file string) string {
	data, mode, err := document.ReadFile(file, maxPassword+1)
	if err != nil {
		d.RefuseFile(path, file, err)
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
