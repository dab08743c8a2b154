package fallback

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// checkRequest checks a request of HTTP/2 as the surrogate will get it: as a head of HTTP/1.1, by the rules for those of other clients.
// net/http accepts, for example, a space in a path.
func (s *Server) checkRequest(r *http.Request) *Verdict {
	var b bytes.Buffer
	b.WriteString(r.Method + " " + r.RequestURI + " HTTP/1.1\r\nHost: " + r.Host + "\r\n")
	for name, values := range r.Header {
		if name == "Host" && slices.Equal(values, []string{r.Host}) {
			continue // beside :authority, and the same
		}
		for _, v := range values {
			b.WriteString(name + ": " + v + "\r\n")
		}
	}
	b.WriteString("\r\n")
	if b.Len() > s.maxHead {
		v := tooLong(b.Bytes())
		return &v
	}
	switch _, n, refused := checkHead(b.Bytes()); {
	case refused != nil:
		return refused
	case n != b.Len():
		return malformed("malformed head")
	}
	return nil
}

// stream bounds the waits of a request of HTTP/2 for its client, as a guard does for a connection of HTTP/1.1: a client may keep a
// connection alive and not move one of its streams.
type stream struct {
	stall time.Duration
	body  io.Closer // the request's

	// control is nil once the handler ends: net/http then takes the ResponseWriter back for other requests, and its use would be a panic. The
	// proxy's transport may still read the body, in a goroutine of its own, if the surrogate has answered before the body's end.
	mu      sync.Mutex
	control *http.ResponseController
}

// newStream bounds the reads of the request's body.
func newStream(w http.ResponseWriter, r *http.Request, stall time.Duration) *stream {
	s := &stream{stall: stall, body: r.Body, control: http.NewResponseController(w)}
	if r.Body != http.NoBody {
		r.Body = &streamBody{r.Body, s}
	}
	return s
}

// bound sets a deadline, or lifts it if the time is zero. Once the handler has ended it does nothing and reports false. It holds the lock
// for no longer than net/http takes to note the deadline, never while the client is waited for.
func (s *stream) bound(set func(*http.ResponseController, time.Time) error, t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.control == nil {
		return false
	}
	set(s.control, t) // fails only on a stream that has ended
	return true
}

// writing bounds a write until the function that it returns is called. Deadlines of streams also hit ones that wait for nothing, so they
// are lifted in between.
func (s *stream) writing() func() {
	if s == nil {
		return func() {}
	}
	s.bound((*http.ResponseController).SetWriteDeadline, time.Now().Add(s.stall))
	return func() { s.bound((*http.ResponseController).SetWriteDeadline, time.Time{}) }
}

// end bounds what net/http has left to write, and ends the reads of the body. The handler calls it last.
func (s *stream) end() {
	s.bound((*http.ResponseController).SetWriteDeadline, time.Now().Add(s.stall))
	s.mu.Lock()
	s.control = nil
	s.mu.Unlock()
	s.body.Close() // a read that waits for the client returns
}

type streamBody struct {
	io.ReadCloser
	stream *stream
}

func (b *streamBody) Read(p []byte) (int, error) {
	if !b.stream.bound((*http.ResponseController).SetReadDeadline, time.Now().Add(b.stream.stall)) {
		return 0, http.ErrBodyReadAfterClose
	}
	defer b.stream.bound((*http.ResponseController).SetReadDeadline, time.Time{})
	return b.ReadCloser.Read(p)
}
