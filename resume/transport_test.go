package resume_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
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
		server := newOrigin(t, file, resetAfter(100_000), resetAfter(100_000), right)
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
		server := newOrigin(t, file, right)
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
		{"a range", []string{"Range", "bytes=0-199999"}, `"one"`, []act{resetAfter(50_000), right}, true, 206, 1},
		{"a condition", []string{"If-None-Match", `"x"`}, `"one"`, []act{resetAfter(50_000), right}, true, 200, 1},
		{"a weak validator", nil, `W/"one"`, []act{resetAfter(50_000), right}, true, 200, 1},
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
		server := newOrigin(t, file, answer(302, nil, "Location: /other"), resetAfter(100_000), right)
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
		server := newOrigin(t, file, resetAfter(100_000), func(c *exchange) bool { c.o.etag = `"two"`; return right(c) })
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
		server := newOrigin(t, file, resetAfter(100_000), resetAfter(50_000), right)
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

// TestWide: connections that live for a tenth of a second behind a handshake of half of that. Others run beside, and no byte comes twice.
func TestWide(t *testing.T) {
	file := body(4, 6<<20)
	paced := func(c *exchange) bool {
		content := c.begin()
		began := time.Now()
		for n := 0; n < len(content); n += 16 << 10 {
			if time.Since(began) > 100*time.Millisecond {
				return c.reset()
			}
			if _, err := c.Write(content[n:min(len(content), n+16<<10)]); err != nil {
				return false
			}
			time.Sleep(time.Millisecond)
		}
		return true
	}
	for _, secure := range []bool{false, true} {
		server := startOrigin(t, &origin{t: t, secure: secure, file: file, etag: `"one"`, script: []act{paced}})
		o := quick()
		dial := o.Base.DialContext
		o.Base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(50 * time.Millisecond)
			return dial(ctx, network, address)
		}
		o.Window = 1 << 20
		lanes := 0
		o.Events = func(e resume.Event) {
			if w, ok := e.(resume.Width); ok {
				lanes = max(lanes, w.Lanes)
			}
		}
		got := download(t, o, resume.Request{URLs: []string{server.url}}, true)
		if got.err != nil {
			t.Fatal(got.err)
		}
		same(t, got.bytes, file)
		a := got.result.Account
		t.Logf("TLS %v: %+v", secure, a)
		if lanes < 2 || a.Lanes != lanes || a.Wasted > int64(len(file))/50 || a.Breaks < 3 {
			t.Errorf("TLS %v: %d connections, %+v", secure, lanes, a)
		}
	}
}

// TestWideFaults: what other connections meet never harms the file.
func TestWideFaults(t *testing.T) {
	var wide atomic.Int32
	t.Cleanup(func() {
		if wide.Load() == 0 {
			t.Error("none of the downloads had several connections")
		}
	})
	file, other := body(4, 4<<20), body(5, 4<<20)
	brief := func(c *exchange) bool { return resetAfter(200_000)(c) }
	for _, tt := range []struct {
		name string
		odd  act
	}{
		{"refused", func(c *exchange) bool { return answer(503, nil)(c) }},
		{"dropped", func(c *exchange) bool { return c.reset() }},
		{"whole", func(c *exchange) bool { c.r.Header.Del("Range"); return right(c) }},
		{"a part of another file", func(c *exchange) bool {
			_, _, partial := c.span()
			if !partial {
				return brief(c)
			}
			c.head(206, `ETag: "two"`, "Content-Range: bytes 0-999/4194304", "Content-Length: 1000")
			c.Write(other[:1000])
			return true
		}},
		{"shorter", func(c *exchange) bool {
			a, _, partial := c.span()
			if !partial {
				return brief(c)
			}
			return moved(0, min(len(file), a+10_000)-min(len(file), spanEnd(c)))(c)
		}},
		{"a wrong digest", func(c *exchange) bool {
			content := bytes.Clone(c.begin("Content-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"))
			if len(content) > 0 {
				content[0]++
			}
			c.Write(content)
			return true
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var script []act
			for range 4 {
				script = append(script, brief, brief, brief, brief, brief, brief, tt.odd)
			}
			server := newOrigin(t, file, append(script, right)...)
			o := quick()
			dial := o.Base.DialContext
			o.Base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				time.Sleep(60 * time.Millisecond)
				return dial(ctx, network, address)
			}
			o.Restarts = 10
			got := download(t, o, resume.Request{URLs: []string{server.url}}, false)
			if got.err != nil {
				t.Fatal(got.err)
			}
			same(t, got.bytes, file)
			wide.Add(int32(got.result.Account.Lanes))
		})
	}
}

func spanEnd(c *exchange) int {
	_, end, _ := c.span()
	return end
}
