package secure

import (
	"bytes"
	"io"
	"testing"
)

// What strangers say instead of a handshake, to either end, is an error or is waited for; it makes no end and no plaintext.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), true)
	f.Add([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 0}, false)
	f.Add([]byte{21, 3, 3, 0, 2, 1, 0}, true)
	f.Add([]byte{20, 3, 3, 0, 1, 1, 20, 3, 3, 0, 1, 1}, true)
	i := identitiesOnce(f)
	hello := newPair(f, i, i)
	hello.opener.Begin(NewGate(1), hello.tell)
	<-hello.told
	f.Add(bytes.Clone(hello.opener.Pending()), false)
	hello.opener.Close()
	f.Fuzz(func(t *testing.T, b []byte, opener bool) {
		p := newPair(t, i, i)
		defer p.opener.Close()
		defer p.acceptor.Close()
		c := p.acceptor
		if opener {
			c = p.opener
		}
		b = b[:min(len(b), c.FeedLimit(Most))]
		c.Feed(b)
		c.Begin(NewGate(1), p.tell)
		<-p.told // it waits for more, or is over
		over, err := c.Established()
		if over && err == nil {
			t.Error("a handshake without a peer")
		}
		if over {
			if n, err := c.Read(make([]byte, 10)); n != 0 || err == nil || err == io.EOF {
				t.Errorf("read %d bytes, %v", n, err)
			}
		}
	})
}

// Ciphertext that was changed, cut, doubled or mixed on its way gives what was said up to there, and no end that was not said.
func FuzzRecords(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3}, uint16(0), byte(0), uint16(50))
	f.Add([]byte{0, 0, 1}, uint16(10), byte(1), uint16(3))
	f.Add([]byte{3}, uint16(3), byte(255), uint16(1))
	f.Fuzz(func(t *testing.T, order []byte, at uint16, flip byte, piece uint16) {
		p := established(t)
		var records [][]byte
		var said []byte
		for i := range 3 {
			text := bytes.Repeat([]byte{byte('a' + i)}, 20)
			said = append(said, text...)
			write(t, p.opener, text)
			records = append(records, bytes.Clone(p.opener.Pending()))
			p.opener.Sent(len(records[i]))
		}
		_ = p.opener.CloseWrite()
		records = append(records, bytes.Clone(p.opener.Pending()))
		var wire []byte
		for _, i := range order[:min(len(order), 8)] {
			wire = append(wire, records[i%4]...)
		}
		if len(wire) > 0 {
			wire[int(at)%len(wire)] ^= flip
		}
		whole := bytes.HasPrefix(wire, bytes.Join(records, nil))
		var got []byte
		var err error
		b := make([]byte, Most)
		for len(wire) > 0 && err == nil {
			n := min(len(wire), 1+int(piece))
			p.acceptor.Feed(wire[:n])
			wire = wire[n:]
			n, err = p.acceptor.Read(b)
			got = append(got, b[:n]...)
		}
		if err == nil {
			_, err = p.acceptor.Read(b)
		}
		if !bytes.HasPrefix(said, got) {
			t.Fatalf("got %q", got)
		}
		if (err == io.EOF) != whole {
			t.Fatalf("got %q, %v, all was said: %t", got, err, whole)
		}
		p.acceptor.Close()
		p.opener.Close()
		if p.buffers.InUse() != 0 {
			t.Error("a buffer is left")
		}
	})
}
