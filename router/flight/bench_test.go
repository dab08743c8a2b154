package flight

import (
	"bytes"
	"testing"

	"baton/packet/quic/quictest"
)

func benchmark(b *testing.B, last string, datagrams ...[]byte) {
	b.ReportAllocs()
	g := New(Defaults)
	tuple := from("198.51.100.7:5000")
	for b.Loop() {
		var r Result
		for _, d := range datagrams {
			r = g.Add(tuple, d, 0)
		}
		if r.text() != last {
			b.Fatal(r.text())
		}
	}
}

func BenchmarkOneDatagram(b *testing.B) {
	benchmark(b, "hello", someone(1).Initial(0, quictest.Crypto(0, helloOf(300)), 1200))
}

func BenchmarkTwoDatagrams(b *testing.B) {
	c, hello := someone(1), helloOf(1750)
	benchmark(b, "hello", c.Initial(0, quictest.Crypto(0, hello[:1100]), 1250), c.Initial(1, quictest.Crypto(1100, hello[1100:]), 1250))
}

// BenchmarkForged is what a flood costs whose Initials are random bytes behind a header.
func BenchmarkForged(b *testing.B) {
	d := bytes.Clone(someone(1).Initial(0, quictest.Crypto(0, helloOf(300)), 1200))
	d[1000] ^= 1
	benchmark(b, "forged", d)
}

// BenchmarkFull is what a flood of halves costs when there is no room for more.
func BenchmarkFull(b *testing.B) {
	hello := helloOf(1750)
	l := Defaults
	l.Total, l.Share = 1, 1
	b.ReportAllocs()
	g := New(l)
	g.Add(from("203.0.113.1:1"), someone(2).Initial(0, quictest.Crypto(0, hello[:1100]), 1250), 0)
	d := someone(1).Initial(0, quictest.Crypto(0, hello[:1100]), 1250)
	for b.Loop() {
		if r := g.Add(from("198.51.100.7:5000"), d, 0); r.Reason != Full {
			b.Fatal(r.text())
		}
	}
}
