package answer

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// octets reads hexadecimal digits, with remarks behind #.
func octets(t *testing.T, text string) []byte {
	t.Helper()
	var all strings.Builder
	for line := range strings.Lines(text) {
		digits, _, _ := strings.Cut(line, "#")
		all.WriteString(strings.Join(strings.Fields(digits), ""))
	}
	raw, err := hex.DecodeString(all.String())
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestGolden: messages octet by octet.
func TestGolden(t *testing.T) {
	w := testServer(t, Options{Subnet: true, NSID: "ns1"}).Worker()
	for _, tt := range []struct{ name, query, want string }{
		{"an address", `
			1234 0100 0001 0000 0000 0000          # id, RD, one question
			03 774542 07 6578616d706c65 04 74657374 00 001c 0001  # wEB.example.test. AAAA IN`, `
			1234 8500 0001 0001 0000 0000          # QR AA RD
			03 774542 07 6578616d706c65 04 74657374 00 001c 0001  # the letters of the question
			c00c 001c 0001 0000012c 0010 20010db8000000000000000000000003`},
		{"no such name, moved pointers", `
			0001 0000 0001 0000 0000 0000
			01 61 01 62 07 6578616d706c65 04 74657374 00 0001 0001`, `
			0001 8403 0001 0000 0001 0000          # AA, NXDOMAIN
			01 61 01 62 07 6578616d706c65 04 74657374 00 0001 0001
			c010 0006 0001 0000003c 0027           # the zone's name is 4 octets later than without a.b
			03 6e7331 c010 0a 686f73746d6173746572 c010 00000007 00000e10 00000258 00015180 0000003c`},
		{"a routed name, with a client subnet and NSID", `
			0002 0000 0001 0000 0000 0001
			03 63646e 07 6578616d706c65 04 74657374 00 0001 0001
			00 0029 1000 00000000 000f             # OPT, 4096 octets
			0008 0007 0001 18 00 c00002            # 192.0.2.0/24
			0003 0000                              # NSID`, `
			0002 8400 0001 0002 0000 0001
			03 63646e 07 6578616d706c65 04 74657374 00 0001 0001
			c00c 0001 0001 00000014 0004 c6336401
			c00c 0001 0001 00000014 0004 c6336402
			00 0029 04d0 00000000 0012
			0008 0007 0001 18 18 c00002            # scope 24
			0003 0003 6e7331`},
		{"an alias of a routed name", `
			0003 0000 0001 0000 0000 0000
			07 746f726f757465 07 6578616d706c65 04 74657374 00 001c 0001`, `
			0003 8400 0001 0002 0000 0000
			07 746f726f757465 07 6578616d706c65 04 74657374 00 001c 0001
			c00c 0005 0001 0000012c 0006 03 63646e c014
			c032 001c 0001 00000014 0010 20010db8000100000000000000000001  # the owner is the alias's target`},
		{"a message of another version", `
			0004 0000 0001 0000 0000 0001
			03 776562 07 6578616d706c65 04 74657374 00 0001 0001
			00 0029 1000 00010000 0000`, `
			0004 8000 0001 0000 0000 0001
			03 776562 07 6578616d706c65 04 74657374 00 0001 0001
			00 0029 04d0 01000000 0000             # BADVERS is 16: its upper bits are here`},
		{"an opcode", "0005 2800 0000 0000 0000 0000", "0005 a804 0000 0000 0000 0000"},
		{"a pointer in the question", "0006 0000 0001 0000 0000 0000 c00c 0001 0001", "0006 8001 0000 0000 0000 0000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := make([]byte, 1232)
			n := w.Handle(octets(t, tt.query), client, false, out)
			if got, want := hex.EncodeToString(out[:n]), hex.EncodeToString(octets(t, tt.want)); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestSizes: an answer is at most as long as the client and the server want; what is left out is said by TC, and there all over TCP.
func TestSizes(t *testing.T) {
	big := text + "big TXT " + strings.Repeat(" "+strings.Repeat("x", 250), 5) + "\n"
	w := testServer(t, Options{Size: 1400}, testZone(t, big)).Worker()
	for _, tt := range []struct {
		size  uint16
		tcp   bool
		whole bool
	}{{0, false, false}, {512, false, false}, {1232, false, false}, {1400, false, true}, {4096, false, true}, {100, false, false}, {0, true, true}, {512, true, true}} {
		m := ask("big.example.test.", "TXT")
		if tt.size > 0 {
			m.SetEdns0(tt.size, false)
		}
		a := exchange(t, w, m, tt.tcp)
		if a.Truncated == tt.whole || (len(a.Answer) == 1) != tt.whole || !a.Authoritative || (a.IsEdns0() != nil) != (tt.size > 0) {
			t.Errorf("%d, TCP %v: %v", tt.size, tt.tcp, a)
		}
	}
	if n := w.Counts.Truncated.Load(); n != 4 {
		t.Errorf("%d were truncated", n)
	}
}

// TestSubnets: what RFC 7871 forbids is a format error; without an address the resolver's counts.
func TestSubnets(t *testing.T) {
	w := testServer(t, Options{Subnet: true}).Worker()
	for _, tt := range []struct {
		name  string
		value []byte
		code  int
		scope int
	}{
		{"IPv4", []byte{0, 1, 24, 0, 192, 0, 2}, 0, 24}, {"IPv6", []byte{0, 2, 56, 0, 0x20, 1, 0xd, 0xb8, 0, 0, 1}, 0, 24}, {"none of it", []byte{0, 1, 0, 0}, 0, 0},
		{"a scope", []byte{0, 1, 24, 24, 192, 0, 2}, 1, 0}, {"bits behind", []byte{0, 1, 23, 0, 192, 0, 3}, 1, 0}, {"too long", []byte{0, 1, 24, 0, 192, 0, 2, 0}, 1, 0},
		{"too short", []byte{0, 1, 24, 0, 192, 0}, 1, 0}, {"too wide", []byte{0, 1, 33, 0, 192, 0, 2, 0, 1}, 1, 0}, {"another family", []byte{0, 3, 8, 0, 1}, 1, 0},
		{"cut off", []byte{0, 1, 24}, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := ask("cdn.example.test.", "A")
			m.SetEdns0(1232, false)
			m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: optionSubnet, Data: tt.value}}
			a := exchange(t, w, m, false)
			if a.Rcode != tt.code {
				t.Fatalf("%v", a)
			}
			if tt.code == 0 {
				o := a.IsEdns0().Option[0].(*dns.EDNS0_SUBNET)
				if int(o.SourceScope) != tt.scope || o.SourceNetmask != tt.value[2] {
					t.Errorf("%v", o)
				}
			}
		})
	}
}

// TestCookies: a server cookie is that of RFC 9018's example, is checked, and frees from the limits.
func TestCookies(t *testing.T) {
	secret := [16]byte(octets(t, "e5e973e5a6b2a43f48e7dc849e37bfcf"))
	c := NewCookies(secret)
	at := time.Unix(1559731985, 0) // RFC 9018, appendix A.1
	made := c.make(nil, octets(t, "2464c4abcf10c957"), netip.MustParseAddr("198.51.100.100"), at)
	if got := hex.EncodeToString(made); got != "010000005cf79f111f8130c3eee29480" {
		t.Errorf("%s", got)
	}
	whole := append(octets(t, "2464c4abcf10c957"), made...)
	for _, tt := range []struct {
		name   string
		cookie []byte
		from   string
		after  time.Duration
		valid  bool
	}{
		{"its own", whole, "198.51.100.100", time.Minute, true}, {"another address", whole, "198.51.100.101", 0, false}, {"old", whole, "198.51.100.100", 2 * time.Hour, false},
		{"of the future", whole, "198.51.100.100", -10 * time.Minute, false}, {"client's alone", whole[:8], "198.51.100.100", 0, false},
		{"changed", append([]byte{0}, whole[1:]...), "198.51.100.100", 0, false},
	} {
		if got := c.valid(tt.cookie, netip.MustParseAddr(tt.from), at.Add(tt.after)); got != tt.valid {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	w := testServer(t, Options{Cookies: c, Limits: NewLimits(5, 0, 24, 56, nil)}).Worker()
	m := ask("web.example.test.", "A")
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}}
	m.IsEdns0().Option[0].(*dns.EDNS0_COOKIE).Cookie = exchange(t, w, m, false).IsEdns0().Option[0].(*dns.EDNS0_COOKIE).Cookie
	for range 20 {
		if a := exchange(t, w, m, false); a == nil || len(a.Answer) != 2 {
			t.Fatalf("with a cookie: %v", a)
		}
	}
	m.IsEdns0().Option[0].(*dns.EDNS0_COOKIE).Cookie = "010203"
	if a := exchange(t, w, m, false); a == nil || a.Rcode != dns.RcodeFormatError {
		t.Errorf("a short cookie: %v", a)
	}
}

// TestLimits: of like answers a network gets so many a second; of those above some are sent without records, none over TCP; other networks, other names and
// exempt clients are not hurt.
func TestLimits(t *testing.T) {
	s := testServer(t, Options{Limits: NewLimits(10, 2, 24, 56, []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")})})
	now := time.Unix(1700000000, 0)
	s.now = func() time.Time { return now }
	w := s.Worker()
	count := func(from, name, kind string, tcp bool) (whole, short, none int) {
		raw, err := ask(name, kind).Pack()
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			out := make([]byte, maxMessage)
			if !tcp {
				out = out[:1232]
			}
			switch n := w.Handle(raw, netip.AddrPortFrom(netip.MustParseAddr(from), 53), tcp, out); {
			case n == 0:
				none++
			case out[2]&flagTC != 0:
				short++
			default:
				whole++
			}
		}
		return whole, short, none
	}
	for _, tt := range []struct {
		what, from, name, kind string
		tcp                    bool
		whole                  int
	}{
		{"a name", "203.0.113.1", "web.example.test.", "A", false, 10}, {"the same for a neighbour", "203.0.113.200", "web.example.test.", "A", false, 0},
		{"another network", "203.0.114.1", "web.example.test.", "A", false, 10}, {"another name", "203.0.113.1", "mail.example.test.", "A", false, 10},
		{"no such name", "203.0.113.1", "no1.example.test.", "A", false, 10}, {"another that there is not", "203.0.113.1", "no2.example.test.", "A", false, 0},
		{"a foreign name", "203.0.113.1", "example.org.", "A", false, 10}, {"TCP", "203.0.113.1", "web.example.test.", "A", true, 30},
		{"an exempt client", "198.51.100.1", "web.example.test.", "A", false, 30}, {"IPv6", "2001:db8::1", "web.example.test.", "A", false, 10},
		{"IPv6 of the same network", "2001:db8:0:1::1", "web.example.test.", "A", false, 0}, {"routed", "203.0.113.1", "cdn.example.test.", "A", false, 10},
	} {
		whole, short, none := count(tt.from, tt.name, tt.kind, tt.tcp)
		if rest := 30 - tt.whole; whole != tt.whole || short != rest/2 || none != rest-rest/2 {
			t.Errorf("%s: %d whole, %d short, %d none; want %d whole", tt.what, whole, short, none, tt.whole)
		}
	}
	now = now.Add(time.Second)
	if whole, _, _ := count("203.0.113.1", "web.example.test.", "A", false); whole != 10 {
		t.Errorf("in the next second: %d", whole)
	}
	sum := s.Counts()
	if sum.Omitted != sum.Slipped || sum.Omitted == 0 {
		t.Errorf("%+v", sum)
	}
}
