package trunkproto

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// randomSource is logged, so that a failure can be repeated.
func randomSource(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// sealedHeader is a header that goldenHello was answered with.
func sealedHeader(t *testing.T, h Header) []byte {
	t.Helper()
	b, err := h.Append(nil, "berlin", &goldenHello, NewSealer(secret))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// final checks that a parser says "more" of every beginning of b until it decides, and then decides the same however many bytes
// follow. It returns how many bytes were accepted, 0 if b was refused or is too short.
func final(t *testing.T, b []byte, parse func([]byte) (int, error)) int {
	t.Helper()
	accepted, refused := 0, error(nil)
	for have := 0; have <= len(b); have++ {
		n, err := parse(bytes.Clone(b[:have]))
		switch {
		case n != 0 && err != nil:
			t.Fatalf("of %d bytes %d are taken with an error: %v", have, n, err)
		case refused != nil && (err == nil || err.Error() != refused.Error()):
			t.Fatalf("%d bytes: %d, %v; before: %v", have, n, err, refused)
		case accepted != 0 && (n != accepted || err != nil):
			t.Fatalf("%d bytes: %d, %v; before: %d", have, n, err, accepted)
		case accepted == 0 && n != 0 && n != have:
			t.Fatalf("%d bytes are taken when %d have come", n, have)
		}
		accepted, refused = n, err
	}
	return accepted
}

func TestHeaderIsTakenWhole(t *testing.T) {
	for _, tt := range goldenHeaders {
		t.Run(tt.name, func(t *testing.T) {
			var s *Sealer
			if tt.sealed {
				s = NewSealer(secret)
			}
			b := annotated(t, tt.bytes)
			n := final(t, append(bytes.Clone(b), "GET / HTTP/1.1"...), func(b []byte) (int, error) {
				_, n, err := ParseHeader(b, &goldenHello, s)
				return n, err
			})
			if n != len(b) {
				t.Errorf("%d bytes were taken, want %d", n, len(b))
			}
		})
	}
}

func TestChangedHeaderIsRefused(t *testing.T) {
	good := sealedHeader(t, goldenHeaders[0].header)
	s := NewSealer(secret)
	b := append(bytes.Clone(good), make([]byte, MaxHeader)...) // so that a longer length is no excuse
	for at := range good {
		for flip := 1; flip < 256; flip++ {
			b[at] ^= byte(flip)
			if _, n, err := ParseHeader(b, &goldenHello, s); n != 0 || err == nil {
				t.Fatalf("byte %d ^ %#02x: %d, %v", at, flip, n, err)
			}
			b[at] ^= byte(flip)
		}
	}
	if _, n, err := ParseHeader(b, &goldenHello, s); n != len(good) || err != nil {
		t.Fatalf("unchanged: %d, %v", n, err)
	}
}

func TestSealIsOfOneTrunk(t *testing.T) {
	good := sealedHeader(t, goldenHeaders[0].header)
	for at := range goldenHello {
		other := goldenHello
		other[at] ^= 1
		if _, _, err := ParseHeader(good, &other, NewSealer(secret)); !errors.Is(err, ErrSeal) {
			t.Errorf("hello that differs in byte %d: %v, want ErrSeal", at, err)
		}
	}
	if _, _, err := ParseHeader(good, &goldenHello, NewSealer([]byte("another secret of thirty-two byt"))); !errors.Is(err, ErrSeal) {
		t.Errorf("another secret: %v, want ErrSeal", err)
	}
	if _, _, err := ParseHeader(good, &goldenHello, nil); !errors.Is(err, ErrSeal) {
		t.Errorf("a seal where none is due: %v, want ErrSeal", err)
	}
	bare, err := goldenHeaders[0].header.Append(nil, "berlin", &goldenHello, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ParseHeader(bare, &goldenHello, NewSealer(secret)); !errors.Is(err, ErrSeal) {
		t.Errorf("no seal: %v, want ErrSeal", err)
	}
}

// tlv is one TLV.
func tlv(kind byte, value string) string { return string(appendTLV(nil, kind, len(value))) + value }

// raw is a header of any bytes, with the length that they have.
func raw(command, family byte, rest ...string) []byte {
	b := append([]byte(signature), command, family)
	body := strings.Join(rest, "")
	return append(wire.AppendUint16(b, uint16(len(body))), body...)
}

func TestRefusedHeaders(t *testing.T) {
	const (
		version = "\xe0\x00\x01\x01"
		id      = "\x05\x00\x100123456789abcdef"
		server  = "\xc6\x33\x64\x07\x01\xbb"
		four    = "\xc0\x00\x02\x01\xc6\x33\x64\x07\x00\x01\x01\xbb"
	)
	via, passed := tlv(0xe1, "me"), tlv(0xe2, "you")
	long := strings.Repeat("a", MaxName+1)
	probe := func(tlvs ...string) []byte { return raw(0x20, 0, tlvs...) }
	flow := func(tlvs ...string) []byte { return raw(0x21, 0x11, append([]string{four}, tlvs...)...) }
	tests := []struct {
		name  string
		bytes []byte
		want  string // "" : accepted
	}{
		{"probe", probe(version, id, via, passed), ""},
		{"flow", flow(version, id, via, passed), ""},
		{"types of others are skipped", flow(version, tlv(1, "h2"), id, tlv(4, ""), tlv(4, "xx"), via, passed, tlv(0xee, "?"), tlv(0xf5, "")), ""},
		{"8 relays", probe(version, id, tlv(0xe1, "a,b,c,d"), tlv(0xe2, "e,f,g,h")), ""},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n"), "not a PROXY protocol v2 header"},
		{"PROXY protocol, version 1", []byte("PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n"), "not a PROXY protocol v2 header"},
		{"another version of the PROXY protocol", raw(0x31, 0x11), "version and command 0x31"},
		{"another command", raw(0x22, 0x11), "version and command 0x22"},
		{"UDP", raw(0x21, 0x12), "family 0x12 with command 0x21"},
		{"unix", raw(0x21, 0x31), "family 0x31 with command 0x21"},
		{"flow without a family", raw(0x21, 0), "family 0x00 with command 0x21"},
		{"probe with a family", raw(0x20, 0x11), "family 0x11 with command 0x20"},
		{"too long", raw(0x21, 0x11, four+version+id+via+passed+tlv(4, strings.Repeat("x", MaxHeader))), "too long: 2113 bytes"},
		{"addresses are cut", raw(0x21, 0x11, four[:11]), "addresses of 11 bytes"},
		{"IPv6 addresses are cut", raw(0x21, 0x21, strings.Repeat("x", 35)), "addresses of 35 bytes"},
		{"nothing", probe(), "version, id, route or relays passed are missing"},
		{"no id", probe(version, via, passed), "version, id, route or relays passed are missing"},
		{"no way", probe(version, id, passed), "version, id, route or relays passed are missing"},
		{"nobody passed", probe(version, id, via), "version, id, route or relays passed are missing"},
		{"version comes second", probe(id, version, via, passed), "type 0x05 before the version"},
		{"another version", probe(tlv(0xe0, "\x02"), id, via, passed), "no common version"},
		{"version of two bytes", probe(tlv(0xe0, "\x01\x01"), id, via, passed), "a version of 2 bytes"},
		{"twice", probe(version, id, via, passed, via), "type 0xe1 twice"},
		{"two ids", probe(version, id, id, via, passed), "type 0x05 twice"},
		{"short id", probe(version, tlv(5, "x"), via, passed), "an id of 1 bytes"},
		{"TLV without a length", probe(version, id, via, passed, "\x01\x00"), "truncated TLV"},
		{"TLV longer than the header", probe(version, id, via, passed, "\x01\x00\x02x"), "truncated TLV"},
		{"unknown and not to be skipped", probe(version, id, via, passed, tlv(0xe7, "")), "type 0xe7 is unknown"},
		{"empty way", probe(version, id, tlv(0xe1, ""), passed), "invalid route"},
		{"empty name", probe(version, id, tlv(0xe1, "a,,b"), passed), "invalid route"},
		{"comma at the end", probe(version, id, tlv(0xe1, "a,"), passed), "invalid route"},
		{"comma in front", probe(version, id, via, tlv(0xe2, ",a")), "invalid relays passed"},
		{"capital", probe(version, id, tlv(0xe1, "A"), passed), "invalid route"},
		{"long name", probe(version, id, tlv(0xe1, "b,"+long), passed), "invalid route"},
		{"9 relays", probe(version, id, tlv(0xe1, "a,b,c,d"), tlv(0xe2, "e,f,g,h,i")), "the route has too many relays"},
		{"client of two bytes", flow(version, id, via, passed, tlv(0xe3, "\x00\x00")), "unknown client address"},
		{"client that is unknown", flow(version, id, via, passed, tlv(0xe3, "\x03")), "unknown client address"},
		{"address to measure in a flow", flow(version, id, via, passed, tlv(0xe4, server)), "an address to measure of 6 bytes, probe: false"},
		{"address to measure is cut", probe(version, id, via, passed, tlv(0xe4, "1")), "an address to measure of 1 bytes"},
		{"port 0", probe(version, id, via, passed, tlv(0xe4, "\x01\x02\x03\x04\x00\x00")), "1.2.3.4:0 cannot be connected to"},
		{"unspecified server", raw(0x21, 0x11, four[:4]+"\x00\x00\x00\x00"+four[8:], version, id, via, passed), "0.0.0.0:443 cannot be connected to"},
		{"empty congestion control", flow(version, id, via, passed, tlv(0xe8, "")), "invalid name of a congestion control"},
		{"long congestion control", flow(version, id, via, passed, tlv(0xe8, long)), "invalid name of a congestion control"},
		{"congestion control with a slash", flow(version, id, via, passed, tlv(0xe8, "../x")), "invalid name of a congestion control"},
		{"seal", flow(version, id, via, passed, tlv(0xef, strings.Repeat("x", 32))), "the seal does not match"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got error
			n := final(t, tt.bytes, func(b []byte) (n int, err error) {
				_, n, err = ParseHeader(b, &goldenHello, nil)
				got = err
				return n, err
			})
			switch {
			case tt.want == "" && n != len(tt.bytes):
				t.Errorf("%d of %d bytes, %v", n, len(tt.bytes), got)
			case tt.want != "" && (got == nil || !strings.Contains(got.Error(), tt.want)):
				t.Errorf("got %v, want %q", got, tt.want)
			case tt.want != "" && (!strings.HasPrefix(got.Error(), "read the header: ") || StatusOf(got) != BadHeader && StatusOf(got) != Loop):
				t.Errorf("got %v, status %v", got, StatusOf(got))
			}
		})
	}
}

func TestHeadersThatCannotBeWritten(t *testing.T) {
	good := goldenHeaders[0].header
	tests := []struct {
		name   string
		self   string
		change func(*Header)
		want   string
	}{
		{"own name", "Berlin", func(*Header) {}, `"Berlin" is not a valid relay name`},
		{"no way", "a", func(h *Header) { h.Via = nil }, "invalid route"},
		{"way that is none", "a", func(h *Header) { h.Via = Names("b, c") }, "invalid route"},
		{"passed that are none", "a", func(h *Header) { h.Passed = Names(",") }, "invalid relays passed"},
		{"too many", "a", func(h *Header) { h.Via, h.Passed = Names("b,c,d,e"), Names("f,g,h,i") }, ErrHops.Error()},
		{"over itself", "a", func(h *Header) { h.Via = Names("b,a") }, ErrLoop.Error()},
		{"passed itself", "a", func(h *Header) { h.Passed = Names("a") }, ErrLoop.Error()},
		{"no client", "a", func(h *Header) { h.Client = netip.AddrPort{} }, "invalid client invalid AddrPort"},
		{"client of a zone", "a", func(h *Header) { h.Client = netip.MustParseAddrPort("[fe80::1%eth0]:1") }, "invalid client"},
		{"no server", "a", func(h *Header) { h.Server = netip.AddrPort{} }, "cannot be connected to"},
		{"server of a zone", "a", func(h *Header) { h.Server = netip.MustParseAddrPort("[fe80::1%eth0]:1") }, "cannot be connected to"},
		{"many servers", "a", func(h *Header) { h.Server = netip.MustParseAddrPort("224.0.0.1:1") }, "cannot be connected to"},
		{"unknown client to see", "a", func(h *Header) { h.ClientAddress = 3 }, "unknown client"},
		{"congestion control", "a", func(h *Header) { h.Congestion = "b b r" }, "congestion control"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := good
			tt.change(&h)
			b, err := h.Append([]byte("before"), tt.self, &goldenHello, NewSealer(secret))
			if string(b) != "before" || err == nil || !strings.HasPrefix(err.Error(), "write the header: "+tt.want) &&
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("Append = %q, %v, want %q", b, err, tt.want)
			}
		})
	}
}

// TestLongestHeader: whatever passes the check fits.
func TestLongestHeader(t *testing.T) {
	name := func(i int) string { return fmt.Sprintf("%0*d", MaxName, i) }
	via, err := JoinNames(name(1), name(2), name(3))
	if err != nil {
		t.Fatal(err)
	}
	passed, err := JoinNames(name(4), name(5), name(6), name(7))
	if err != nil {
		t.Fatal(err)
	}
	h := Header{Client: netip.MustParseAddrPort("[2001:db8::1]:1"), Server: netip.MustParseAddrPort("[2001:db8::2]:2"), Via: via,
		Passed: passed, ClientAddress: Spoofed, Congestion: strings.Repeat("c", maxCongestion)}
	b, err := h.Append(nil, name(8), &goldenHello, NewSealer(secret))
	if err != nil || len(b) > MaxHeader {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if _, n, err := ParseHeader(b, &goldenHello, NewSealer(secret)); n != len(b) || err != nil {
		t.Errorf("ParseHeader = %d, %v, want %d", n, err, len(b))
	}
}

func TestConnectable(t *testing.T) {
	for server, want := range map[string]bool{
		"192.0.2.1:80": true, "[2001:db8::1]:80": true, "127.0.0.1:1": true, "[::1]:1": true, "[::ffff:192.0.2.1]:80": true,
		"192.0.2.1:0": false, "0.0.0.0:80": false, "[::]:80": false, "[::ffff:0.0.0.0]:80": false, "224.0.0.1:80": false,
		"[::ffff:224.0.0.1]:80": false, "[ff02::1]:80": false, "[fe80::1%eth0]:80": false,
	} {
		if got := Connectable(netip.MustParseAddrPort(server)); got != want {
			t.Errorf("%s: %v, want %v", server, got, want)
		}
	}
	if Connectable(netip.AddrPort{}) {
		t.Error("no address at all")
	}
}
