package document

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Ports is a range of port numbers, inclusive.
type Ports struct{ First, Last uint16 }

// port parses a port from 1 to 65535 without sign or leading zero; 0 if it is none.
func port(s string) uint16 {
	v, err := strconv.ParseUint(s, 10, 16)
	if err != nil || s[0] == '0' {
		return 0
	}
	return uint16(v)
}

// ParsePorts parses a port or a range, "8000-8100". If it is wrong, it returns the problem and what would be valid.
func ParsePorts(s string) (p Ports, problem, valid string) {
	from, to, isRange := strings.Cut(s, "-")
	if !isRange {
		to = from
	}
	p = Ports{port(from), port(to)}
	switch {
	case p.First == 0 || p.Last == 0:
		return Ports{}, "is not a port", "such as 443 or 8000-8100, from 1 to 65535"
	case p.First > p.Last:
		return Ports{}, "ends before it begins", to + "-" + from
	}
	return p, "", ""
}

// PortsList decodes a list of at most most ports and ranges of ports.
func (d *Decoder) PortsList(path string, n *Node, most int) []Ports {
	var out []Ports
	d.AtMost(path, n, most)
	d.NonEmptyList(path, n, func(at string, n *Node) {
		s := d.Text(at, n)
		p, problem, valid := ParsePorts(s)
		if d.err == nil && problem != "" {
			d.WrongText(n, at, s, problem, valid)
		}
		out = append(out, p)
	})
	return out
}

// SplitHostPort splits host:port, or returns the problem with it. The host may be empty and is not checked.
func SplitHostPort(s string) (host, problem string) {
	host, number, err := net.SplitHostPort(s)
	switch {
	case err != nil:
		return "", "is not host:port"
	case port(number) == 0:
		return "", "has no port from 1 to 65535"
	}
	return host, ""
}

// HostPort decodes host:port to listen on; the host may be empty or a name. Messages show the example.
func (d *Decoder) HostPort(path string, n *Node, example string) string {
	if d.told(n, Schema{"type": "string", "pattern": ":[1-9][0-9]*$", "examples": []string{example}}) {
		return ""
	}
	s := d.Text(path, n)
	if _, problem := SplitHostPort(s); d.err == nil && problem != "" {
		d.WrongText(n, path, s, problem, `such as "`+example+`"`)
	}
	return s
}

const exampleAddrPort = `such as "192.0.2.7:443" or "[2001:db8::7]:443"`

// AddrPort decodes the routable address of one host, with a port.
func (d *Decoder) AddrPort(path string, n *Node) netip.AddrPort {
	a := d.ListenAddrPort(path, n)
	if d.err == nil && a.Addr().IsUnspecified() {
		d.WrongText(n, path, a.String(), "is not the address of one host", exampleAddrPort)
	}
	return a
}

// ListenAddrPort decodes an address and port to listen on: an AddrPort, or the unspecified address of a family.
func (d *Decoder) ListenAddrPort(path string, n *Node) netip.AddrPort {
	if d.told(n, Schema{"type": "string", "pattern": `^(\[[0-9A-Fa-f:.]+\]|[0-9.]+):[0-9]+$`, "examples": []string{"192.0.2.7:443", "[2001:db8::7]:443"}}) {
		return netip.AddrPort{}
	}
	s := d.Text(path, n)
	if d.err != nil {
		return netip.AddrPort{}
	}
	a, err := netip.ParseAddrPort(s)
	switch {
	case err != nil && isIPv6(s):
		d.WrongText(n, path, s, "is an IPv6 address without brackets", `with a port it is written "[2001:db8::7]:443"`)
	case err != nil && strings.HasPrefix(s, ":"):
		d.WrongText(n, path, s, "has no address", fmt.Sprintf(`all of IPv4 is "0.0.0.0%s", all of IPv6 "[::]%[1]s"`, Clip(s)))
	case err != nil && isAddress(s):
		d.WrongText(n, path, s, "has no port", fmt.Sprintf("such as \"%s:443\"", s))
	case err != nil && isName(s):
		d.WrongText(n, path, s, "has a host name, and names are not looked up", exampleAddrPort)
	case err != nil:
		d.WrongText(n, path, s, "is not address:port", exampleAddrPort)
	case a.Port() == 0:
		d.WrongText(n, path, s, "has port 0", "a port from 1 to 65535")
	case a.Addr().Zone() != "":
		d.WrongText(n, path, s, "has a zone", "an address that is routed")
	case a.Addr().Is4In6():
		d.WrongText(n, path, s, "is an IPv4 address written as IPv6", netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String())
	case a.Addr().IsMulticast(), a.Addr() == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		d.WrongText(n, path, s, "is not the address of one host", exampleAddrPort)
	default:
		return a
	}
	return netip.AddrPort{}
}

// hostName matches names with a letter in the last label, which cannot be meant as addresses.
var hostName = regexp.MustCompile(`^([A-Za-z0-9_-]+\.)+[A-Za-z][A-Za-z0-9-]*\.?$`)

// isIPv6 reports whether s is an IPv6 address without brackets, which a port would become a part of.
func isIPv6(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is6()
}

// isAddress reports whether s is an address without a port.
func isAddress(s string) bool {
	_, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return err == nil
}

// isName reports whether s is a host name with a port.
func isName(s string) bool {
	host, _, err := net.SplitHostPort(s)
	return err == nil && (hostName.MatchString(host) || host == "localhost")
}

// Address decodes the address of one host, without a zone: interfaces have keys of their own.
func (d *Decoder) Address(path string, n *Node) netip.Addr {
	if d.told(n, addressSchema) {
		return netip.Addr{}
	}
	s := d.Text(path, n)
	if d.err != nil {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(s)
	const valid = "such as 192.0.2.1 or 2001:db8::1"
	switch {
	case err != nil && hostName.MatchString(s):
		d.WrongText(n, path, s, "is a host name, and names are not looked up", valid)
	case err != nil:
		d.WrongText(n, path, s, "is not an address", valid)
	case a.Is4In6():
		d.WrongText(n, path, s, "is an IPv4 address written as IPv6", a.Unmap().String())
	case a.Zone() != "", a.IsUnspecified(), a.IsMulticast():
		d.WrongText(n, path, s, "is not the address of one host", valid)
	}
	return a
}

// Prefix decodes address/length, with no bits set beyond the length.
func (d *Decoder) Prefix(path string, n *Node) netip.Prefix {
	if d.told(n, prefixSchema) {
		return netip.Prefix{}
	}
	s := d.Text(path, n)
	if d.err != nil {
		return netip.Prefix{}
	}
	if one, alone := hostPrefix(s); alone {
		d.WrongText(n, path, s, "has no length", one.String())
		return netip.Prefix{}
	}
	return d.masked(path, n, s, "is not address/length", "such as 192.0.2.0/24 or 2001:db8::/48")
}

// AddressOrPrefix decodes a prefix, or an address as the prefix of that host.
func (d *Decoder) AddressOrPrefix(path string, n *Node) netip.Prefix {
	if d.told(n, Schema{"type": "string", "pattern": `^[0-9A-Fa-f:.]+(/[0-9]+)?$`, "examples": []string{"192.0.2.7", "2001:db8::/48"}}) {
		return netip.Prefix{}
	}
	s := d.Text(path, n)
	if d.err != nil {
		return netip.Prefix{}
	}
	if one, alone := hostPrefix(s); alone {
		return one
	}
	return d.masked(path, n, s, "is neither an address nor address/length", "such as 192.0.2.7 or 2001:db8::/48")
}

// hostPrefix returns the full-length prefix of an address that is given without a length.
func hostPrefix(s string) (netip.Prefix, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" || a.Is4In6() {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, a.BitLen()), true
}

func (d *Decoder) masked(path string, n *Node, s, problem, valid string) netip.Prefix {
	p, err := netip.ParsePrefix(s)
	a, notAlone := netip.ParseAddr(s)
	switch {
	case p.Addr().Is4In6(), notAlone == nil && a.Is4In6():
		d.WrongText(n, path, s, "is an IPv4 address written as IPv6", valid)
	case err != nil:
		d.WrongText(n, path, s, problem, valid)
	case p != p.Masked():
		d.WrongText(n, path, s, "has bits set after its length", p.Masked().String())
	default:
		return p
	}
	return netip.Prefix{}
}

// URL decodes a URL with one of the schemes and a host, without a user or a fragment.
func (d *Decoder) URL(path string, n *Node, schemes ...string) *url.URL {
	if d.told(n, Schema{"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9+.-]*://", "examples": []string{schemes[0] + "://host:port/path"}}) {
		return nil
	}
	s := d.Text(path, n)
	if d.err != nil {
		return nil
	}
	u, err := url.Parse(s)
	valid := schemes[0] + "://host:port/path"
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "" || u.Fragment != "":
		d.WrongText(n, path, s, "is not a URL", valid)
	case !slices.Contains(schemes, u.Scheme):
		d.WrongText(n, path, s, "is not "+strings.Join(schemes, " or "), valid)
	case u.User != nil:
		d.WrongText(n, path, s, "holds a user's name", "without it")
	case u.Port() != "" && port(u.Port()) == 0:
		d.WrongText(n, path, s, "has no port from 1 to 65535", valid)
	default:
		return u
	}
	return nil
}
