package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
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

// texts decodes a list of distinct values.
func (d *decoder) texts(path string, n *node) []string {
	var out []string
	d.NonEmptyList(path, n, func(at string, n *node) {
		s := d.Text(at, n)
		if d.Err() == nil && slices.Contains(out, s) {
			d.Wrong(n, at, fmt.Sprintf("%q is there twice", document.Clip(s)), "")
		}
		out = append(out, s)
	})
	return out
}

// delay decodes a duration that may be 0, and is at most most.
func (d *decoder) delay(path string, n *node, most time.Duration) time.Duration {
	s := d.Text(path, n)
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 || v > most {
		d.Wrong(n, path, fmt.Sprintf("%q is not a duration from 0 to %v", document.Clip(s), most), "a number with its unit, such as 100ms")
		return 0
	}
	return v
}

// hostPort decodes where a TCP listener of the router's own is; the host may be empty or a name.
func (d *decoder) hostPort(path string, n *node) string {
	s := d.Text(path, n)
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		var number int
		if number, err = strconv.Atoi(port); err == nil && (number < 1 || number > 65535) {
			err = strconv.ErrRange
		}
	}
	if err != nil {
		d.Wrong(n, path, fmt.Sprintf("%q is not host:port", document.Clip(s)), `such as "127.0.0.1:9464"`)
	}
	return s
}

// addrPort decodes an address that packets can be sent to, with its port.
func (d *decoder) addrPort(path string, n *node) netip.AddrPort {
	s := d.Text(path, n)
	if d.Err() != nil {
		return netip.AddrPort{}
	}
	const right = `such as "10.9.9.9:80" or "[2001:db8::9]:443"`
	a, err := netip.ParseAddrPort(s)
	switch {
	case err != nil:
		d.Wrong(n, path, fmt.Sprintf("%q is not address:port", document.Clip(s)), right)
	case a.Port() == 0:
		d.Wrong(n, path, fmt.Sprintf("%q has port 0", s), "a port from 1 to 65535")
	case a.Addr().Zone() != "":
		d.Wrong(n, path, fmt.Sprintf("%q has a zone", document.Clip(s)), "an address that is routed")
	case a.Addr().Is4In6():
		d.Wrong(n, path, fmt.Sprintf("%q is an IPv4 address written as IPv6", s), netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String())
	case a.Addr().IsUnspecified(), a.Addr().IsMulticast(), a.Addr() == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		d.Wrong(n, path, fmt.Sprintf("%q is not the address of one host", s), right)
	default:
		return a
	}
	return netip.AddrPort{}
}
