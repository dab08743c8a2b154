package trunkproto

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// fitted makes what a fuzzer cannot guess fit: the length, and with a sealer the seal.
func fitted(b []byte, s *Sealer) []byte {
	if len(b) < prefixSize || len(b) > MaxHeader-64 {
		return b
	}
	b = bytes.Clone(b)
	if s == nil {
		wire.PutUint16(b[14:], uint16(len(b)-prefixSize))
		return b
	}
	b = appendTLV(b, typeSeal, 32)
	wire.PutUint16(b[14:], uint16(len(b)+32-prefixSize))
	return append(b, s.seal(&goldenHello, b)...)
}

// FuzzHeader: no panic and no byte read that is not there; the decision is final and names its reason; what is accepted can be
// written again, and is then read as the same.
func FuzzHeader(f *testing.F) {
	for _, g := range goldenHeaders {
		b := annotated(f, g.bytes)
		if g.sealed {
			b = b[:len(b)-35]
		}
		for kind := range byte(4) {
			f.Add(b, kind)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, kind byte) {
		var s *Sealer
		if kind&1 != 0 {
			s = NewSealer(secret)
		}
		if kind&2 == 0 {
			b = fitted(b, s)
		}
		before := bytes.Clone(b)
		h, n, err := ParseHeader(b, &goldenHello, s)
		if !bytes.Equal(b, before) {
			t.Fatal("the input was changed")
		}
		accepted := final(t, b[:min(len(b), max(n+2, 64))], func(b []byte) (int, error) {
			_, n, err := ParseHeader(b, &goldenHello, s)
			return n, err
		})
		if n != 0 && accepted != n {
			t.Fatalf("%d bytes at once, %d as they come", n, accepted)
		}
		if err != nil {
			refused(t, err)
		}
		if n == 0 {
			return
		}
		if s != nil && kind&2 != 0 {
			t.Fatal("a seal was guessed")
		}
		again(t, h, s)
	})
}

func refused(t *testing.T, err error) {
	t.Helper()
	var m *Malformed
	if !errors.As(err, &m) && !errors.Is(err, ErrSeal) && !errors.Is(err, ErrTooLong) && !errors.Is(err, ErrHops) &&
		!errors.Is(err, ErrVersion) {
		t.Fatalf("refused with %#v", err)
	}
}

// again writes a header that was read, as its last relay does, and reads it.
func again(t *testing.T, h Header, s *Sealer) {
	t.Helper()
	sent, self := h, string(h.Passed.Last())
	sent.Passed = h.Passed[:max(0, len(h.Passed)-len(self)-1)]
	b, err := sent.Append(nil, self, &goldenHello, s)
	if errors.Is(err, ErrLoop) {
		return // a way that Append would not have made
	}
	if err != nil {
		t.Fatalf("what was read cannot be written: %v", err)
	}
	back, n, err := ParseHeader(b, &goldenHello, s)
	if n != len(b) || err != nil || fmt.Sprint(back) != fmt.Sprint(h) {
		t.Fatalf("%d of %d bytes, %v\nread  %v\nagain %v", n, len(b), err, h, back)
	}
}

// FuzzFixed is the same for hellos and answers.
func FuzzFixed(f *testing.F) {
	f.Add(goldenHello[:])
	f.Add(Answer{Connected, 1, 1e6}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := final(t, b, func(b []byte) (int, error) {
			h, n, err := ParseHello(b)
			if n != 0 && !bytes.Equal(h[:], b[:n]) {
				t.Fatalf("% x was read as % x", b[:n], h)
			}
			return n, err
		})
		if n != 0 && n != HelloSize {
			t.Fatalf("hello of %d bytes", n)
		}
		n = final(t, b, func(b []byte) (int, error) {
			a, n, err := ParseAnswer(b)
			if n != 0 && (a.Status == 0 || !bytes.Equal(a.Append(nil)[:2], b[:2]) || !bytes.Equal(a.Append(nil)[4:], b[4:n])) {
				t.Fatalf("% x was read as %v", b[:n], a)
			}
			return n, err
		})
		if n != 0 && n != AnswerSize {
			t.Fatalf("answer of %d bytes", n)
		}
	})
}
