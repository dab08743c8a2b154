package config

import (
	"crypto/tls"
	"crypto/x509"

	"baton/document"
)

var rules = document.Rules{Bytes: 1 << 20, Nodes: 1 << 18, Empty: "at least ports", Root: "a mapping with ports"}

// Error is the one thing that is wrong with a configuration: the first, in the order of checking.
type Error = document.Error

// Load reads and checks the file, and the certificates that it names. An error about the content is an *Error; one about
// reading the file wraps the cause. The caller owns the result.
func Load(path string) (*Config, error) {
	data, err := rules.Read(path)
	if err != nil {
		return nil, err
	}
	cfg, d, err := parse(path, data)
	if err != nil {
		return nil, err
	}
	if cfg.TLS != nil {
		d.checkFiles(cfg.TLS)
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	return cfg, nil
}

// Parse checks the content of a configuration file and fills in the defaults; name stands for the file in messages, and for
// the forwarder where it has no name. It reads no other file. It returns a configuration or an *Error, never both.
func Parse(name string, data []byte) (*Config, error) {
	cfg, _, err := parse(name, data)
	return cfg, err
}

func parse(name string, data []byte) (*Config, *decoder, error) {
	root, err := document.Parse(name, data, rules)
	if err != nil {
		return nil, nil, err
	}
	d := &decoder{document.NewDecoder(name)}
	cfg := d.config(root, name)
	if d.Err() == nil {
		d.crossCheck(cfg)
	}
	if d.Err() != nil {
		return nil, nil, d.Err()
	}
	return cfg, d, nil
}

// Read reads the files anew: a certificate that has been replaced is used from the next channel on.
func (t *TLS) Read() (tls.Certificate, *x509.CertPool, error) {
	return document.ReadIdentity(t.Certificate, t.Key, t.Authority)
}

// checkFiles refuses certificates that cannot be used, each at its key.
func (d *decoder) checkFiles(t *TLS) {
	for _, f := range []struct{ key, path string }{{"certificate", t.Certificate}, {"key", t.Key}, {"authority", t.Authority}} {
		if _, err := document.ReadPEM(f.path); err != nil {
			d.RefuseFile("tls."+f.key, f.path, err)
			return
		}
	}
	if _, err := document.ReadKeyPair(t.Certificate, t.Key); err != nil {
		d.Refuse("tls.certificate", err.Error(), "a PEM file with a certificate, and its private key in tls.key")
	}
	if _, err := document.ReadCertificates(t.Authority); err != nil {
		d.RefuseFile("tls.authority", t.Authority, err)
	}
}
