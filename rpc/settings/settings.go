// Package settings has the keys of a configuration that say how to reach controllers, for all parts that do.
package settings

import (
	"crypto/tls"
	"fmt"
	"strings"

	"baton/document"
	"baton/rpc"
)

// Settings are controllers, and who calls them.
type Settings struct {
	URLs        []string // tried one after another
	TokenFile   string   // "": none
	Authority   string   // PEM file with those whose certificates controllers have; "": the system's
	Certificate string   // PEM file of the caller; "": none
	Key         string

	Token string      // that in TokenFile, of Read
	TLS   *tls.Config // of wss, of Read
}

const (
	maxURLs  = 16
	maxToken = 4096 // bytes of a token's file
)

// Keys decode the settings. file decodes the path of a file, as the part has paths.
func (s *Settings) Keys(d *document.Decoder, file func(path string, n *document.Node) string) []document.Key {
	return []document.Key{
		{Name: "url", Help: "of the controller's northbound: ws, wss, http or https; of several, the next is tried when one fails",
			Decode: func(path string, n *document.Node) {
				one := func(path string, n *document.Node) {
					if u := d.URL(path, n, "ws", "wss", "http", "https"); u != nil {
						s.URLs = append(s.URLs, u.String())
					}
				}
				if n.Kind == document.Scalar {
					one(path, n)
					return
				}
				d.AtMost(path, n, maxURLs)
				d.NonEmptyList(path, n, one)
			}},
		{Name: "token_file", Help: "file whose first line is a token of the role router", Decode: func(path string, n *document.Node) { s.TokenFile = file(path, n) }},
		{Name: "authority", Help: "PEM file with the authorities of the controller's certificate (default: the system's)",
			Decode: func(path string, n *document.Node) { s.Authority = file(path, n) }},
		{Name: "certificate", Help: "PEM file with the own certificate, instead of a token", Decode: func(path string, n *document.Node) { s.Certificate = file(path, n) }},
		{Name: "key", Help: "PEM file with its key", Decode: func(path string, n *document.Node) { s.Key = file(path, n) }},
	}
}

// Check refuses what is not whole; n is the mapping that has the keys.
func (s *Settings) Check(d *document.Decoder, path string, n *document.Node) {
	d.Require(path, n, "url")
	if (s.Certificate == "") != (s.Key == "") {
		d.Wrong(n, path, "has one of certificate and key", "both or neither")
	}
}

// Read reads the files that are named.
func (s *Settings) Read(d *document.Decoder, path string) {
	if s.TokenFile != "" {
		at := document.Join(path, "token_file")
		text, _, err := document.ReadFile(s.TokenFile, maxToken)
		if err != nil {
			d.RefuseFile(at, s.TokenFile, err)
		} else if s.Token = strings.TrimSpace(string(text)); s.Token == "" {
			d.Refuse(at, fmt.Sprintf("%q is empty", document.Clip(s.TokenFile)), "a token of the controller's northbound.tokens")
		}
	}
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if s.Authority != "" {
		s.TLS.RootCAs = document.PoolOf(d.Authorities(document.Join(path, "authority"), s.Authority))
	}
	if s.Certificate != "" {
		if pair := d.KeyPair(path, s.Certificate, s.Key); pair != nil {
			s.TLS.Certificates = []tls.Certificate{*pair}
		}
	}
}

// Endpoints are the controllers, for a client.
func (s *Settings) Endpoints() (all []rpc.Endpoint) {
	for _, u := range s.URLs {
		all = append(all, rpc.Endpoint{URL: u, Token: s.Token, TLS: s.TLS})
	}
	return all
}
