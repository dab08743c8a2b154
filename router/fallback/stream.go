package fallback

import (
	"bytes"
	"io"
	"net/http"
	"slices"
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
	control *http.ResponseController
	stall   time.Duration
}

// newStream bounds the reads of the request's body.
func newStream(w http.ResponseWriter, r *http.Request, stall time.Duration) *stream {
	s := &stream{http.NewResponseController(w), stall}
	if r.Body != http.NoBody {
		r.Body = &streamBody{r.Body, s}
	}
	return s
}

// writing bounds a write until the function that it returns is called. Deadlines of streams also hit ones that wait for nothing, so they
// are lifted in between.
func (s *stream) writing() func() {
	if s == nil {
		return func() {}
	}
	s.control.SetWriteDeadline(time.Now().Add(s.stall)) // fails only on a stream that has ended
	return func() { s.control.SetWriteDeadline(time.Time{}) }
}

// end bounds what net/http has left to write.
func (s *stream) end() { s.control.SetWriteDeadline(time.Now().Add(s.stall)) }

type streamBody struct {
	io.ReadCloser
	stream *stream
}

func (b *streamBody) Read(p []byte) (int, error) {
	b.stream.control.SetReadDeadline(time.Now().Add(b.stream.stall))
	defer b.stream.control.SetReadDeadline(time.Time{})
	return b.ReadCloser.Read(p)
}
