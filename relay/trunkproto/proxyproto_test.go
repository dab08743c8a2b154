package trunkproto

import (
	"bufio"
	"bytes"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"
)

// TestOthersReadOurs holds what Append writes against a reader of the PROXY protocol that nobody here wrote.
func TestOthersReadOurs(t *testing.T) {
	for _, tt := range goldenHeaders {
		t.Run(tt.name, func(t *testing.T) {
			b, err := tt.header.Append(nil, tt.self, &goldenHello, NewSealer(secret))
			if err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(bytes.NewReader(append(b, "data"...)))
			theirs, err := proxyproto.Read(r)
			if err != nil {
				t.Fatal(err)
			}
			if left, _ := r.Peek(5); string(left) != "data" {
				t.Errorf("%q is left behind the header", left)
			}
			compareAddresses(t, theirs, tt.header)
			tlvs, err := theirs.TLVs()
			if err != nil {
				t.Fatal(err)
			}
			values := make(map[proxyproto.PP2Type]string)
			for _, tlv := range tlvs {
				values[tlv.Type] = string(tlv.Value)
			}
			if got := values[proxyproto.PP2_TYPE_UNIQUE_ID]; got != string(tt.header.ID[:]) {
				t.Errorf("id %q", got)
			}
			if via, passed := values[typeVia], values[typePassed]; via != tt.header.Via.String() || !strings.HasSuffix(passed, tt.self) {
				t.Errorf("way on %q, passed %q", via, passed)
			}
			if last := tlvs[len(tlvs)-1]; last.Type != typeSeal || len(last.Value) != 32 {
				t.Errorf("the last TLV is %v", last)
			}
		})
	}
}

func compareAddresses(t *testing.T, theirs *proxyproto.Header, ours Header) {
	t.Helper()
	if theirs.Command.IsLocal() != ours.Probe {
		t.Errorf("command %#x, probe: %v", theirs.Command, ours.Probe)
	}
	if ours.Probe {
		return
	}
	client, server, ok := theirs.TCPAddrs()
	if !ok || unmapped(client) != ours.Client || unmapped(server) != ours.Server {
		t.Errorf("client %v, server %v, want %v, %v", client, server, ours.Client, ours.Server)
	}
}

func unmapped(a *net.TCPAddr) netip.AddrPort {
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

func TestOthersReadAppendProxy(t *testing.T) {
	for _, addresses := range [][2]string{
		{"192.0.2.1:50000", "198.51.100.7:443"},
		{"[2001:db8::1]:50000", "[2001:db8::2]:443"},
		{"192.0.2.1:50000", "[2001:db8::2]:443"},
		{"[2001:db8::1]:50000", "198.51.100.7:443"},
	} {
		h := Header{Client: netip.MustParseAddrPort(addresses[0]), Server: netip.MustParseAddrPort(addresses[1])}
		theirs, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(AppendProxy(nil, h.Client, h.Server))))
		if err != nil {
			t.Fatalf("%v: %v", addresses, err)
		}
		compareAddresses(t, theirs, h)
		if tlvs, err := theirs.TLVs(); len(tlvs) != 0 || err != nil {
			t.Errorf("%v: %v, %v behind the addresses", addresses, tlvs, err)
		}
	}
}

// TestWeReadOthers holds ParseHeader against a writer of the PROXY protocol, over random addresses.
func TestWeReadOthers(t *testing.T) {
	random := randomSource(t)
	for range 2000 {
		ips := [2]net.IP{make(net.IP, 4), make(net.IP, 4)}
		if random.IntN(2) == 0 {
			ips = [2]net.IP{make(net.IP, 16), make(net.IP, 16)}
		}
		for _, ip := range ips {
			for i := range ip {
				ip[i] = byte(random.Uint32())
			}
			ip[0] = 0x20 // a host's address of either family
		}
		client := &net.TCPAddr{IP: ips[0], Port: random.IntN(65536)}
		server := &net.TCPAddr{IP: ips[1], Port: 1 + random.IntN(65535)}
		theirs := proxyproto.HeaderProxyFromAddrs(2, client, server)
		err := theirs.SetTLVs([]proxyproto.TLV{
			{Type: typeVersion, Value: []byte{Version}},
			{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: []byte("example.test")},
			{Type: proxyproto.PP2_TYPE_UNIQUE_ID, Value: bytes.Repeat([]byte{7}, IDSize)},
			{Type: proxyproto.PP2_TYPE_NOOP, Value: make([]byte, random.IntN(9))},
			{Type: typeVia, Value: []byte("b,c")},
			{Type: typePassed, Value: []byte("a")},
		})
		if err != nil {
			t.Fatal(err)
		}
		b, err := theirs.Format()
		if err != nil {
			t.Fatal(err)
		}
		ours, n, err := ParseHeader(append(b, "data"...), &goldenHello, nil)
		if n != len(b) || err != nil {
			t.Fatalf("%d of %d bytes, %v", n, len(b), err)
		}
		compareAddresses(t, theirs, ours)
		if ours.ID[15] != 7 || ours.Via.String() != "b,c" || ours.Passed.String() != "a" {
			t.Fatalf("got %v", ours)
		}
	}
}
