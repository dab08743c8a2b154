package fallback

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestEarlyAnswers: uploads by HTTP/2 that the surrogate answers before their end. Handlers return while the proxy's transport reads the
// body in a goroutine of its own, where a panic would end the process.
func TestEarlyAnswers(t *testing.T) {
	const clients, uploads = 8, 250 // of each client
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		readHeadOf(r)
		io.WriteString(c, "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 2\r\n\r\nno")
		io.Copy(io.Discard, r) // until the router gives up the rest of the body
	})
	e := serve(t, Options{Certificates: []tls.Certificate{sign(t, "cdn.test")}, Decide: inOrder(s.decision())})
	for range clients {
		t.Run("client", func(t *testing.T) {
			t.Parallel()
			f, piece := e.framer(t), make([]byte, 512)
			for i := range uploads {
				stream := uint32(2*i + 1)
				f.open(stream, false, ":method", "POST", ":scheme", "https", ":authority", "cdn.test", ":path", "/")
				f.WriteData(stream, false, piece)
				if got := f.outcome(stream); got != "405" {
					t.Fatalf("upload %d: %s, want 405", i, got)
				}
			}
		})
	}
}

// TestStreamEnds: once the handler has ended, the stream's body is not read and its writer not used, and a read in flight ends.
func TestStreamEnds(t *testing.T) {
	w := &deadlines{ResponseWriter: httptest.NewRecorder()}
	body, client := io.Pipe()
	defer client.Close()
	reads := make(chan struct{})
	r := httptest.NewRequest("POST", "/", &announced{body, reads})
	s := newStream(w, r, time.Minute)
	done := make(chan error, 1)
	go func() {
		_, err := r.Body.Read(make([]byte, 1))
		done <- err
	}()
	<-reads
	s.end()
	set := w.count // without a lock: as net/http, which takes it back
	select {
	case err := <-done:
		if err == nil {
			t.Error("the read in flight brings something")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the read in flight does not end")
	}
	if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("a read after the end: %v", err)
	}
	s.writing()()
	if w.count != set {
		t.Errorf("%d deadlines set after the end", w.count-set)
	}
}

// deadlines counts those that are set.
type deadlines struct {
	http.ResponseWriter
	count int
}

func (w *deadlines) SetReadDeadline(time.Time) error  { w.count++; return nil }
func (w *deadlines) SetWriteDeadline(time.Time) error { w.count++; return nil }

// announced is a body that tells of its first read.
type announced struct {
	io.ReadCloser
	reads chan struct{}
}

func (b *announced) Read(p []byte) (int, error) {
	close(b.reads)
	return b.ReadCloser.Read(p)
}
