package flight

import (
	"bytes"
	"math/rand/v2"
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

// helloOf is a handshake message of a client hello with so many bytes behind its header, no two stretches alike.
func helloOf(length int) []byte {
	b := []byte{clientHello, byte(length >> 16), byte(length >> 8), byte(length)}
	for i := range length {
		b = append(b, byte(i)^byte(i>>8)*31)
	}
	return b
}

func TestAssembly(t *testing.T) {
	type piece struct {
		offset uint64
		data   string
		added  int
		why    Reason
	}
	const limit = 100
	tests := []struct {
		name   string
		pieces []piece
		want   string // the message, "" when it is not whole
	}{
		{"one piece", []piece{{0, "\x01\x00\x00\x02ab", 6, None}}, "\x01\x00\x00\x02ab"},
		{"empty message", []piece{{0, "\x01\x00\x00\x00", 4, None}}, "\x01\x00\x00\x00"},
		{"backwards", []piece{{5, "b", 1, None}, {3, "\x02a", 2, None}, {0, "\x01\x00\x00", 3, None}}, "\x01\x00\x00\x02ab"},
		{"a gap", []piece{{0, "\x01\x00\x00\x02", 4, None}, {5, "b", 1, None}}, ""},
		{"a gap in the header", []piece{{0, "\x01\x00", 2, None}, {3, "\x02ab", 3, None}}, ""},
		{"overlap of the same", []piece{{0, "\x01\x00\x00\x03a", 5, None}, {2, "\x00\x03ab", 1, None}, {4, "abc", 1, None}}, "\x01\x00\x00\x03abc"},
		{"empty pieces", []piece{{0, "", 0, None}, {2, "", 0, None}, {0, "\x01\x00\x00\x00", 4, None}}, "\x01\x00\x00\x00"},
		{"empty piece behind the end", []piece{{0, "\x01\x00\x00\x00", 4, None}, {5, "", 0, Malformed}}, ""},
		{"another byte", []piece{{0, "\x01\x00\x00\x03a", 5, None}, {4, "b", 0, Contradiction}}, ""},
		{"another byte behind a gap", []piece{{9, "xy", 2, None}, {8, "wz", 1, Contradiction}}, ""},
		{"another type", []piece{{0, "\x02", 1, Malformed}}, ""},
		{"bytes behind the message", []piece{{0, "\x01\x00\x00\x01ab", 6, Malformed}}, ""},
		{"bytes behind the message come first", []piece{{5, "b", 1, None}, {0, "\x01\x00\x00\x01a", 5, Malformed}}, ""},
		{"message of the limit", []piece{{0, "\x01\x00\x00\x60", 4, None}, {limit - 1, "z", 1, None}}, ""},
		{"message above the limit", []piece{{0, "\x01\x00\x00\x61", 4, TooLarge}}, ""},
		{"message far above the limit", []piece{{0, "\x01\xff\xff\xff", 4, TooLarge}}, ""},
		{"piece above the limit", []piece{{limit - 1, "yz", 0, TooLarge}}, ""},
		{"piece far above the limit", []piece{{1<<62 - 1, "", 0, TooLarge}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var a assembly
			var why Reason
			for _, p := range tt.pieces {
				var added int
				if added, why = a.add(p.offset, []byte(p.data), limit); added != p.added || why != p.why {
					t.Fatalf("piece at %d: added %d, %v, want %d, %v", p.offset, added, why, p.added, p.why)
				}
			}
			if why != None {
				return // what is refused is not asked for a message
			}
			if got, whole := a.message(); string(got) != tt.want || whole != (tt.want != "") {
				t.Errorf("got %q, %v, want %q", got, whole, tt.want)
			}
			a.reset()
			if added, why := a.add(2, []byte{9}, limit); added != 1 || why != None || a.prefix != 0 || a.bytes[0] != 0 {
				t.Errorf("after reset: added %d, %v, %d bytes without a gap", added, why, a.prefix)
			}
		})
	}
}

// FuzzAssembly: pieces in any order, with overlaps, give the bytes of the message, and are never refused. Each byte of cuts
// is where a piece begins, how long it is, or both.
func FuzzAssembly(f *testing.F) {
	f.Add(uint16(300), []byte{1, 2, 3, 200, 100, 7, 0, 255})
	f.Add(uint16(0), []byte{0, 4})
	f.Fuzz(func(t *testing.T, length uint16, cuts []byte) {
		whole := helloOf(int(length % 2000))
		var a assembly
		known := make([]bool, len(whole))
		for ; len(cuts) >= 2; cuts = cuts[2:] {
			from := int(cuts[0]) * len(whole) / 256
			to := min(len(whole), from+int(cuts[1]))
			fresh := 0
			for i := from; i < to; i++ {
				if !known[i] {
					known[i], fresh = true, fresh+1
				}
			}
			if added, why := a.add(uint64(from), whole[from:to], 2004); added != fresh || why != None {
				t.Fatalf("piece %d to %d: added %d, want %d, %v", from, to, added, fresh, why)
			}
		}
		if _, done := a.message(); done && bytes.IndexByte(boolBytes(known), 0) >= 0 {
			t.Fatal("whole with a gap")
		}
		for i := range whole {
			a.add(uint64(i), whole[i:i+1], 2004)
		}
		if got, done := a.message(); !done || !bytes.Equal(got, whole) {
			t.Fatalf("got %x, %v", got, done)
		}
		if len(whole) > 4 {
			if _, why := a.add(uint64(len(whole)-1), []byte{^whole[len(whole)-1]}, 2004); why != Contradiction {
				t.Fatalf("another last byte: %v", why)
			}
		}
	})
}

func boolBytes(of []bool) []byte {
	out := make([]byte, len(of))
	for i, b := range of {
		if b {
			out[i] = 1
		}
	}
	return out
}
