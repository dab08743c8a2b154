package config

import (
	"fmt"
	"slices"

	"baton/document"
)

// What credentials consist of, by the kind of trunks.
var credentialNames = map[Security][]string{TLS: {"certificate", "key", "ca"}, Plaintext: {"secret_file"}}

func (d *decoder) credentialKeys(out *Credentials) []key {
	return []key{
		{Name: "security", Decode: func(path string, n *node) {
			out.Security = Security(d.Choice(path, n, "is not a kind of trunk", string(TLS), string(Plaintext)))
		}},
		{Name: "certificate", Decode: func(path string, n *node) { out.Certificate = d.FilePath(path, n) }},
		{Name: "key", Decode: func(path string, n *node) { out.Key = d.FilePath(path, n) }},
		{Name: "ca", Decode: func(path string, n *node) { out.CA = d.FilePath(path, n) }},
		{Name: "secret_file", Decode: func(path string, n *node) { out.SecretFile = d.FilePath(path, n) }},
	}
}

// hasCredentials tells whether a section has a key of credentials. With none it inherits them; with one it has all of its own, so
// that nobody need look where half of them come from.
func (d *decoder) hasCredentials(path string) bool {
	return slices.ContainsFunc(d.credentialKeys(nil), func(k key) bool { return d.Given(document.Join(path, k.Name)) })
}

// complete refuses credentials that lack a key, or have one of the other kind of trunks.
func (d *decoder) complete(path string, n *node, c *Credentials) {
	if c.Security == "" {
		c.Security = TLS
	}
	other := Plaintext
	if c.Security == Plaintext {
		other = TLS
	}
	for _, name := range credentialNames[other] {
		if at := document.Join(path, name); d.Given(at) {
			d.Refuse(at, "is not for security "+string(c.Security), "security: "+string(other))
		}
	}
	d.Require(path, n, credentialNames[c.Security]...)
}

// inherit gives a section that has no credentials those at the top.
func (d *decoder) inherit(path string, own, top *Credentials) {
	switch {
	case d.Err() != nil || d.hasCredentials(path):
	case d.Given("credentials"):
		*own = *top
	default:
		d.Refuse(path, "has no credentials", "credentials: {certificate: ..., key: ..., ca: ...}, or the same keys here")
	}
}

// section is a part of the file that has credentials, and who uses them.
type section struct {
	path           string
	users          []*Credentials
	opens, accepts bool // trunks
}

// sections gives each that is used, once, however many inherit from it.
func (d *decoder) sections(cfg *Config) []*section {
	var out []*section
	use := func(path string, c *Credentials) *section {
		if !d.hasCredentials(path) {
			path = "credentials"
		}
		i := slices.IndexFunc(out, func(s *section) bool { return s.path == path })
		if i < 0 {
			i = len(out)
			out = append(out, &section{path: path})
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
