package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"baton/document"
)

// metrics decodes where the Prometheus listener is; the host may be empty or a name.
func (d *decoder) metrics(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() != nil {
		return ""
	}
	const right = `such as "127.0.0.1:9465"`
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		d.WrongText(n, path, s, "is not host:port", right)
	} else if !portForm.MatchString(port) || number(port) > math.MaxUint16 {
		d.WrongText(n, path, s, "has no port from 1 to 65535", right)
	}
	return s
}

// host decodes the address of one host, with its port.
func (d *decoder) host(path string, n *node) netip.AddrPort {
	a := d.listener(path, n)
	if d.Err() == nil && a.Addr().IsUnspecified() {
		d.WrongText(n, path, a.String(), "is not the address of one host", `such as "192.0.2.7:443" or "[2001:db8::7]:443"`)
	}
	return a
}

// listener decodes where connections come in: an address, or the one that stands for all of its family.
func (d *decoder) listener(path string, n *node) netip.AddrPort {
	s := d.Text(path, n)
	if d.Err() != nil {
		return netip.AddrPort{}
	}
	const right = `such as "192.0.2.7:443" or "[2001:db8::7]:443"`
	a, err := netip.ParseAddrPort(s)
	switch {
	case err != nil && strings.HasPrefix(s, ":"):
		d.WrongText(n, path, s, "has no address", fmt.Sprintf(`all of IPv4 is "0.0.0.0%s", all of IPv6 "[::]%[1]s"`, document.Clip(s)))
	case err != nil:
		d.WrongText(n, path, s, "is not address:port", right)
	case a.Port() == 0:
		d.WrongText(n, path, s, "has port 0", "a port from 1 to 65535")
	case a.Addr().Zone() != "":
		d.WrongText(n, path, s, "has a zone", "an address that is routed")
	case a.Addr().Is4In6():
		d.WrongText(n, path, s, "is an IPv4 address written as IPv6", netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String())
	case a.Addr().IsMulticast(), a.Addr() == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		d.WrongText(n, path, s, "is not the address of one host", right)
	default:
		return a
	}
	return netip.AddrPort{}
}

func (d *decoder) prefix(path string, n *node) netip.Prefix {
	s := d.Text(path, n)
	if d.Err() != nil {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(s)
	alone, notAlone := netip.ParseAddr(s)
	switch {
	case err != nil && notAlone == nil && alone.Zone() == "" && !alone.Is4In6():
		d.WrongText(n, path, s, "has no length", netip.PrefixFrom(alone, alone.BitLen()).String())
	case err != nil:
		d.WrongText(n, path, s, "is not address/length", "such as 192.0.2.0/24")
	case p.Addr().Is4In6():
		d.WrongText(n, path, s, "is an IPv4 address written as IPv6", "such as 192.0.2.0/24")
	case p != p.Masked():
		d.WrongText(n, path, s, "has bits set after its length", p.Masked().String())
	}
	return p
}

// maxPorts bounds the ranges of one list.
const maxPorts = 16

var portForm = regexp.MustCompile(`^[1-9][0-9]{0,4}$`)

// number gives the value of what portForm matches.
func number(s string) int {
	v, _ := strconv.Atoi(s)
	return v
}

// ports decodes a list of numbers and of ranges of them, "8000-8100".
func (d *decoder) ports(path string, n *node) []Ports {
	var out []Ports
	d.AtMost(path, n, maxPorts)
	d.NonEmptyList(path, n, func(at string, n *node) {
		s := d.Text(at, n)
		first, last, isRange := strings.Cut(s, "-")
		if !isRange {
			last = first
		}
		switch {
		case d.Err() != nil:
		case !portForm.MatchString(first) || !portForm.MatchString(last) || number(first) > math.MaxUint16 || number(last) > math.MaxUint16:
			d.WrongText(n, at, s, "is not a port", "such as 443 or 8000-8100, from 1 to 65535")
		case number(first) > number(last):
			d.WrongText(n, at, s, "ends before it begins", last+"-"+first)
		default:
			out = append(out, Ports{uint16(number(first)), uint16(number(last))})
		}
	})
	return out
}
