package quic_test

import (
	"testing"

	"baton/packet/quic"
)

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, _, err := quic.Parse(sampleClient1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClientKeys(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := quic.ClientKeys(quic.Version1, sampleID); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen is what an Initial of 1,200 bytes costs when its keys are there.
func BenchmarkOpen(b *testing.B) {
	b.ReportAllocs()
	p := mustParse(b, sampleClient1)
	keys := mustKeys(b, p.Version, p.Destination)
	var buffer []byte
	for b.Loop() {
		frames, _, err := keys.Open(buffer[:0], &p)
		if err != nil {
			b.Fatal(err)
		}
		buffer = frames
	}
}
