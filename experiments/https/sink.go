package https

import (
	"bytes"
	"errors"
	"hash/maphash"
	"io"
	"net"
	"sync"

	"baton/lab"
)

// sink answers what ends with theEnd by its own name and a sum, and closes.
func sink(h *lab.Host, name, address string) error {
	l, err := h.Listen("tcp", address)
	if err != nil {
		return err
	}
	h.Lab().T().Cleanup(func() { l.Close() })
	buffers := sync.Pool{New: func() any { return new([32 << 10]byte) }}
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue // too many files for the moment
			}
			go func() {
				defer c.Close()
				b := buffers.Get().(*[32 << 10]byte)
				defer buffers.Put(b)
				for n := 0; n < len(b); {
					got, err := c.Read(b[n:])
					n += got
					if bytes.HasSuffix(b[:n], []byte(theEnd)) {
						_, _ = io.WriteString(c, answerOf(name, maphash.Bytes(seed, b[:n]))) // a client that is gone
						return
					}
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return nil
}
