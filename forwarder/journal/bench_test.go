package journal

import (
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkAppend appends messages of 104 bytes: a flow entry with four fields and an output.
func BenchmarkAppend(b *testing.B) {
	j := mustOpen(b, filepath.Join(b.TempDir(), "journal"))
	m, at := message(96), time.Now()
	b.SetBytes(int64(len(m)))
	for b.Loop() {
		if err := j.Append(m, at); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	j := mustOpen(b, filepath.Join(b.TempDir(), "journal"))
	mustAppend(b, j, 0, 100_000)
	b.SetBytes(j.Size())
	for b.Loop() {
		for _, err := range j.All() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkRewrite(b *testing.B) {
	j := mustOpen(b, filepath.Join(b.TempDir(), "journal"))
	for b.Loop() {
		if err := j.Rewrite(records(0, 100_000)); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(j.Size())
}
