package config

import (
	"crypto/tls"
	"crypto/x509"

	"baton/document"
)

var rules = document.Rules{Bytes: 1 << 20, Nodes: 1 << 18, Empty: "at least ports", Root: "a mapping with ports"}

// Error is what is wrong with a configuration.
type Error = document.Error

// Load reads and checks the file, and the certificates that it names. An error about the content is an *Error with all
// mistakes; one about reading the file wraps the cause. The caller owns the result.
func Load(path string) (*Config, error) {
	return document.Load(path, rules, decode, check, readFiles)
}

// Parse is Load of a content that is there already; name stands for the file in messages, and for the forwarder where it has
// no name. It reads no other file. It returns a configuration or an
// *Error, never both.
func Parse(name string, data []byte) (*Config, error) {
	return document.ParseAs(name, data, rules, decode, check)
}

func decode(d *document.Decoder, root *node) *Config { return (&decoder{d}).config(root, d.File()) }

func check(d *document.Decoder, cfg *Config) { (&decoder{d}).crossCheck(cfg) }

func readFiles(d *document.Decoder, cfg *Config) {
	if cfg.TLS != nil {
		(&decoder{d}).checkFiles(cfg.TLS)
	}
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
