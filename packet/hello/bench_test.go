package hello

import (
	"strings"
	"testing"
)

// BenchmarkRead reads a hello of Chrome's, with a post-quantum key share: 1,725 bytes, and the same in records of a byte.
func BenchmarkRead(b *testing.B) {
	stream := named(b, "curl-impersonate-chrome146")
	bench(b, "one record", stream)
	bench(b, "two records", records(stream[recordHeaderSize:], 1000))
	bench(b, "records of a byte", records(stream[recordHeaderSize:], 1))
	b.Run("incomplete", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Read(stream[:1460]); err != ErrIncomplete {
				b.Fatal(err)
			}
		}
	})
}

func bench(b *testing.B, name string, stream []byte) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Read(stream); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func named(tb testing.TB, name string) []byte {
	tb.Helper()
	for _, s := range corpus(tb) {
		if s.name == name {
			return s.stream
		}
	}
	tb.Fatalf("no hello of %s", name)
	return nil
}

// TestAllocations holds what strangers can make us allocate: the name, a copy of a hello in several records, and nothing for what
// is refused or incomplete.
func TestAllocations(t *testing.T) {
	chrome := named(t, "curl-impersonate-chrome146")
	for _, test := range []struct {
		name   string
		stream []byte
		want   float64
	}{
		{"one record", chrome, 1},
		{"two records", records(chrome[recordHeaderSize:], 1000), 2},
		{"records of a byte", records(chrome[recordHeaderSize:], 1), 2},
		{"no name", record(with(alpn("h2"))), 0},
		{"the most protocols", record(with(alpn(strings.Split(strings.Repeat("h", MaxBytes/2-100), "")...))), 0},
		{"incomplete", chrome[:1460], 0},
		{"incomplete, records of a byte", records(chrome[recordHeaderSize:], 1)[:6000], 0},
		{"a bad name", record(with(serverName("a b"))), 0},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n"), 0},
	} {
		got := testing.AllocsPerRun(100, func() { _, _ = Read(test.stream) })
		if got != test.want {
			t.Errorf("%s: %v allocations, want %v", test.name, got, test.want)
		}
	}
}
