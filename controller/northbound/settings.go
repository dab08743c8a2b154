package northbound

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"strings"

	"baton/document"
)

// Settings are the northbound's keys of a configuration.
type Settings struct {
	Listen       netip.AddrPort
	Open         bool
	Tokens       string          // file
	Certificates map[string]Role // by a name of the client's certificate
	TLS          TLS             // zero: none
	Names        []string
	Origins      []string
}

// TLS names files.
type TLS struct {
	Certificate, Key string
	Authorities      string // of clients' certificates; "": clients have none
}

// most bounds lists in a configuration.
const most = 1000

// Decode decodes the mapping of a northbound.
func Decode(d *document.Decoder, path string, n *document.Node) Settings {
	s := Settings{Certificates: map[string]Role{}}
	d.Fields(path, n, []document.Key{
		{Name: "listen", Help: "address and port", Decode: func(path string, n *document.Node) { s.Listen = d.ListenAddrPort(path, n) }},
		{Name: "open", Default: "false", Help: "everybody who reaches the listener may call everything; on loopback alone",
			Decode: func(path string, n *document.Node) { s.Open = d.Boolean(path, n) }},
		{Name: "tokens", Help: "file of bearer tokens", Decode: func(path string, n *document.Node) { s.Tokens = d.FilePath(path, n) }},
		{Name: "certificates", Help: "role by a name of the client's certificate", Decode: func(path string, n *document.Node) {
			d.AtMost(path, n, most)
			d.Entries(path, n, func(at, name string, n *document.Node) {
				word := d.Choice(at, n, "is no role", "viewer", "router", "operator")
				if role, err := ParseRole(word); err == nil {
					s.Certificates[name] = role
				}
			})
		}},
		{Name: "tls", Help: "PEM files of the listener", Decode: func(path string, n *document.Node) {
			d.Fields(path, n, []document.Key{
				{Name: "certificate", Help: "of the listener", Decode: func(path string, n *document.Node) { s.TLS.Certificate = d.FilePath(path, n) }},
				{Name: "key", Help: "of the certificate", Decode: func(path string, n *document.Node) { s.TLS.Key = d.FilePath(path, n) }},
				{Name: "authorities", Help: "authorities of clients' certificates", Decode: func(path string, n *document.Node) { s.TLS.Authorities = d.FilePath(path, n) }},
			})
			d.Require(path, n, "certificate", "key")
		}},
		{Name: "names", Help: "host names by which browsers reach a listener without TLS", Decode: func(path string, n *document.Node) {
			d.AtMost(path, n, most)
			s.Names = document.Distinct(d, path, n, d.Text)
		}},
		{Name: "origins", Help: "of pages elsewhere that may call from a browser", Decode: func(path string, n *document.Node) {
			d.AtMost(path, n, most)
			s.Origins = document.Distinct(d, path, n, func(path string, n *document.Node) string { return origin(d, path, n) })
		}},
	})
	d.Require(path, n, "listen")
	return s
}

func origin(d *document.Decoder, path string, n *document.Node) string {
	text := d.Text(path, n)
	u, err := url.Parse(text)
	if d.Err() == nil && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Scheme+"://"+u.Host != text) {
		d.WrongText(n, path, text, "is not the origin of a page", "https://noc.example.net")
	}
	return text
}

// Check refuses settings that do not go together, and files that cannot be read: it is a check of the whole document.
func (s Settings) Check(d *document.Decoder, path string) {
	if !s.Listen.IsValid() {
		return
	}
	if len(s.Certificates) > 0 && s.TLS.Authorities == "" {
		d.Refuse(document.Join(path, "certificates"), "need the authorities that clients' certificates are signed by", "tls: {authorities: ...}")
	}
	if !s.readable(d, path) {
		return
	}
	access, encrypted, err := s.Load()
	if err != nil { // a file has changed meanwhile
		d.Refuse(path, err.Error(), "write it again")
		return
	}
	warning, err := access.Check(s.Listen, encrypted != nil)
	if err != nil {
		problem, remedy, _ := strings.Cut(err.Error(), ": ")
		d.Refuse(path, problem, remedy)
	}
	if warning != "" {
		d.Warn(d.Place(path), path, warning)
	}
}

// readable refuses all files that cannot be used.
func (s Settings) readable(d *document.Decoder, path string) bool {
	all := true
	if s.Tokens != "" {
		if _, err := ReadTokens(s.Tokens); err != nil {
			s.refuseTokens(d, document.Join(path, "tokens"), err)
			all = false
		}
	}
	if s.TLS.Certificate != "" {
		at := document.Join(path, "tls")
		all = d.KeyPair(at, s.TLS.Certificate, s.TLS.Key) != nil && all
		if s.TLS.Authorities != "" {
			all = d.Authorities(document.Join(at, "authorities"), s.TLS.Authorities) != nil && all
		}
	}
	return all
}

// refuseTokens refuses the file of tokens, with each of its lines that is wrong.
func (s Settings) refuseTokens(d *document.Decoder, at string, err error) {
	if cause := new(fs.PathError); errors.As(err, &cause) {
		d.RefuseFile(at, s.Tokens, err)
		return
	}
	lines := strings.Split(strings.ReplaceAll(err.Error(), "tokens: ", ""), "\n")
	d.Refuse(at, strings.Join(lines, "; "), "a line for each token: viewer sha256:HASH NAME")
}

// Load reads the files: who may call, and the TLS of the listener, nil without it.
func (s Settings) Load() (Access, *tls.Config, error) {
	access := Access{Open: s.Open, Certificates: s.Certificates}
	var err error
	if s.Tokens != "" {
		if access.Tokens, err = ReadTokens(s.Tokens); err != nil {
			return access, nil, err
		}
	}
	if s.TLS.Certificate == "" {
		return access, nil, nil
	}
	pair, err := document.ReadKeyPair(s.TLS.Certificate, s.TLS.Key)
	if err != nil {
		return access, nil, fmt.Errorf("tls: %w", err)
	}
	encrypted := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if s.TLS.Authorities != "" {
		all, err := document.ReadCertificates(s.TLS.Authorities)
		if err != nil {
			return access, nil, fmt.Errorf("tls: %w", err)
		}
		encrypted.ClientAuth, encrypted.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
		for _, c := range all {
			encrypted.ClientCAs.AddCert(c)
		}
	}
	return access, encrypted, nil
}
