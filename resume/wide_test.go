package resume_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"baton/resume"
)

// paced answers with 16 KiB after each pause, and resets the connection after so long, if that is not 0.
func paced(pause, life time.Duration) act {
	return func(c *exchange) bool {
		content := c.begin()
		began := time.Now()
		for n := 0; n < len(content); n += 16 << 10 {
			if life > 0 && time.Since(began) > life {
				return c.reset()
			}
			if _, err := c.Write(content[n:min(len(content), n+16<<10)]); err != nil {
				return false
			}
			time.Sleep(pause)
		}
		return true
	}
}

// far are options of a client whose handshakes take so long.
func far(handshake time.Duration) resume.Options {
	o := quick()
	dial := o.Base.DialContext
	o.Base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		time.Sleep(handshake)
		return dial(ctx, network, address)
	}
	return o
}

// TestAhead: where a break would cost much there are two connections before it comes, each at a half of what is missing.
func TestAhead(t *testing.T) {
	t.Parallel()
	file := body(4, 6<<20)
	for _, tt := range []struct {
		name   string
		life   time.Duration
		change func(*resume.Options)
		lanes  int
		least  int // breaks
	}{
		{"nothing breaks", 0, nil, 2, 0},
		{"the first one breaks", 1500 * time.Millisecond, nil, 2, 1},
		{"only one is allowed", 0, func(o *resume.Options) { o.Lanes = 1 }, 0, 0},
		{"the window is full", 0, func(o *resume.Options) { o.Window = 64 << 10 }, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := newOrigin(t, file, paced(6*time.Millisecond, tt.life))
			o := far(60 * time.Millisecond)
			if tt.change != nil {
				tt.change(&o)
			}
			got := download(t, o, resume.Request{URLs: []string{server.url}}, true)
			if got.err != nil {
				t.Fatal(got.err)
			}
			same(t, got.bytes, file)
			if a := got.result.Account; a.Lanes < tt.lanes || tt.lanes == 0 && a.Lanes > 0 || a.Breaks < tt.least || a.Wasted > 256<<10+int64(len(file))/50 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestRateIsOfOne: connections beside each other would be ahead of the rate that is allowed.
func TestRateIsOfOne(t *testing.T) {
	t.Parallel()
	file := body(4, 2<<20)
	server := newOrigin(t, file, paced(time.Millisecond, 40*time.Millisecond))
	o := far(20 * time.Millisecond)
	o.Rate = 16 << 20
	got := download(t, o, resume.Request{URLs: []string{server.url}}, true)
	if got.err != nil {
		t.Fatal(got.err)
	}
	same(t, got.bytes, file)
	if a := got.result.Account; a.Lanes != 0 || a.Breaks < 2 {
		t.Errorf("%+v", a)
	}
}

// TestWide: connections that live for a tenth of a second behind a handshake of half of that. Others run beside, and no byte comes twice.
func TestWide(t *testing.T) {
	file := body(4, 6<<20)
	for _, secure := range []bool{false, true} {
		server := startOrigin(t, &origin{t: t, secure: secure, file: file, etag: `"one"`, script: []act{paced(time.Millisecond, 100*time.Millisecond)}})
		o := far(50 * time.Millisecond)
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
		{"whole", func(c *exchange) bool { c.r.Header.Del("Range"); return valid(c) }},
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
			server := newOrigin(t, file, append(script, valid)...)
			o := far(60 * time.Millisecond)
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
