package config

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"baton/document"
)

func TestAllowed(t *testing.T) {
	cfg := &Config{Allow: []Allow{
		{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Ports: []document.Ports{{First: 443, Last: 443}, {First: 8000, Last: 8100}}},
		{Prefix: netip.MustParsePrefix("203.0.113.0/24")},
		{Prefix: netip.MustParsePrefix("127.0.0.2/32"), Ports: []document.Ports{{First: 80, Last: 80}}},
		{Prefix: netip.MustParsePrefix("::/0"), Ports: []document.Ports{{First: 443, Last: 443}}},
		{Prefix: netip.MustParsePrefix("fe80::/64"), Ports: []document.Ports{{First: 22, Last: 22}}},
	}}
	tests := []struct {
		name, server string
		want         bool
	}{
		{"port", "192.0.2.1:443", true},
		{"first of a range", "192.0.2.1:8000", true},
		{"last of a range", "192.0.2.1:8100", true},
		{"before a range", "192.0.2.1:7999", false},
		{"after a range", "192.0.2.1:8101", false},
		{"all ports", "203.0.113.255:1", true},
		{"beside the prefix", "203.0.114.0:1", false},
		{"no port", "203.0.113.5:0", false},
		{"IPv4 in IPv6", "[::ffff:203.0.113.5]:22", true},
		{"IPv4 in IPv6 is not IPv6", "[::ffff:127.0.0.1]:443", false},
		{"IPv6", "[2001:db8::1]:443", true},
		{"port of IPv6", "[2001:db8::1]:80", false},
		{"zone", "[2001:db8::1%eth0]:443", false},
		{"loopback by all of IPv4", "127.0.0.1:443", false},
		{"loopback by its own prefix", "127.0.0.2:80", true},
		{"loopback beside its own prefix", "127.0.0.3:80", false},
		{"credentials of the cloud", "169.254.169.254:443", false},
		{"this host by IPv4", "0.0.0.0:443", false},
		{"this host by IPv6", "[::]:443", false},
		{"loopback of IPv6", "[::1]:443", false},
		{"link by all of IPv6", "[fe80::1]:443", false},
		{"link by its own prefix", "[fe80::1]:22", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := cfg.Allowed(addr(tt.server)); got != tt.want {
				t.Errorf("Allowed(%s) = %v, want %v", tt.server, got, tt.want)
			}
		})
	}
	if (&Config{}).Allowed(addr("203.0.113.5:443")) {
		t.Error("nothing is in allow, and a server is allowed")
	}
	if cfg.Allowed(netip.AddrPort{}) {
		t.Error("no address is allowed")
	}
}

// TestAllowedLikeBits holds Allowed against a model that compares addresses bit by bit, on addresses where much overlaps.
func TestAllowedLikeBits(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	address := func() netip.Addr {
		b := [16]byte{0x20, 0x01, 15: byte(random.IntN(8))}
		b[8] = byte(random.IntN(4)) << 6
		if random.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, 0, b[8], b[15]})
		}
		return netip.AddrFrom16(b)
	}
	same := func(a, b netip.Addr, bits int) bool {
		x, y := a.AsSlice(), b.AsSlice()
		if len(x) != len(y) {
			return false
		}
		for i := range bits {
			if (x[i/8]^y[i/8])>>(7-i%8)&1 != 0 {
				return false
			}
		}
		return true
	}
	count := map[bool]int{}
	for range 20000 {
		cfg := &Config{}
		for range random.IntN(4) {
			a := address()
			e := Allow{Prefix: netip.PrefixFrom(a, random.IntN(a.BitLen()+1)).Masked()}
			for range random.IntN(3) {
				first := uint16(1 + random.IntN(4))
				e.Ports = append(e.Ports, document.Ports{First: first, Last: first + uint16(random.IntN(3))})
			}
			cfg.Allow = append(cfg.Allow, e)
		}
		server := netip.AddrPortFrom(address(), uint16(1+random.IntN(6)))
		want := false
		for _, e := range cfg.Allow {
			in := len(e.Ports) == 0
			for _, p := range e.Ports {
				for port := p.First; port <= p.Last; port++ {
					in = in || port == server.Port()
				}
			}
			want = want || in && same(e.Prefix.Addr(), server.Addr(), e.Prefix.Bits())
		}
		count[want]++
		if got := cfg.Allowed(server); got != want {
			t.Fatalf("seed %d: Allowed(%s) = %v, want %v, of %v", seed, server, got, want, cfg.Allow)
		}
	}
	if count[true] < 1000 || count[false] < 1000 {
		t.Errorf("%d allowed and %d not: the addresses are badly chosen", count[true], count[false])
	}
}

func BenchmarkAllowed(b *testing.B) {
	for _, n := range []int{1, 100, 300, maxAllow} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			cfg := &Config{}
			for i := range n {
				prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
				cfg.Allow = append(cfg.Allow, Allow{Prefix: prefix, Ports: []document.Ports{{First: 443, Last: 443}}})
			}
			server := addr("192.0.2.1:443")
			b.ReportAllocs()
			for b.Loop() {
				if cfg.Allowed(server) {
					b.Fatal("allowed")
				}
			}
		})
	}
}
