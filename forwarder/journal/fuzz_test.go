package journal

import (
	"bytes"
	"testing"
)

// FuzzScan: what is read from any bytes is, written again, the bytes that it was read from.
func FuzzScan(f *testing.F) {
	var b []byte
	for r := range records(0, 5) {
		var err error
		if b, err = appendRecord(b, r); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add(append(bytes.Clone(b), 0, 0, 0, 0))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newScanner(bytes.NewReader(b), 0, int64(len(b)))
		var again []byte
		for s.next() {
			var err error
			if again, err = appendRecord(again, s.record); err != nil {
				t.Fatal(err)
			}
		}
		if s.err != nil {
			t.Fatal(s.err)
		}
		if s.whole != int64(len(again)) || !bytes.HasPrefix(b, again) {
			t.Fatalf("%d bytes of records:\n%x, written again\n%x", s.whole, b, again)
		}
	})
}
