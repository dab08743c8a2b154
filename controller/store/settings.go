package store

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"baton/document"
)

// Settings are the store's keys of a configuration.
type Settings struct {
	File string // "": etcd
	Etcd EtcdSettings
}

// EtcdSettings are the keys of a cluster.
type EtcdSettings struct {
	Endpoints                     []string
	Prefix                        string
	Certificate, Key, Authorities string // files of TLS
	User, PasswordFile            string
}

// DefaultFile is the embedded store's.
const DefaultFile = "/var/lib/baton/controller.db"

const mostEndpoints = 16

// Decode decodes the mapping of a store.
func Decode(d *document.Decoder, path string, n *document.Node) Settings {
	var s Settings
	d.Fields(path, n, []document.Key{
		{Name: "file", Help: "database of a single controller", Decode: func(path string, n *document.Node) { s.File = d.FilePath(path, n) }},
		{Name: "etcd", Help: "shared by several controllers", Decode: func(path string, n *document.Node) { s.Etcd = decodeEtcd(d, path, n) }},
	})
	cluster := d.Given(document.Join(path, "etcd"))
	switch {
	case s.File != "" && cluster:
		d.Wrong(n, path, "has both a file and etcd", "one of the two")
	case s.File == "" && !cluster:
		s.File = DefaultFile
	}
	return s
}

func decodeEtcd(d *document.Decoder, path string, n *document.Node) EtcdSettings {
	var s EtcdSettings
	d.Fields(path, n, []document.Key{
		{Name: "endpoints", Help: "URLs of the members", Decode: func(path string, n *document.Node) {
			d.AtMost(path, n, mostEndpoints)
			s.Endpoints = document.Distinct(d, path, n, func(path string, n *document.Node) string {
				u := d.URL(path, n, "http", "https")
				if u == nil {
					return ""
				}
				return u.String()
			})
		}},
		{Name: "prefix", Default: "/baton/controller/", Help: "of all keys", Decode: func(path string, n *document.Node) { s.Prefix = d.Text(path, n) }},
		{Name: "user", Help: "name, if etcd has users", Decode: func(path string, n *document.Node) { s.User = d.Text(path, n) }},
		{Name: "password_file", Help: "file with the user's password", Decode: func(path string, n *document.Node) { s.PasswordFile = d.FilePath(path, n) }},
		{Name: "tls", Help: "PEM files", Decode: func(path string, n *document.Node) {
			d.Fields(path, n, []document.Key{
				{Name: "certificate", Help: "of this controller", Decode: func(path string, n *document.Node) { s.Certificate = d.FilePath(path, n) }},
				{Name: "key", Help: "of the certificate", Decode: func(path string, n *document.Node) { s.Key = d.FilePath(path, n) }},
				{Name: "authorities", Help: "authorities of etcd's certificates", Decode: func(path string, n *document.Node) { s.Authorities = d.FilePath(path, n) }},
			})
		}},
	})
	d.Require(path, n, "endpoints")
	if (s.Certificate == "") != (s.Key == "") {
		d.Wrong(n, document.Join(path, "tls"), "has one of certificate and key", "both, or none")
	}
	if s.User != "" && s.PasswordFile == "" {
		d.Wrong(n, path, "has a user without a password", "password_file: /etc/baton/etcd.password")
	}
	return s
}

// Config reads the files that the settings name.
func (s Settings) Config() (Config, error) {
	if s.File != "" {
		return Config{File: s.File}, nil
	}
	e := &Etcd{Endpoints: s.Etcd.Endpoints, Prefix: s.Etcd.Prefix, Username: s.Etcd.User}
	if s.Etcd.PasswordFile != "" {
		const longest = 4096
		text, mode, err := document.ReadFile(s.Etcd.PasswordFile, longest)
		if err != nil {
			return Config{}, fmt.Errorf("store: password_file: %w", err)
		}
		if mode&0o077 != 0 {
			return Config{}, fmt.Errorf("store: password_file: others can read %s (mode %#o): chmod 600", s.Etcd.PasswordFile, os.FileMode(mode))
		}
		e.Password = strings.TrimSpace(string(text))
	}
	if s.Etcd.Authorities != "" || s.Etcd.Certificate != "" {
		e.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if s.Etcd.Authorities != "" {
		all, err := document.ReadCertificates(s.Etcd.Authorities)
		if err != nil {
			return Config{}, fmt.Errorf("store: tls: %w", err)
		}
		e.TLS.RootCAs = x509.NewCertPool()
		for _, c := range all {
			e.TLS.RootCAs.AddCert(c)
		}
	}
	if s.Etcd.Certificate != "" {
		pair, err := document.ReadKeyPair(s.Etcd.Certificate, s.Etcd.Key)
		if err != nil {
			return Config{}, fmt.Errorf("store: tls: %w", err)
		}
		e.TLS.Certificates = []tls.Certificate{pair}
	}
	return Config{Etcd: e}, nil
}
