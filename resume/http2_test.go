package resume_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"baton/resume"
)

// cutting writes so many bytes of content, and then does something else.
type cutting struct {
	http.ResponseWriter
	left int
	then func()
}

func (c *cutting) Write(p []byte) (int, error) {
	n := min(c.left, len(p))
	c.ResponseWriter.Write(p[:n])
	if c.left -= n; c.left == 0 {
		c.ResponseWriter.(http.Flusher).Flush()
		c.then()
	}
	return n, nil
}

// TestHTTP2 has streams that are reset, that stall, whose connection goes away.
func TestHTTP2(t *testing.T) {
	file := body(6, 400_000)
	var (
		asked   atomic.Int32
		server  *httptest.Server
		stalled = make(chan struct{})
	)
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		switch asked.Add(1) {
		case 1:
			w = &cutting{w, 100_000, func() { panic(http.ErrAbortHandler) }}
		case 2:
			w = &cutting{w, 50_000, func() { <-stalled }}
		case 3:
			w = &cutting{w, 50_000, func() { server.CloseClientConnections() }}
		case 4:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	defer close(stalled)
	o := quick()
	protocols := map[string]int{}
	o.Events = func(e resume.Event) {
		if a, ok := e.(resume.Answered); ok {
			protocols[a.Protocol]++
		}
	}
	got := download(t, o, resume.Request{URLs: []string{server.URL}}, true)
	if got.err != nil {
		t.Fatal(got.err)
	}
	same(t, got.bytes, file)
	if asked.Load() != 5 || protocols["HTTP/2.0"] != 4 || got.result.Account.Wasted != 0 {
		t.Errorf("%d requests, %v, %+v", asked.Load(), protocols, got.result.Account)
	}
}
