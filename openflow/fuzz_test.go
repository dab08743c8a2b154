package openflow_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	. "baton/openflow"
)

// addMessages seeds with the golden messages, and with what others wrote down if it is there.
func addMessages(f *testing.F) {
	for _, g := range goldens {
		f.Add(annotated(f, g.bytes))
	}
	for _, v := range optional(oskenPackets, f) {
		f.Add(v.bytes)
	}
	for _, v := range optional(ovsCases, f) {
		f.Add(v.bytes)
	}
}

// optional returns the vectors, or none where a test would skip.
func optional(vectors func(testing.TB) []vector, f *testing.F) (list []vector) {
	skipped := &skipping{TB: f}
	defer func() {
		if r := recover(); r != nil && r != any(skipped) {
			panic(r)
		}
	}()
	return vectors(skipped)
}

// skipping turns a skip into a panic with itself.
type skipping struct{ testing.TB }

func (s *skipping) Skip(...any) { panic(s) }

// FuzzDecode: no panic; what is refused is refused with a code and section; what is accepted encodes to bytes of the same length
// which decode and encode to themselves; neither decoding, checking nor printing changes the input.
func FuzzDecode(f *testing.F) {
	addMessages(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= HeaderSize && len(b) <= MaxLength { // most mutations of a length say nothing
			b[2], b[3] = byte(len(b)>>8), byte(len(b))
		}
		before := bytes.Clone(b)
		h, m, err := Decode(b)
		if err != nil {
			refused(t, err)
			return
		}
		if err := Check(m); err != nil {
			refused(t, err)
		}
		once, err := Append(nil, h.XID, m)
		if err != nil {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
		if len(once) != len(b) && h.Type != TypeHello { // whose elements' padding may be cut
			t.Fatalf("%T: %d bytes became %d:\n%s\n%s", m, len(b), len(once), hex.Dump(b), hex.Dump(once))
		}
		_, again, err := Decode(once)
		if err != nil {
			t.Fatalf("what was encoded cannot be decoded: %v\n%s", err, hex.Dump(once))
		}
		twice, err := Append(nil, h.XID, again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%T: %v\n%s\n%s", m, err, hex.Dump(once), hex.Dump(twice))
		}
		if !bytes.Equal(b, before) {
			t.Fatal("the input was changed")
		}
	})
}

func refused(t *testing.T, err error) {
	t.Helper()
	var f *Fault
	if !errors.As(err, &f) || f.Section == "" || f.Text == "" || f.Code.Type() > ErrorTableFeaturesFailed {
		t.Fatalf("refused with %#v", err)
	}
}

// FuzzMatch: the walk over a match ends within it, finds what Get finds, and Check accepts only what can be walked.
func FuzzMatch(f *testing.F) {
	f.Add([]byte(tcp4().Uint(FieldTCPDst, 80)))
	f.Add([]byte(Match{}.UintMasked(FieldMetadata, 1, 3)))
	f.Add([]byte(Match{}.UintMasked(FieldTCPFlags, 1, 3)))
	f.Add([]byte{0x80, 0, 0, 200, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, rebuilt, ended := Match(b), Match(nil), false
		for tlv, err := range m.All() {
			if ended {
				t.Fatal("a field behind the end")
			}
			if ended = err != nil; ended {
				continue
			}
			rebuilt = rebuilt.Bytes(tlv.Field, tlv.Value, tlv.Mask)
			if tlv.Masked && len(tlv.Mask) == 0 {
				rebuilt[len(rebuilt)-2-4*btoi(tlv.Field.Class() == ClassExperimenter)] |= 1 // nothing tells a mask of no bytes
			}
			if got, ok := m.Get(tlv.Field); !ok || got.Field != tlv.Field {
				t.Fatalf("%v is there, and Get does not find it", tlv)
			}
		}
		if !ended && !bytes.Equal(rebuilt, b) {
			t.Fatalf("got  % x\nwant % x", rebuilt, b)
		}
		if err := m.Check(); err != nil {
			refused(t, err)
		} else if ended {
			t.Fatal("accepted, and cannot be walked")
		}
		_ = m.String()
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
