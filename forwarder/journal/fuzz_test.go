package journal

import (
	"bytes"
	"testing"
)

// FuzzScan: what is read from any bytes is, written again, the bytes that it was read from; the others are damage, or the end.
func FuzzScan(f *testing.F) {
	var b []byte
	for r := range records(0, 5) {
		var err error
		if b, err = appendRecord(b, r); err != nil {
			f.Fatal(err)
		}
	}
	spoilt := bytes.Clone(b)
	spoilt[30] ^= 1
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add(append(bytes.Clone(b), 0, 0, 0, 0))
	f.Add(spoilt)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newScanner(bytes.NewReader(b), 0, int64(len(b)))
		sum := int64(0)
		for s.next() {
			again, err := appendRecord(nil, s.record)
			if err != nil {
				t.Fatal(err)
			}
			sum += int64(len(again))
			if sum+s.damage.Bytes != s.at || !bytes.HasSuffix(b[:s.at], again) {
				t.Fatalf("%d bytes of records, %d lost, in\n%x\nto byte %d; the last written again\n%x", sum, s.damage.Bytes, b, s.at, again)
			}
		}
		if s.err != nil {
			t.Fatal(s.err)
		}
	})
}
