package packet

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// newRand returns a generator whose seed is in the test's log.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestSum(t *testing.T) {
	tests := []struct {
		name  string
		b     []byte
		start uint16
		want  uint16
	}{
		{"RFC 1071 section 3", []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}, 0, 0xddf2},
		{"nothing", nil, 0, 0},
		{"odd length is padded on the right", []byte{0x12, 0x34, 0x56}, 0, 0x6834},
		{"start is added", []byte{0x00, 0x01}, 0xfffe, 0xffff},
		{"carry comes round", []byte{0xff, 0xff, 0x00, 0x02}, 0, 0x0002},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Sum(tt.b, tt.start); got != tt.want {
				t.Errorf("got %#04x, want %#04x", got, tt.want)
			}
		})
	}
}

// The header is the well-known example of an IPv4 checksum, 192.168.0.1 to 192.168.0.199.
func TestChecksumOfIPv4Header(t *testing.T) {
	h := []byte{
		0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00,
		0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
	}
	if got := Checksum(h, 0); got != 0xb861 {
		t.Errorf("got %#04x, want 0xb861", got)
	}
	IPv4(h).SetChecksum(0xb861)
	if got := Checksum(h, 0); got != 0 {
		t.Errorf("with the field filled: got %#04x, want 0", got)
	}
}

func TestPseudoHeader(t *testing.T) {
	tests := []struct {
		name     string
		src, dst string
		protocol Protocol
		length   int
		want     uint16
	}{
		// 0a00+0001+0a00+0002+0006+0014
		{"IPv4", "10.0.0.1", "10.0.0.2", ProtocolTCP, 20, 0x141d},
		// 2001+0db8+0001+2001+0db8+0002+003a+0008
		{"IPv6", "2001:db8::1", "2001:db8::2", ProtocolICMPv6, 8, 0x5bb7},
		// 0a00+0001+0a00+0002+0006+0001+0000
		{"length above 16 bits", "10.0.0.1", "10.0.0.2", ProtocolTCP, 0x10000, 0x140a},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := PseudoHeader(netip.MustParseAddr(tt.src), netip.MustParseAddr(tt.dst), tt.protocol, tt.length)
			if got != tt.want {
				t.Errorf("got %#04x, want %#04x", got, tt.want)
			}
		})
	}
}

// RFC 1624 section 4 is where RFC 1141's method went wrong: it gave 0xffff.
func TestUpdateChecksumRFC1624Example(t *testing.T) {
	if got := UpdateChecksum(0xdd2f, []byte{0x55, 0x55}, []byte{0x32, 0x85}); got != 0x0000 {
		t.Errorf("got %#04x, want 0", got)
	}
}

func TestUpdateEqualsComputingFromScratch(t *testing.T) {
	r := newRand(t)
	for range 20000 {
		b := make([]byte, 2*(2+r.IntN(40)))
		for i := range b {
			b[i] = byte(r.Uint32() & r.Uint32() & uint32(-r.IntN(2))) // many zeros: where the two zeros differ
		}
		b[0] |= 1 // a covered header is never all zero
		check, sum := Checksum(b, 0), Sum(b, 0)
		at := 2 * (1 + r.IntN(len(b)/2-1))
		size := 2 * (1 + r.IntN((len(b)-at)/2))
		old := append([]byte(nil), b[at:at+size]...)
		for i := range size {
			b[at+i] = byte(r.Uint32())
		}
		if got, want := UpdateChecksum(check, old, b[at:at+size]), Checksum(b, 0); got != want {
			t.Fatalf("UpdateChecksum: got %#04x, want %#04x", got, want)
		}
		if got, want := UpdatePartial(sum, old, b[at:at+size]), Sum(b, 0); got != want {
			t.Fatalf("UpdatePartial: got %#04x, want %#04x", got, want)
		}
		wrong := check ^ 0xfffe
		if got, right := UpdateChecksum(wrong, old, b[at:at+size]), Checksum(b, 0); got == right || got == 0xffff {
			t.Fatalf("a wrong checksum became %#04x, the right one is %#04x", got, right)
		}
	}
}
