package config

import (
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"baton/document"
)

// decoder turns the tree into a Config.
type decoder struct{ *document.Decoder }

type (
	node = document.Node
	key  = document.Key
)

func (d *decoder) hostPort(path string, n *node) string { return d.HostPort(path, n, "127.0.0.1:9466") }

// orNone decodes a duration, or 0 for the word none.
func (d *decoder) orNone(path string, n *node, least, most time.Duration) time.Duration {
	if n.Text == "none" {
		return 0
	}
	return d.Between(path, n, least, most)
}

// seconds decodes a duration of whole seconds: BGP counts in them.
func (d *decoder) seconds(path string, n *node, least, most time.Duration) time.Duration {
	v := d.Between(path, n, least, most)
	if d.Err() == nil && v%time.Second != 0 {
		d.WrongText(n, path, n.Text, "is not a whole number of seconds", "such as 10s")
	}
	return v
}

// number decodes a number within inclusive bounds.
func (d *decoder) number(path string, n *node, least, most float64) float64 {
	s := d.Text(path, n)
	v, err := strconv.ParseFloat(s, 64)
	if d.Err() == nil && (err != nil || math.IsNaN(v) || v < least || v > most) {
		d.WrongText(n, path, s, "is out of range", fmt.Sprintf("a number from %g to %g", least, most))
	}
	return v
}

func (d *decoder) family(path string, n *node, v6 bool) netip.Addr {
	a := d.Address(path, n)
	if d.Err() == nil && a.Is6() != v6 {
		d.WrongText(n, path, a.String(), "is of the other family", "an address of the same family")
	}
	return a
}

// interfaceAddress decodes an address with the length of its network, as ip-address(8) takes it.
func (d *decoder) interfaceAddress(path string, n *node) netip.Prefix {
	s := d.Text(path, n)
	if d.Err() != nil {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		d.WrongText(n, path, s, "is not address/length", "such as 192.0.2.0/24 or 2001:db8::/48")
	case p.Addr().Is4In6():
		d.WrongText(n, path, s, "is an IPv4 address written as IPv6", "such as 192.0.2.0/24")
	}
	return p
}

// https decodes the URL of another Baton process.
func (d *decoder) https(path string, n *node) *url.URL {
	u := d.URL(path, n, "https")
	if d.Err() == nil && (u.Path != "" || u.RawQuery != "") {
		d.WrongText(n, path, u.String(), "has a path", "https://host:port alone")
	}
	return u
}

// rate decodes bits per second, and gives bytes per second.
func (d *decoder) rate(path string, n *node) float64 { return d.Rate(path, n, 1e3, 1e15) / 8 }

// command decodes a program and its arguments.
func (d *decoder) command(path string, n *node) []string {
	d.AtMost(path, n, 256)
	var out []string
	d.NonEmptyList(path, n, func(at string, n *node) { out = append(out, d.Text(at, n)) })
	if d.Err() == nil && out[0][0] != '/' {
		d.WrongText(n, path, out[0], "is not an absolute path", "such as [/usr/local/bin/check, argument]")
	}
	return out
}
