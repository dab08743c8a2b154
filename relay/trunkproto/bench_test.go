package trunkproto

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/pires/go-proxyproto"
)

func BenchmarkAppendSealed(b *testing.B) {
	s, h, buffer := NewSealer(secret), goldenHeaders[0].header, make([]byte, 0, MaxHeader)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Append(buffer, "berlin", &goldenHello, s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseSealed(b *testing.B) {
	s := NewSealer(secret)
	header, err := goldenHeaders[0].header.Append(nil, "berlin", &goldenHello, s)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		h, n, err := ParseHeader(header, &goldenHello, s)
		if err == nil {
			err = h.Advance("oregon")
		}
		if n != len(header) || err != nil {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkParse and BenchmarkParseByLibrary read the same header, the second without what its TLVs mean.
func BenchmarkParse(b *testing.B) {
	header := bareHeader(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, n, err := ParseHeader(header, &goldenHello, nil); n != len(header) || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkParseByLibrary(b *testing.B) {
	header := bareHeader(b)
	bytesReader, reader := bytes.NewReader(nil), bufio.NewReaderSize(nil, 512)
	b.ReportAllocs()
	for b.Loop() {
		bytesReader.Reset(header)
		reader.Reset(bytesReader)
		h, err := proxyproto.Read(reader)
		if err == nil {
			_, err = h.TLVs()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func bareHeader(b *testing.B) []byte {
	header, err := goldenHeaders[0].header.Append(nil, "berlin", &goldenHello, nil)
	if err != nil {
		b.Fatal(err)
	}
	return header
}

// TestNoAllocation: 30,000 flows a second leave no garbage here.
func TestNoAllocation(t *testing.T) {
	s, h, buffer := NewSealer(secret), goldenHeaders[0].header, make([]byte, 0, MaxHeader)
	allocations := testing.AllocsPerRun(100, func() {
		header, err := h.Append(buffer, "berlin", &goldenHello, s)
		if err != nil {
			t.Fatal(err)
		}
		read, _, err := ParseHeader(header, &goldenHello, s)
		if err == nil {
			err = read.Advance("oregon")
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err = ParseAnswer(Answer{Connected, 1, 1}.Append(header)[len(header):]); err != nil {
			t.Fatal(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations for a header and its answer", allocations)
	}
}
