package channel

import (
	"bufio"
	"bytes"
	"errors"
	"testing"
	"time"

	"baton/openflow"
)

// FuzzStream: whatever stream a peer sends, the machine delivers nothing before the channel is up, answers with what can be
// encoded, and answers no error.
func FuzzStream(f *testing.F) {
	hello := "\x04\x00\x00\x08\x00\x00\x00\x01"
	f.Add([]byte(hello + "\x04\x02\x00\x0a\x00\x00\x00\x02ab\x04\x05\x00\x09\x00\x00\x00\x03c"))
	f.Add([]byte(hello + "\x04\x01\x00\x09\x00\x00\x00\x03c\x04\x14\x00\x08\x00\x00\x00\x04"))
	f.Add([]byte("\x01\x00\x00\x08\x00\x00\x00\x01"))
	f.Add([]byte(hello + "\x04\x05\x00\x07"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		m := machine{idle: time.Second, dead: 3 * time.Second}
		m.start()
		up := false
		for r, n := bufio.NewReader(bytes.NewReader(stream)), 0; ; n++ {
			raw, err := frame(r)
			var fault *openflow.Fault
			if errors.As(err, &fault) {
				fault.Answer(raw)
				return
			}
			if err != nil {
				return
			}
			s := m.take(time.Duration(n)*time.Millisecond, raw, decode(raw))
			if s.up && up || s.deliver != nil && !up {
				t.Fatalf("message %d: %+v, up %v", n, s, up)
			}
			up = up || s.up
			if s.send != nil {
				if _, err := openflow.Append(nil, s.xid, s.send); err != nil {
					t.Fatal(err)
				}
				if raw[1] == byte(openflow.TypeError) {
					t.Fatal("an error was answered")
				}
			}
			if s.end != nil {
				return
			}
		}
	})
}
