package document

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

// decodeOne decodes the value of the document's only key, k.
func decodeOne[T any](text string, decode func(d *Decoder, path string, n *Node) T) (v T, err error) {
	root, err := Parse("f", []byte("k: "+text), rules)
	if err != nil {
		return v, err
	}
	d := NewDecoder("f")
	d.Fields("", root, []Key{{Name: "k", Decode: func(path string, n *Node) { v = decode(d, path, n) }}})
	return v, d.Err()
}

func TestNetworkValues(t *testing.T) {
	label := func(d *Decoder, path string, n *Node) any { return d.Label(path, n) }
	short := func(d *Decoder, path string, n *Node) any { return d.Name(path, n, 10) }
	device := func(d *Decoder, path string, n *Node) any { return d.Device(path, n) }
	socket := func(d *Decoder, path string, n *Node) any { return d.SocketPath(path, n) }
	ports := func(d *Decoder, path string, n *Node) any { return d.PortsList(path, n, 2) }
	hostPort := func(d *Decoder, path string, n *Node) any { return d.HostPort(path, n, "127.0.0.1:9410") }
	addrPort := func(d *Decoder, path string, n *Node) any { return d.AddrPort(path, n) }
	listen := func(d *Decoder, path string, n *Node) any { return d.ListenAddrPort(path, n) }
	address := func(d *Decoder, path string, n *Node) any { return d.Address(path, n) }
	prefix := func(d *Decoder, path string, n *Node) any { return d.Prefix(path, n) }
	either := func(d *Decoder, path string, n *Node) any { return d.AddressOrPrefix(path, n) }
	url := func(d *Decoder, path string, n *Node) any {
		if u := d.URL(path, n, "http", "https"); u != nil {
			return u.String()
		}
		return nil
	}
	distinct := func(d *Decoder, path string, n *Node) any { return Distinct(d, path, n, d.AddressOrPrefix) }
	type decoding = func(d *Decoder, path string, n *Node) any

	for _, test := range []struct {
		text   string
		decode decoding
		want   any
	}{
		{"a", label, "a"},
		{"0-a", label, "0-a"},
		{strings.Repeat("a", 63), label, strings.Repeat("a", 63)},
		{"abcdefghij", short, "abcdefghij"},
		{"eth0.7@if3", device, "eth0.7@if3"},
		{"wlp0s20f3_longs", device, "wlp0s20f3_longs"},
		{"/run/a.sock", socket, "/run/a.sock"},
		{"[1, 8000-8100]", ports, []Ports{{1, 1}, {8000, 8100}}},
		{"[1-65535]", ports, []Ports{{1, 65535}}},
		{`":9410"`, hostPort, ":9410"},
		{`"[::1]:65535"`, hostPort, "[::1]:65535"},
		{"host:1", hostPort, "host:1"},
		{"192.0.2.7:443", addrPort, netip.MustParseAddrPort("192.0.2.7:443")},
		{"0.0.0.0:443", listen, netip.MustParseAddrPort("0.0.0.0:443")},
		{`"[::]:443"`, listen, netip.MustParseAddrPort("[::]:443")},
		{"2001:db8::1", address, netip.MustParseAddr("2001:db8::1")},
		{"0.0.0.0/0", prefix, netip.MustParsePrefix("0.0.0.0/0")},
		{"2001:db8::/32", prefix, netip.MustParsePrefix("2001:db8::/32")},
		{"2001:db8::1", either, netip.MustParsePrefix("2001:db8::1/128")},
		{"10.0.0.0/8", either, netip.MustParsePrefix("10.0.0.0/8")},
		{"https://a:1/b?c", url, "https://a:1/b?c"},
		{"[10.0.0.1, 10.0.0.0/8]", distinct, []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")}},
	} {
		if got, err := decodeOne(test.text, test.decode); err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %v, %v, want %v", test.text, got, err, test.want)
		}
	}

	for _, test := range []struct {
		text   string
		decode decoding
		want   string
	}{
		{"A", label, `"A" is no name here`},
		{"a-", label, `"a-" is no name here`},
		{strings.Repeat("a", 64), label, `is no name here (at most 63`},
		{"abcdefghijk", short, `is no name here (at most 10`},
		{"..", device, `".." is not the name of an interface`},
		{"a/b", device, `"a/b" is not the name of an interface`},
		{strings.Repeat("a", 16), device, "is not the name of an interface"},
		{"run/a.sock", socket, `"run/a.sock" is not usable as a path`},
		{"/" + strings.Repeat("a", 107), socket, "at most 107 bytes"},
		{"[0]", ports, `k[0]: "0" is not a port`},
		{"[080]", ports, `"080" is not a port`},
		{"[+80]", ports, `"+80" is not a port`},
		{"[65536]", ports, `"65536" is not a port`},
		{"[1-]", ports, `"1-" is not a port`},
		{"[1-2-3]", ports, `"1-2-3" is not a port`},
		{"[9-8]", ports, `"9-8" ends before it begins (8-9)`},
		{"[1, 2, 3]", ports, "has 3 entries (at most 2)"},
		{"[]", ports, "is an empty list"},
		{"a", hostPort, `"a" is not host:port (such as "127.0.0.1:9410")`},
		{`"::1:80"`, hostPort, "is not host:port"},
		{"a:http", hostPort, "has no port from 1 to 65535"},
		{`":0"`, hostPort, "has no port from 1 to 65535"},
		{"192.0.2.7", addrPort, `"192.0.2.7" has no port (such as "192.0.2.7:443")`},
		{`"[2001:db8::9]"`, addrPort, `"[2001:db8::9]" has no port (such as "[2001:db8::9]:443")`},
		{"2001:db8::9:80", addrPort, `"2001:db8::9:80" is an IPv6 address without brackets (with a port it is written "[2001:db8::7]:443")`},
		{"::1", listen, `"::1" is an IPv6 address without brackets`},
		{"s1:80", addrPort, `"s1:80" is not address:port`},
		{"s1.example.net:80", addrPort, `has a host name, and names are not looked up`},
		{"0.0.0.0:443", addrPort, `"0.0.0.0:443" is not the address of one host`},
		{`":443"`, listen, `all of IPv4 is "0.0.0.0:443", all of IPv6 "[::]:443"`},
		{"192.0.2.7:0", listen, "has port 0"},
		{`"[fe80::1%eth0]:80"`, listen, "has a zone"},
		{`"[::ffff:10.0.0.1]:80"`, listen, "is an IPv4 address written as IPv6 (10.0.0.1:80)"},
		{"224.0.0.1:80", listen, "is not the address of one host"},
		{"255.255.255.255:80", listen, "is not the address of one host"},
		{"a", address, `"a" is not an address`},
		{"::ffff:10.0.0.1", address, "is an IPv4 address written as IPv6 (10.0.0.1)"},
		{"fe80::1%eth0", address, "is not the address of one host"},
		{"10.0.0.1", prefix, `"10.0.0.1" has no length (10.0.0.1/32)`},
		{"10.0.0.1/8", prefix, "has bits set after its length (10.0.0.0/8)"},
		{"10.0.0.0/33", prefix, "is not address/length"},
		{"::ffff:10.0.0.0/104", prefix, "is an IPv4 address written as IPv6"},
		{"a", either, "is neither an address nor address/length"},
		{"::ffff:10.0.0.1", either, "is an IPv4 address written as IPv6"},
		{"fe80::1%eth0", either, "is neither an address nor address/length"},
		{"10.0.0.1/8", either, "has bits set after its length"},
		{"a", url, `"a" is not a URL (http://host:port/path)`},
		{`"http://:80/"`, url, "is not a URL"},
		{"http://a/#b", url, "is not a URL"},
		{"ftp://a/", url, "is not http or https"},
		{"http://u:p@a/", url, "holds a user's name"},
		{"http://a:0/", url, "has no port from 1 to 65535"},
		{"[10.0.0.1, 10.0.0.1/32]", distinct, `k[1]: "10.0.0.1/32" is there twice`},
	} {
		if got, err := decodeOne(test.text, test.decode); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, %v, want an error with %q", test.text, got, err, test.want)
		}
	}
}

func TestNameOf(t *testing.T) {
	for file, want := range map[string]string{
		"edge.yaml": "edge", "/etc/Edge Switch.yaml": "edge-switc", "-.yaml": "otherwise", "": "otherwise", "a.b-----------c": "a",
		"123456789-12.yaml": "123456789",
	} {
		if got := NameOf(file, 10, "otherwise"); got != want {
			t.Errorf("NameOf(%q) = %q, want %q", file, got, want)
		}
	}
}
