package resume_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"baton/resume"
)

func TestTransport(t *testing.T) {
	file := body(1, 300_000)
	read := func(t *testing.T, c *http.Client, r *http.Request) (*http.Response, []byte, error) {
		t.Helper()
		response, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		b, err := io.ReadAll(response.Body)
		return response, b, err
	}
	ask := func(t *testing.T, url string, lines ...string) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(lines); i += 2 {
			r.Header.Set(lines[i], lines[i+1])
		}
		return r
	}
	client := func(o resume.Options) *http.Client { return &http.Client{Transport: resume.NewTransport(o)} }

	t.Run("goes on after breaks", func(t *testing.T) {
		server := newOrigin(t, file, resetAfter(100_000), resetAfter(100_000), valid)
		response, b, err := read(t, client(quick()), ask(t, server.url, "X-Mine", "yes"))
		if err != nil || response.StatusCode != 200 || response.ContentLength != 300_000 || response.Header.Get("Etag") != `"one"` {
			t.Fatalf("%v, %v, length %d", err, response.Header, response.ContentLength)
		}
		same(t, b, file)
		for _, r := range server.requests() {
			if r.Header.Get("X-Mine") != "yes" {
				t.Errorf("%v", r.Header)
			}
		}
	})
	t.Run("uses connections again", func(t *testing.T) {
		server := newOrigin(t, file, valid)
		c := client(quick())
		for range 3 {
			_, b, err := read(t, c, ask(t, server.url))
			if err != nil {
				t.Fatal(err)
			}
			same(t, b, file)
			if _, _, err := read(t, c, ask(t, server.url, "Range", "bytes=0-9")); err != nil {
				t.Fatal(err)
			}
		}
		if server.conns != 1 {
			t.Errorf("%d connections, want 1", server.conns)
		}
	})
	for _, tt := range []struct {
		name   string
		lines  []string
		etag   string
		script []act
		broken bool
		want   int
		asked  int
	}{
		{"a range", []string{"Range", "bytes=0-199999"}, `"one"`, []act{resetAfter(50_000), valid}, true, 206, 1},
		{"a condition", []string{"If-None-Match", `"x"`}, `"one"`, []act{resetAfter(50_000), valid}, true, 200, 1},
		{"a weak validator", nil, `W/"one"`, []act{resetAfter(50_000), valid}, true, 200, 1},
		{"an error", nil, `"one"`, []act{answer(404, []byte("no"))}, false, 404, 1},
		{"a server that is overloaded", nil, `"one"`, []act{answer(503, nil, "Retry-After: 1")}, false, 503, 1},
	} {
		t.Run("leaves alone: "+tt.name, func(t *testing.T) {
			server := startOrigin(t, &origin{t: t, file: file, etag: tt.etag, script: tt.script})
			response, _, err := read(t, client(quick()), ask(t, server.url, tt.lines...))
			if response.StatusCode != tt.want || (err != nil) != tt.broken || len(server.requests()) != tt.asked {
				t.Errorf("status %d, %v, %d requests", response.StatusCode, err, len(server.requests()))
			}
		})
	}
	t.Run("redirects are the client's", func(t *testing.T) {
		server := newOrigin(t, file, answer(302, nil, "Location: /other"), resetAfter(100_000), valid)
		response, b, err := read(t, client(quick()), ask(t, server.url))
		if err != nil || response.Request.URL.Path != "/other" {
			t.Fatalf("%v at %s", err, response.Request.URL)
		}
		same(t, b, file)
		if r := server.requests()[2]; r.URL.Path != "/other" {
			t.Errorf("went on at %s", r.URL)
		}
	})
	t.Run("another file", func(t *testing.T) {
		server := newOrigin(t, file, resetAfter(100_000), func(c *exchange) bool { c.o.etag = `"two"`; return valid(c) })
		_, b, err := read(t, client(quick()), ask(t, server.url))
		var fault *resume.Error
		if !errors.As(err, &fault) || fault.Kind != resume.Changed || !bytes.Equal(b, file[:len(b)]) {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	})
	t.Run("no server", func(t *testing.T) {
		if _, err := client(quick()).Do(ask(t, "http://127.0.0.1:1/")); err == nil {
			t.Error("no error")
		}
	})
	t.Run("closed, and canceled, within", func(t *testing.T) {
		server := newOrigin(t, file, stallAfter(100_000))
		o := quick()
		o.Stall = 10 * time.Second
		c := client(o)
		response, err := c.Do(ask(t, server.url))
		if err != nil {
			t.Fatal(err)
		}
		io.ReadFull(response.Body, make([]byte, 1000))
		go func() {
			time.Sleep(20 * time.Millisecond)
			response.Body.Close()
		}()
		if _, err := io.Copy(io.Discard, response.Body); err == nil {
			t.Error("no error of a body that was closed")
		}
		ctx, cancel := context.WithCancel(t.Context())
		response, err = c.Do(ask(t, server.url).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		time.AfterFunc(20*time.Millisecond, cancel)
		if _, err := io.Copy(io.Discard, response.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
	})
	t.Run("many at once", func(t *testing.T) {
		server := newOrigin(t, file, resetAfter(100_000), resetAfter(50_000), valid)
		c := client(quick())
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				_, b, err := read(t, c, ask(t, server.url))
				if err != nil || !bytes.Equal(b, file) {
					t.Errorf("%d bytes, %v", len(b), err)
				}
			})
		}
		all.Wait()
		c.CloseIdleConnections()
	})
}
