package config

import (
	"fmt"
	"slices"

	"baton/document"
)

// securities are the kinds of trunks, named as their sections.
var securities = []Security{TLS, Plaintext}

const credentialsExample = "tls: {certificate: ..., key: ..., authority: ...}, here or at the top level; for tests plaintext: {secret_file: ...}"

// credentialKeys are those of the top level, of trunks and of a peer.
func (d *decoder) credentialKeys(out *Credentials) []key {
	return []key{
		{Name: string(TLS), Help: "mutual TLS 1.3", Decode: func(path string, n *node) {
			out.Security = TLS
			d.Fields(path, n, []key{
				{Name: "certificate", Help: "PEM file with this relay's certificate, which has its name",
					Decode: func(path string, n *node) { out.Certificate = d.FilePath(path, n) }},
				{Name: "key", Help: "PEM file with the private key", Decode: func(path string, n *node) { out.Key = d.FilePath(path, n) }},
				{Name: "authority", Help: "PEM file with the authorities of the peers' certificates", Decode: func(path string, n *node) { out.Authority = d.FilePath(path, n) }},
				{Name: "ca", Now: "authority"},
			})
			d.Require(path, n, "certificate", "key", "authority")
		}},
		{Name: string(Plaintext), Help: "no encryption: only the header of each trunk is authenticated", Decode: func(path string, n *node) {
			out.Security = Plaintext
			d.Fields(path, n, []key{{Name: "secret_file", Help: "file of mode 0600 or 0400 with at least 32 bytes in base64 or hex, the same on both ends",
				Decode: func(path string, n *node) { out.SecretFile = d.FilePath(path, n) }}})
			d.Require(path, n, "secret_file")
		}},
		{Name: "security", Now: "tls or plaintext"},
		{Name: "certificate", Now: "tls.certificate"},
		{Name: "key", Now: "tls.key"},
		{Name: "ca", Now: "tls.authority"},
		{Name: "secret_file", Now: "plaintext.secret_file"},
	}
}

// credentialsAt returns the path of the credentials that a section gives, "" if it gives none.
func (d *decoder) credentialsAt(path string) string {
	for _, s := range securities {
		if at := document.Join(path, string(s)); d.Given(at) {
			return at
		}
	}
	return ""
}

// oneSecurity refuses a section with credentials of both kinds.
func (d *decoder) oneSecurity(path string) {
	tls, plaintext := document.Join(path, string(TLS)), document.Join(path, string(Plaintext))
	if d.Given(tls) && d.Given(plaintext) {
		d.Refuse(plaintext, "is used with "+tls, "one of them")
	}
}

// inherit gives a section without credentials those of the top level.
func (d *decoder) inherit(path string, own, top *Credentials) {
	switch {
	case d.Err() != nil || d.credentialsAt(path) != "":
	case d.credentialsAt("") != "":
		*own = *top
	default:
		d.Refuse(path, "has no credentials", credentialsExample)
	}
}

// section is the place of credentials in the file, and their users.
type section struct {
	path           string
	users          []*Credentials
	opens, accepts bool // trunks
}

// sections returns each section that is used once, however many inherit from it.
func (d *decoder) sections(cfg *Config) []*section {
	var out []*section
	use := func(path string, c *Credentials) *section {
		at := d.credentialsAt(path)
		if at == "" {
			at = d.credentialsAt("")
		}
		i := slices.IndexFunc(out, func(s *section) bool { return s.path == at })
		if i < 0 {
			i = len(out)
			out = append(out, &section{path: at})
		}
		out[i].users = append(out[i].users, c)
		return out[i]
	}
	if cfg.Trunks != nil {
		use("trunks", &cfg.Trunks.Credentials).accepts = true
	}
	for i := range cfg.Peers {
		use(fmt.Sprintf("peers[%d]", i), &cfg.Peers[i].Credentials).opens = true
	}
	return out
}
