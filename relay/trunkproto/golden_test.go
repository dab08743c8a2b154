package trunkproto

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var secret = []byte("thirty-two bytes that are secret")

// annotated reads hex digits; what follows a # in a line is a comment.
func annotated(t testing.TB, s string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.SplitSeq(s, "\n") {
		text, _, _ := strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(text), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// byAddress lets cmp look at addresses.
var byAddress = cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })

func counting(from byte) (nonce [NonceSize]byte) {
	for i := range nonce {
		nonce[i] = from + byte(i)
	}
	return nonce
}

var goldenHello = NewHello(counting(0xa0))

func TestGoldenHello(t *testing.T) {
	want := annotated(t, `
		42544e52 01 01 0000               # magic, newest and oldest version, nothing besides
		a0a1a2a3a4a5a6a7a8a9aaabacadaeaf  # nonce
	`)
	if !bytes.Equal(goldenHello[:], want) {
		t.Fatalf("got  % x\nwant % x", goldenHello[:], want)
	}
	h, n, err := ParseHello(append(want, "more"...))
	if h != goldenHello || n != HelloSize || err != nil {
		t.Errorf("ParseHello = % x, %d, %v", h, n, err)
	}
}

// The seals were computed with openssl dgst -sha256 -mac HMAC, over the label, the hello and the bytes in front.
var goldenHeaders = []struct {
	name   string
	self   string
	sealed bool
	header Header
	bytes  string
}{
	{"flow over IPv4", "berlin", true, Header{
		Client: netip.MustParseAddrPort("192.0.2.1:50000"), Server: netip.MustParseAddrPort("198.51.100.7:443"),
		ID: counting(0x10), Via: Names("oregon"),
	}, `
		0d0a0d0a000d0a515549540a 21 11 0058  # signature, PROXY, TCP over IPv4, 88 bytes follow
		c0000201 c6336407 c350 01bb          # client, server, their ports
		e0 0001 01                           # version 1
		05 0010 101112131415161718191a1b1c1d1e1f
		e1 0006 6f7265676f6e                 # the way on: oregon
		e2 0006 6265726c696e                 # passed: berlin
		ef 0020 12248124f4d9e64cfb4600dd1bf8b29562020eb1e8add184a6bc5f2255f3b126
	`},
	{"flow from IPv4 to IPv6", "b", false, Header{
		Client: netip.MustParseAddrPort("192.0.2.1:1"), Server: netip.MustParseAddrPort("[2001:db8::7]:80"),
		ID: counting(0), Via: Names("c,d-2"), Passed: Names("a"), ClientAddress: ProxyHeader, Congestion: "bbr",
	}, `
		0d0a0d0a000d0a515549540a 21 21 0053  # signature, PROXY, TCP over IPv6, 83 bytes follow
		00000000000000000000ffffc0000201     # client, mapped
		20010db8000000000000000000000007
		0001 0050
		e0 0001 01
		05 0010 000102030405060708090a0b0c0d0e0f
		e1 0005 632c642d32                   # c,d-2
		e2 0003 612c62                       # a,b
		e3 0001 02                           # the server gets a PROXY header
		e8 0003 626272                       # bbr
	`},
	{"probe", "a", false, Header{
		Probe: true, Server: netip.MustParseAddrPort("198.51.100.7:443"), ID: counting(0), Via: Names("b"),
	}, `
		0d0a0d0a000d0a515549540a 20 00 0028  # signature, LOCAL, no family, 40 bytes follow
		e0 0001 01
		05 0010 000102030405060708090a0b0c0d0e0f
		e1 0001 62
		e2 0001 61
		e4 0006 c6336407 01bb                # the address to measure
	`},
	{"probe of the relay itself", "a", false, Header{Probe: true, ID: counting(0), Via: Names("b")}, `
		0d0a0d0a000d0a515549540a 20 00 001f
		e0 0001 01
		05 0010 000102030405060708090a0b0c0d0e0f
		e1 0001 62
		e2 0001 61
	`},
}

func TestGoldenHeaders(t *testing.T) {
	for _, tt := range goldenHeaders {
		t.Run(tt.name, func(t *testing.T) {
			var s *Sealer
			if tt.sealed {
				s = NewSealer(secret)
			}
			want := annotated(t, tt.bytes)
			got, err := tt.header.Append([]byte("before"), tt.self, &goldenHello, s)
			if err != nil || string(got[:6]) != "before" {
				t.Fatalf("Append = % x, %v", got, err)
			}
			if got = got[6:]; !bytes.Equal(got, want) {
				t.Fatalf("Append:\ngot  %x\nwant %x", got, want)
			}
			parsed, n, err := ParseHeader(append(want, "data"...), &goldenHello, s)
			if n != len(want) || err != nil {
				t.Fatalf("ParseHeader = %d, %v, want %d", n, err, len(want))
			}
			arrived := tt.header
			arrived.Passed = passing(arrived.Passed, tt.self)
			if diff := cmp.Diff(arrived, parsed, byAddress); diff != "" {
				t.Errorf("ParseHeader (-want +got):\n%s", diff)
			}
		})
	}
}

// passing returns the relays passed behind a further one.
func passing(passed Names, self string) Names {
	if passed.Len() == 0 {
		return Names(self)
	}
	return Names(passed.String() + "," + self)
}

func TestAppendProxy(t *testing.T) {
	got := AppendProxy(nil, netip.MustParseAddrPort("192.0.2.1:50000"), netip.MustParseAddrPort("[::ffff:198.51.100.7]:443"))
	want := annotated(t, "0d0a0d0a000d0a515549540a 21 11 000c c0000201 c6336407 c350 01bb")
	if !bytes.Equal(got, want) {
		t.Errorf("got  % x\nwant % x", got, want)
	}
}

func TestGoldenAnswers(t *testing.T) {
	tests := []struct {
		name   string
		answer Answer
		bytes  string
		back   time.Duration // of the RTT; 0: as it was
	}{
		{"connected", Answer{Connected, 1, 25 * time.Millisecond}, "01 01 0000 000061a8", 0},
		{"refused, no RTT", Answer{Refused, 2, 0}, "02 02 0000 00000000", 0},
		{"bad header", Answer{BadHeader, 0, 0}, "08 00 0000 00000000", 0},
		{"less than a microsecond", Answer{Connected, 1, 1}, "01 01 0000 00000001", time.Microsecond},
		{"more than there is room for", Answer{Connected, 1, 2 * time.Hour}, "01 01 0000 ffffffff", (1<<32 - 1) * time.Microsecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := annotated(t, tt.bytes)
			got := tt.answer.Append(nil)
			if !bytes.Equal(got, want) {
				t.Fatalf("got  % x\nwant % x", got, want)
			}
			back := tt.answer
			if tt.back != 0 {
				back.RTT = tt.back
			}
			if parsed, n, err := ParseAnswer(append(got, "data"...)); parsed != back || n != AnswerSize || err != nil {
				t.Errorf("ParseAnswer = %v, %d, %v, want %v", parsed, n, err, back)
			}
		})
	}
}
