package sockdiag

import (
	"bytes"
	"encoding/binary"
	"testing"
)

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

// FuzzParseDump: whatever comes, it is read within its bounds; a socket that is read has what its bytes say, attribute by attribute.
func FuzzParseDump(f *testing.F) {
	body := make([]byte, messageSize)
	body[0], body[1], body[5] = 2, 1, 80
	info := append([]byte{byte(4 + infoSize), 0, infoAttribute, 0}, make([]byte, infoSize)...)
	for _, b := range [][]byte{nil, body, append(bytes.Clone(body), info...), append(bytes.Clone(body), info[:40]...)} {
		f.Add(append(appendHeader(nil, len(b), sockDiagByFamily, 0, 7), b...))
	}
	f.Add(append(appendHeader(nil, 4, 3, 0, 7), 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again TCP
		_, _ = parseDump(b, 7, func(body []byte) error {
			err := parseTCP(body, &s)
			if err != nil {
				return err
			}
			if s.Local.Port() != binary.BigEndian.Uint16(body[4:]) || s.Local.Addr().Is4In6() || uint8(s.State) != body[1] {
				t.Errorf("%+v of % x", s, body)
			}
			if s.RTT < 0 || s.MinRTT < 0 || s.Busy < 0 || s.ReceiverLimited < 0 {
				t.Errorf("a time that is negative: %+v", s)
			}
			again = TCP{RTT: 1, Busy: 1, Retransmitted: 1} // what was there before is not seen
			if err := parseTCP(bytes.Clone(body), &again); err != nil || again != s {
				t.Errorf("%+v, then %+v, %v", s, again, err)
			}
			return nil
		})
	})
}
