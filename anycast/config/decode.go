package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"baton/document"
)

// decoder turns the tree into a Config.
type decoder struct{ *document.Decoder }

type (
	node = document.Node
	key  = document.Key
)

// The longest paths that the kernel takes, in bytes.
const (
	unixPath = 107  // sun_path without its final NUL, unix(7)
	filePath = 4095 // PATH_MAX without its final NUL
)

// nameForm is a label of a DNS name (RFC 1123, section 2.1), as names are in certificates.
var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (d *decoder) name(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() == nil && !nameForm.MatchString(s) {
		d.WrongText(n, path, s, "is no name here", "at most 63 of a-z, 0-9 and, inside, -")
	}
	return s
}

// orNone is between, and 0 for the word none.
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
		d.WrongText(n, path, n.Text, "is not a whole number of seconds", "")
	}
	return v
}

// number decodes a number within bounds, both of them included.
func (d *decoder) number(path string, n *node, least, most float64) float64 {
	s := d.Text(path, n)
	v, err := strconv.ParseFloat(s, 64)
	if d.Err() == nil && (err != nil || math.IsNaN(v) || v < least || v > most) {
		d.WrongText(n, path, s, "is out of range", fmt.Sprintf("a number from %g to %g", least, most))
	}
	return v
}

var portForm = regexp.MustCompile(`^[1-9][0-9]{0,4}$`)

func isPort(s string) bool {
	v, err := strconv.ParseUint(s, 10, 16)
	return err == nil && v > 0 && portForm.MatchString(s)
}

// hostPort decodes where somebody listens; the host may be empty or a name.
func (d *decoder) hostPort(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() != nil {
		return ""
	}
	const right = `such as "127.0.0.1:9466"`
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		d.WrongText(n, path, s, "is not host:port", right)
	} else if !isPort(port) {
		d.WrongText(n, path, s, "has no port from 1 to 65535", right)
	}
	return s
}

func (d *decoder) family(path string, n *node, v6 bool) netip.Addr {
	a := d.Address(path, n)
	if d.Err() == nil && a.Is6() != v6 {
		d.WrongText(n, path, a.String(), "is of the other family", "")
	}
	return a
}

func (d *decoder) prefix(path string, n *node) netip.Prefix {
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

// https decodes where another process of Baton is asked.
func (d *decoder) https(path string, n *node) *url.URL {
	u := d.url(path, n, "https")
	if d.Err() == nil && (u.Path != "" || u.RawQuery != "") {
		d.WrongText(n, path, u.String(), "has a path", "https://host:port alone")
	}
	return u
}

func (d *decoder) url(path string, n *node, schemes ...string) *url.URL {
	s := d.Text(path, n)
	if d.Err() != nil {
		return nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" || u.Fragment != "":
		d.WrongText(n, path, s, "is not a URL", schemes[0]+"://host:port/path")
	case !slices.Contains(schemes, u.Scheme):
		d.WrongText(n, path, s, "is not "+strings.Join(schemes, " or "), schemes[0]+"://host:port/path")
	case u.User != nil:
		d.WrongText(n, path, s, "holds a user's name", "without it")
	case u.Port() != "" && !isPort(u.Port()):
		d.WrongText(n, path, s, "has no port from 1 to 65535", "")
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
