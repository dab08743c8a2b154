package proxyheader

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"baton/relay/config"
)

// pieces makes prefaces of what is near a border of their grammar.
type pieces struct{ *rand.Rand }

// mostly gives the first, and one of the others about one time in ten.
func (p pieces) mostly(good string, others ...string) string {
	if p.IntN(10) > 0 {
		return good
	}
	return p.one(others...)
}

func (p pieces) one(of ...string) string { return of[p.IntN(len(of))] }

// few gives none to two.
func (p pieces) few(of ...string) string {
	var b strings.Builder
	for range p.IntN(3) {
		b.WriteString(p.one(of...))
	}
	return b.String()
}

func (p pieces) host() string {
	good := p.one("a", "A.b", "example.test.", "192.0.2.1", "[2001:db8::1]", "[::ffff:192.0.2.1]")
	spoilt := good + p.one(".", "-", "%41", "@", "[", "]", "/", "_", " ", "ä")
	return p.mostly(good, "0.0.0.0", "[::]", "224.0.0.1", "127.1", "", "[192.0.2.1]", spoilt)
}

func (p pieces) port() string {
	return p.mostly(p.one("80", "443", "65535"), "65536", "0", "080", "00080", "-1", "+80", "", "x")
}

func (p pieces) line(text string) string { return text + p.mostly("\r\n", "\n", "\r", "\r\r\n", "") }

func (p pieces) address(size int) string {
	good := p.one("\x20\x01\x0d\xb8\xc0\x00\x02\x01\xc0\x00\x02\x01\xc0\x00\x02\x02", strings.Repeat("\x00", 10)+"\xff\xff\xc0\x00\x02\x02")
	return p.mostly(good, strings.Repeat("\x00", 16), strings.Repeat("\xff", 16))[16-size:]
}

func (p pieces) connect() string {
	method := p.mostly("CONNECT ", "CONNECT  ", "GET ", "connect ", "CONNECT\t")
	version := p.mostly(" HTTP/1.1", " HTTP/1.0", " HTTP/2.0", " HTTP/1.2", "")
	host := p.mostly("Host: a\r\n", "host:a\r\n", "Host: a\r\nHost: a\r\n", "")
	fields := p.mostly(p.few("X: y\r\n", "Content-Length: 0\r\n"), "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "X\r\n", " y\r\n",
		"X: \x00\r\n", "X : y\r\n")
	return p.line(method+p.host()+":"+p.port()+version) + host + fields + p.line("") + "data"
}

func (p pieces) socks() string {
	name := strings.Trim(p.host(), "[]")
	methods := p.mostly("\x05\x01\x00", "\x05\x02\x02\x00", "\x05\x01\x02", "\x05\x00", "\x04")
	command := p.mostly("\x05\x01\x00", "\x05\x01\x01", "\x05\x02\x00", "\x04\x01\x00")
	address := p.one("\x01"+p.address(4), "\x04"+p.address(16), "\x03"+string([]byte{byte(len(name))})+name)
	return methods + command + p.mostly(address, "\x02", "\x03\x00") + p.mostly("\x00\x50", "\x00\x00", "\x00") + "data"
}

func (p pieces) proxy1() string {
	family, good := "4", "192.0.2.1"
	if p.IntN(2) == 0 {
		family, good = "6", p.one("2001:db8::1", "2001:DB8::2", "::ffff:192.0.2.1")
	}
	address := func() string { return p.mostly(good, "0.0.0.0", "192.0.2.01", "::1", "fe80::1%eth0", "::", "") }
	return p.line("PROXY TCP"+family+" "+address()+" "+address()+p.mostly(" ", "  ", "\t")+p.port()+" "+p.port()) + "data"
}

func (p pieces) proxy2() string {
	family, size, addresses := "\x11", 12, p.address(4)+p.address(4)
	if p.IntN(2) == 0 {
		family, size, addresses = "\x21", 36, p.address(16)+p.address(16)
	}
	tlvs := p.few("\x03\x00\x04abcd", "\x04\x00\x00", "\xee\x00\x01", "\xff")
	length := p.mostly(string([]byte{0, byte(size + len(tlvs))}), "\x00\x00", "\x00\x0b", "\x10\x01")
	command := p.mostly("\x21", "\x20", "\x31", "\x22") + p.mostly(family, "\x12", "\x00", "\x31", "\x13")
	return proxyV2 + command + length + addresses + "\x00\x01" + p.mostly("\x00\x50", "\x00\x00") + tlvs + "data"
}

// TestRandomHeaders is FuzzFeed on random pieces.
func TestRandomHeaders(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	p := pieces{rand.New(rand.NewPCG(seed, 0))}
	for _, tt := range []struct {
		name    string
		mode    config.Mode
		preface func() string
	}{
		{"connect", config.Connect, p.connect},
		{"socks", config.SOCKS5, p.socks},
		{"proxy v1", config.Proxy, p.proxy1},
		{"proxy v2", config.Proxy, p.proxy2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			accepted := 0
			for range 2000 {
				b := tt.preface()
				if check(t, tt.mode, []byte(b), p.Rand) {
					accepted++
				}
				if t.Failed() {
					t.Fatalf("%q", b)
				}
			}
			t.Logf("%d of 2000 accepted", accepted)
			if accepted < 300 || accepted > 1700 {
				t.Error("one side of the border is hardly looked at")
			}
		})
	}
}
