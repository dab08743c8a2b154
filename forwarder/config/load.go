package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"baton/document"
)

var rules = document.Rules{Bytes: 1 << 20, Nodes: 1 << 18, Empty: "at least ports", Root: "a mapping with ports"}

// Error is an error in a configuration.
type Error = document.Error

// Load reads and checks the file and the certificates that it names. Errors in the content are an *Error that lists all of them; errors of
// reading the file wrap the cause. The caller owns the result.
func Load(path string) (*Config, error) {
	return document.Load(path, rules, decode, check, readFiles)
}

// Parse is Load of given content; name is the file's name in messages, and the default of the forwarder's name. It reads no other files. It
// returns either a configuration or an *Error.
func Parse(name string, data []byte) (*Config, error) {
	return document.ParseAs(name, data, rules, decode, check)
}

func decode(d *document.Decoder, root *node) *Config { return (&decoder{d}).config(root, d.File()) }

func check(d *document.Decoder, cfg *Config) { (&decoder{d}).crossCheck(cfg) }

func readFiles(d *document.Decoder, cfg *Config) {
	if cfg.TLS != nil {
		(&decoder{d}).checkFiles("", cfg.TLS)
	}
	for i, one := range cfg.Datapaths {
		if one.TLS != nil && one.TLS != cfg.TLS {
			(&decoder{d}).checkFiles(fmt.Sprintf("%s[%d].", datapaths, i), one.TLS)
		}
	}
}

// Read reads the files again, so that a replaced certificate is used from the next channel on.
func (t *TLS) Read() (tls.Certificate, *x509.CertPool, error) {
	return document.ReadIdentity(t.Certificate, t.Key, t.Authority)
}

// checkFiles refuses unusable certificates, each at its key, which begins with path.
func (d *decoder) checkFiles(path string, t *TLS) {
	d.KeyPair(path+"tls", t.Certificate, t.Key)
	d.Authorities(path+"tls.authority", t.Authority)
}
