package config

import (
	"fmt"
	"net/netip"
	"os"
	"time"

	"baton/document"
	"baton/rpc/settings"
)

// Controller is where controllers are, and who this router is for them: of a VIP of mode reactive, or of a source of surrogates.
type Controller struct {
	settings.Settings
	Name string // of this router, for them

	// Of mode reactive alone.
	Local  netip.Addr
	Legs   int           // idle ones, to each surrogate
	MaxAge time.Duration // of an idle leg
}

// The defaults of a reactive VIP's legs. Servers close connections without a request; Apache after 5 s by default, nginx after 60 s.
const (
	defaultReactiveLegs = 8
	defaultMaxAge       = 30 * time.Second
	maxReactiveLegs     = 1024
)

// controller decodes that of a VIP of mode reactive.
func (d *decoder) controller(path string, n *node) *Controller {
	c := &Controller{Legs: defaultReactiveLegs, MaxAge: defaultMaxAge}
	d.called(path, n, c, []key{
		{Name: "local", Help: "address from which legs are opened (default: the host's choice)", Decode: func(path string, n *node) { c.Local = d.Address(path, n) }},
		{Name: "legs", Default: "8", Help: "idle legs to each surrogate", Decode: func(path string, n *node) { c.Legs = d.Integer(path, n, 1, maxReactiveLegs) }},
		{Name: "max_age", Default: "30s", Help: "of an idle leg; shorter than the time after which surrogates close connections without a request",
			Decode: func(path string, n *node) { c.MaxAge = d.Between(path, n, time.Second, time.Hour) }},
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
	keys := append(c.Keys(d.Decoder, d.FilePath), key{Name: "name", Help: "of this router, for the controller (default: the host's)",
		Decode: func(path string, n *node) { c.Name = d.Label(path, n) }})
	d.Fields(path, n, append(keys, more...))
	c.Check(d.Decoder, path, n)
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
	read := func(at string, c *Controller) {
		if c == nil {
			return
		}
		c.Read(d.Decoder, at)
		if c.TLS != nil && len(c.TLS.Certificates) > 0 {
			d.WarnTime(document.Join(at, "certificate"), c.TLS.Certificates[0].Leaf, now)
		}
	}
	for i := range cfg.VIPs {
		read(document.Join(document.Index("vips", i), "controller"), cfg.VIPs[i].Controller)
	}
	for _, p := range cfg.Pools {
		for _, s := range p.Discover {
			read(document.Join(document.Join("pools", p.Name), "discover"), s.Controller)
		}
	}
}

// String has all settings, so that changed ones can be told; "" without any.
func (c *Controller) String() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%q %q %q %q %q %q %v %d %v", c.URLs, c.Name, c.Token, c.Authority, c.Certificate, c.Key, c.Local, c.Legs, c.MaxAge)
}
