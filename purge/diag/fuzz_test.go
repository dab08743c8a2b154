package diag

import "testing"

// FuzzParseAnswer: an answer has one message at least, or is refused; what is left is shorter.
func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte{36, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 72, 0, 0, 0, 21, 0, 5, 0, 9, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{20, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 1, 2, 0, 0, 254, 255, 255, 255})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, rest, err := parseAnswer(b)
		if err != nil && a.err != nil {
			t.Errorf("an answer %v and an error %v", a, err)
		}
		if err == nil && len(rest) > len(b)-20 {
			t.Errorf("%d of %d bytes are left", len(rest), len(b))
		}
	})
}
