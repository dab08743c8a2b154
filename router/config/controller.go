package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"baton/document"
)

// Controller is where controllers are, and who this router is for them: of a VIP of mode reactive, or of a source of surrogates.
type Controller struct {
	URLs      []string // tried one after another
	Name      string   // of this router, for them
	TokenFile string   // "": none
	Authority string   // PEM file with those whose certificates controllers have; "": the system's
	KeyPair   KeyPair  // of this router; zero: none

	// Of mode reactive alone.
	Local  netip.Addr
	Legs   int           // idle ones, to each surrogate
	MaxAge time.Duration // of an idle leg

	Token string      // that in TokenFile
	TLS   *tls.Config // of wss
}

// The defaults of a reactive VIP's legs. Servers close connections without a request; Apache after 5 s by default, nginx after 60 s.
const (
	defaultReactiveLegs = 8
	defaultMaxAge       = 30 * time.Second
	maxReactiveLegs     = 1024
	maxURLs             = 16
)

// controller decodes that of a VIP of mode reactive.
func (d *decoder) controller(path string, n *node) *Controller {
	c := &Controller{Legs: defaultReactiveLegs, MaxAge: defaultMaxAge}
	d.called(path, n, c, []key{
		{Name: "local", Decode: func(path string, n *node) { c.Local = d.Address(path, n) }},
		{Name: "legs", Decode: func(path string, n *node) { c.Legs = d.Integer(path, n, 1, maxReactiveLegs) }},
		{Name: "max_age", Decode: func(path string, n *node) { c.MaxAge = d.Between(path, n, time.Second, time.Hour) }},
	})
	return c
}

// controllerSource decodes that of a source of surrogates.
func (d *decoder) controllerSource(path string, n *node) *Controller {
	c := new(Controller)
	d.called(path, n, c, nil)
	return c
}

// called decodes how controllers are called, and more keys.
func (d *decoder) called(path string, n *node, c *Controller, more []key) {
	c.Name, _ = os.Hostname()
	d.Fields(path, n, append([]key{
		{Name: "url", Decode: func(path string, n *node) {
			one := func(path string, n *node) {
				if u := d.URL(path, n, "ws", "wss", "http", "https"); u != nil {
					c.URLs = append(c.URLs, u.String())
				}
			}
			if n.Kind == document.Scalar {
				one(path, n)
				return
			}
			d.AtMost(path, n, maxURLs)
			d.NonEmptyList(path, n, one)
		}},
		{Name: "name", Decode: func(path string, n *node) { c.Name = d.Label(path, n) }},
		{Name: "token_file", Decode: func(path string, n *node) { c.TokenFile = d.FilePath(path, n) }},
		{Name: "authority", Decode: func(path string, n *node) { c.Authority = d.FilePath(path, n) }},
		{Name: "certificate", Decode: func(path string, n *node) { c.KeyPair.Certificate = d.FilePath(path, n) }},
		{Name: "key", Decode: func(path string, n *node) { c.KeyPair.Key = d.FilePath(path, n) }},
	}, more...))
	d.Require(path, n, "url")
	if (c.KeyPair.Certificate == "") != (c.KeyPair.Key == "") {
		d.Wrong(n, path, "has one of certificate and key", "both or neither")
	}
}

// checkReactive refuses settings that do not fit the reactive mode.
func (d *decoder) checkReactive(path string, n *node, v *VIP) {
	at := document.Join(path, "controller")
	switch {
	case v.Mode != Reactive:
		if v.Controller != nil {
			d.Wrong(n, at, "is for mode reactive alone", "mode: reactive")
		}
		return
	case v.Controller == nil:
		d.Wrong(n, at, "is missing: the controller hands sessions over", "controller: {url: \"wss://10.0.0.9:8443\", token_file: ...}")
	case len(v.TLS) > 0 || v.Protocol.Encrypted():
		d.Wrong(n, document.Join(path, "mode"), "reactive needs requests that are not encrypted", "mode: proxy or handoff")
	case v.Controller.Local.IsValid() && v.Controller.Local.Is4() != v.Address.Addr().Is4():
		d.Wrong(n, document.Join(at, "local"), "is of another address family than the VIP", "an address of the VIP's family")
	}
}

// readControllers reads the files that reactive VIPs and sources of surrogates name for their controllers.
func (d *decoder) readControllers(cfg *Config, now time.Time) {
	for i := range cfg.VIPs {
		if c := cfg.VIPs[i].Controller; c != nil {
			d.readController(document.Join(document.Index("vips", i), "controller"), c, now)
		}
	}
	for _, p := range cfg.Pools {
		for _, s := range p.Discover {
			if s.Controller != nil {
				d.readController(document.Join(document.Join("pools", p.Name), "discover"), s.Controller, now)
			}
		}
	}
}

func (d *decoder) readController(at string, c *Controller, now time.Time) {
	if c.TokenFile != "" {
		text, _, err := document.ReadFile(c.TokenFile, maxToken)
		if err != nil {
			d.RefuseFile(document.Join(at, "token_file"), c.TokenFile, err)
		}
		c.Token = strings.TrimSpace(string(text))
	}
	c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.Authority != "" {
		text, err := document.ReadPEM(c.Authority)
		if err != nil {
			d.RefuseFile(document.Join(at, "authority"), c.Authority, err)
			return
		}
		c.TLS.RootCAs = x509.NewCertPool()
		if !c.TLS.RootCAs.AppendCertsFromPEM(text) {
			d.Refuse(document.Join(at, "authority"), "has no certificate", "a PEM file with the authorities of the controllers")
		}
	}
	if c.KeyPair.Certificate != "" && d.readKeyPair(at, &c.KeyPair, now) {
		c.TLS.Certificates = []tls.Certificate{c.KeyPair.Pair}
	}
}

// maxToken is the longest file of a token, in bytes.
const maxToken = 4096

// String has all settings, so that changed ones can be told; "" without any.
func (c *Controller) String() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%q %q %q %q %q %q %v %d %v", c.URLs, c.Name, c.Token, c.Authority, c.KeyPair.Certificate, c.KeyPair.Key, c.Local, c.Legs, c.MaxAge)
}
