package resume_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"baton/resume"
	"baton/resume/part"
	"baton/resume/retry"
)

// quick are options of a client that loses no time; tests change them.
func quick() resume.Options {
	base := resume.DefaultTransport(2 * time.Second)
	base.Proxy = nil
	base.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	return resume.Options{
		Base: base, Stall: 300 * time.Millisecond,
		Retry: retry.Policy{Tries: 4, First: time.Millisecond, Most: 5 * time.Millisecond, Patient: time.Minute},
	}
}

// buffer is a file in memory.
type buffer struct {
	bytes.Buffer
	restarts int
}

func (b *buffer) Restart() error {
	b.Reset()
	b.restarts++
	return nil
}

func (b *buffer) Note(part.Have) error { return nil }

type outcome struct {
	bytes  []byte
	result resume.Result
	err    error
	kind   resume.Kind
}

func download(t *testing.T, o resume.Options, r resume.Request, pipe bool) outcome {
	t.Helper()
	var (
		b buffer
		w io.Writer = &b
	)
	if pipe {
		w = struct{ io.Writer }{&b}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	result, err := resume.NewClient(o).Download(ctx, r, w, nil, nil)
	out := outcome{bytes: b.Bytes(), result: result, err: err}
	var fault *resume.Error
	if errors.As(err, &fault) {
		out.kind = fault.Kind
	} else if err != nil {
		t.Fatalf("an error of another type: %v", err)
	}
	return out
}

// TestScripts has the peers of the research's "scripted peers".
func TestScripts(t *testing.T) {
	file, other := body(1, 300_000), body(2, 250_000)
	const half = 150_000
	changed := func(c *exchange) bool { // from now on the file is another one
		c.o.file, c.o.etag = other, `"two"`
		return valid(c)
	}
	tests := []struct {
		name    string
		script  []act
		want    []byte // nil: it fails
		kind    resume.Kind
		piped   resume.Kind // kind of the error where what was written cannot be taken back; "": as in a file
		options func(*resume.Options)
		etag    string // "" is the default, - none
		asked   int    // requests, if not 0
	}{
		{name: "whole", script: []act{valid}, want: file, asked: 1},
		{name: "reset", script: []act{resetAfter(half), valid}, want: file, asked: 2},
		{name: "reset before the head", script: []act{func(c *exchange) bool { return c.reset() }, valid}, want: file},
		{name: "reset before the head, later", script: []act{resetAfter(half), func(c *exchange) bool { return c.reset() }, valid}, want: file},
		{name: "reset within the head", script: []act{resetAfter(half), func(c *exchange) bool { c.write("HTTP/1.1 206 Part"); return c.reset() }, valid}, want: file},
		{name: "reset again and again", script: []act{resetAfter(20_000)}, want: file},
		{name: "a few bytes at a time", script: []act{resetAfter(half), resetAfter(100), resetAfter(100), valid}, want: file},
		{name: "nothing for ever", script: []act{resetAfter(half), resetAfter(0)}, kind: resume.Receive},
		{name: "closed before the head", script: []act{resetAfter(half), endUnanswered, valid}, want: file, asked: 3},
		{name: "closed before every head", script: []act{endUnanswered}, kind: resume.Receive},
		{name: "closed before every head, later", script: []act{resetAfter(half), endUnanswered}, kind: resume.Receive},
		{name: "FIN", script: []act{endAfter(half), valid}, want: file, asked: 2},
		{name: "stall", script: []act{stallAfter(half), valid}, want: file, asked: 2},
		{name: "stall before the head", script: []act{resetAfter(half), func(c *exchange) bool { time.Sleep(time.Second); return false }, valid}, want: file,
			options: func(o *resume.Options) { o.Base.ResponseHeaderTimeout = 200 * time.Millisecond }},
		{name: "too slow", script: []act{func(c *exchange) bool {
			content := c.begin()
			for ; len(content) > 100; content = content[100:] {
				if _, err := c.Write(content[:100]); err != nil {
					return false
				}
				time.Sleep(10 * time.Millisecond)
			}
			return false
		}, valid}, want: file, options: func(o *resume.Options) { o.SpeedLimit, o.SpeedTime = 100_000, 200*time.Millisecond }},

		{name: "200 for the range", script: []act{resetAfter(half), func(c *exchange) bool { c.r.Header.Del("Range"); return valid(c) }}, want: file, asked: 2},
		{name: "earlier", script: []act{resetAfter(half), moved(-7000, 0)}, want: file, asked: 2},
		{name: "later", script: []act{resetAfter(half), moved(1, 0), valid}, want: file, asked: 3},
		{name: "shorter", script: []act{resetAfter(half), moved(0, -100_000), valid}, want: file, asked: 3},
		{name: "shorter and shorter", script: []act{resetAfter(half), moved(0, -149_990), moved(0, -149_980), valid}, want: file},
		{name: "another length", script: []act{resetAfter(half), ranged("bytes %d-%d/999999"), valid}, want: file, asked: 3},
		{name: "no length", script: []act{resetAfter(half), ranged("bytes %d-%d/*")}, want: file, asked: 2},
		{name: "Content-Range twice", script: []act{resetAfter(half), ranged("bytes %d-%d/300000\r\nContent-Range: bytes 0-1/300000"), valid}, want: file, asked: 3},
		{name: "Content-Range backwards", script: []act{resetAfter(half), ranged("bytes %[2]d-%[1]d/300000"), valid}, want: file, asked: 3},
		{name: "changed", script: []act{resetAfter(half), changed}, want: other, piped: resume.Changed},
		{name: "changed, condition ignored", script: []act{resetAfter(half), func(c *exchange) bool {
			c.o.file, c.o.etag = other, `"two"`
			c.r.Header.Del("If-Range")
			return valid(c)
		}, valid}, want: other, piped: resume.Changed},
		{name: "another file for once", script: []act{resetAfter(half), answer(206, other[:100], "ETag: \"two\"", "Content-Range: bytes 150000-150099/250000"), valid},
			want: file, piped: "none"},
		{name: "changed too often", script: []act{flipping()}, kind: resume.Changed},
		{name: "weak validator", etag: `W/"one"`, script: []act{resetAfter(half), valid}, want: file, piped: resume.Changed},
		{name: "no validator", etag: "-", script: []act{resetAfter(half), valid}, want: file, piped: resume.Changed},
		{name: "no validator, overlap", etag: "-", script: []act{resetAfter(half), resetAfter(60_000), valid}, want: file, asked: 3,
			options: func(o *resume.Options) { o.Overlap = 4096 }},
		{name: "no validator, overlap of another file", etag: "-", script: []act{resetAfter(half), func(c *exchange) bool { c.o.file = other; return valid(c) }},
			want: other, piped: resume.Changed, options: func(o *resume.Options) { o.Overlap = 4096 }},
		{name: "gzip on the second try", script: []act{resetAfter(half), func(c *exchange) bool {
			c.Write(c.begin("Content-Encoding: gzip"))
			return true
		}, valid}, want: file, piped: "none"},
		{name: "416 without length", script: []act{resetAfter(half), answer(416, nil), valid}, want: file, asked: 3},
		{name: "416 with the length", script: []act{resetAfter(half), answer(416, nil, "Content-Range: bytes */300000"), valid}, want: file, asked: 3},
		{name: "416 with a smaller length", script: []act{resetAfter(half), answer(416, nil, "Content-Range: bytes */1000"), valid}, want: file, piped: "none"},
		{name: "404", script: []act{answer(404, []byte("no"))}, kind: resume.Status, asked: 1},
		{name: "404 later", script: []act{resetAfter(half), answer(404, []byte("no"))}, kind: resume.Status, asked: 2},
		{name: "503", script: []act{answer(503, nil), resetAfter(half), answer(503, nil, "Retry-After: 0"), valid}, want: file, asked: 4},
		{name: "a server whose clock is years ahead", script: []act{
			func(c *exchange) bool {
				content := c.begin("Last-Modified: Mon, 02 Mar 2076 12:00:00 GMT", "Date: Mon, 02 Mar 2076 12:00:09 GMT")
				c.Write(content[:half])
				time.Sleep(20 * time.Millisecond)
				return c.reset()
			},
			answer(503, nil, "Date: Mon, 02 Mar 2076 12:00:10 GMT", "Retry-After: Mon, 02 Mar 2076 12:00:10 GMT"), valid}, want: file, asked: 3},
		{name: "a server whose clock goes back", etag: "-", script: []act{dated("12:00:00", "12:00:09", half), dated("12:00:00", "11:00:00", 0)}, want: file, piped: resume.Changed},
		{name: "a server that is known by its dates", etag: "-", script: []act{dated("12:00:00", "12:00:09", half), dated("12:00:00", "12:00:10", 0)}, want: file, asked: 2},
		{name: "503 for ever", script: []act{answer(503, nil)}, kind: resume.Busy, asked: 5},
		{name: "503 for an hour", script: []act{answer(503, nil, "Retry-After: 3600")}, kind: resume.Busy, asked: 1},

		{name: "chunks", script: []act{inChunks(half, false), inChunks(len(file), true)}, want: file, asked: 2},
		{name: "chunks that end at the last byte without an end", script: []act{inChunks(len(file), false), valid}, want: file, asked: 2},
		{name: "chunks of unknown length", script: []act{inChunks(len(file), true)}, want: file, asked: 1},
		{name: "to the end of the connection", script: []act{func(c *exchange) bool { c.head(200, "Connection: close"); c.Write(file); return false }}, want: file, asked: 1},
		{name: "to a reset of the connection", script: []act{func(c *exchange) bool {
			c.head(200, "Connection: close", `ETag: "one"`, "Accept-Ranges: bytes")
			c.Write(file[:half])
			time.Sleep(20 * time.Millisecond)
			return c.reset()
		}, valid}, want: file, asked: 2},
		{name: "1xx before 206", script: []act{resetAfter(half), func(c *exchange) bool {
			c.write("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n")
			return valid(c)
		}}, want: file, asked: 2},
		{name: "slow head", script: []act{func(c *exchange) bool {
			for _, s := range []string{"HTT", "P/1.1 200 OK\r\nETag:", ` "one"`, "\r\nContent-Length: 300000\r\n", "\r\n"} {
				c.write("%s", s)
				time.Sleep(20 * time.Millisecond)
			}
			_, err := c.Write(file)
			return err == nil
		}}, want: file, asked: 1},
		{name: "a huge head", script: []act{resetAfter(half), func(c *exchange) bool { c.head(206, "X: "+strings.Repeat("x", 1<<20)); return false }, valid}, want: file, asked: 3},
		{name: "no HTTP", script: []act{resetAfter(half), func(c *exchange) bool { c.write("SSH-2.0-x\r\n"); return false }, valid}, want: file, asked: 3},
		{name: "a redirect to itself", script: []act{answer(302, nil, "Location: /file")}, kind: resume.Redirects,
			options: func(o *resume.Options) { o.Redirects = 5 }, asked: 6},
		{name: "a redirect that is not followed", script: []act{answer(302, nil, "Location: /file")}, kind: resume.Status, asked: 1},
		{name: "a redirect later", script: []act{resetAfter(half), answer(307, nil, "Location: /other"), resetAfter(1 << 14), valid}, want: file, asked: 4,
			options: func(o *resume.Options) { o.Redirects = 5 }},
		{name: "digest of the content is wrong", script: []act{resetAfter(half), func(c *exchange) bool {
			content := bytes.Clone(c.begin("Content-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"))
			content[77]++
			c.Write(content)
			return true
		}, valid}, want: file, piped: resume.Digest},
		{name: "digest of the file is wrong", script: []act{func(c *exchange) bool {
			c.Write(c.begin("Repr-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"))
			return true
		}}, kind: resume.Digest},
	}
	for _, secure := range []bool{false, true} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s, TLS %v", tt.name, secure), func(t *testing.T) {
				t.Parallel()
				for _, pipe := range []bool{false, true} {
					o := quick()
					o.Lanes = 1
					if tt.options != nil {
						tt.options(&o)
					}
					server := &origin{t: t, secure: secure, file: file, etag: `"one"`, script: tt.script}
					switch tt.etag {
					case "":
					case "-":
						server.etag = ""
					default:
						server.etag = tt.etag
					}
					startOrigin(t, server)
					got := download(t, o, resume.Request{URLs: []string{server.url}}, pipe)
					kind, want := tt.kind, tt.want
					if pipe && tt.piped != "" && tt.piped != "none" {
						kind, want = tt.piped, nil
					}
					if got.kind != kind {
						t.Fatalf("pipe %v: %v, want kind %q", pipe, got.err, kind)
					}
					if errors.Is(got.err, io.EOF) {
						t.Errorf("pipe %v: %v is io.EOF, as at the end of a complete file", pipe, got.err)
					}
					if want != nil {
						same(t, got.bytes, want)
					} else if got.err == nil {
						t.Fatalf("pipe %v: no error", pipe)
					}
					if n := len(server.requests()); tt.asked != 0 && n != tt.asked && !(pipe && tt.piped != "") {
						t.Errorf("pipe %v: %d requests, want %d; %v", pipe, n, tt.asked, got.err)
					}
				}
			})
		}
	}
}

// moved answers with a part that begins and ends elsewhere than it was asked for.
func moved(first, end int) act {
	return func(c *exchange) bool {
		a, b, _ := c.span()
		a, b = a+first, b+end
		c.head(206, `ETag: "one"`, fmt.Sprintf("Content-Range: bytes %d-%d/%d", a, b-1, len(c.o.file)), fmt.Sprintf("Content-Length: %d", b-a))
		_, err := c.Write(c.o.file[a:b])
		return err == nil
	}
}

// ranged answers with a Content-Range of its own.
func ranged(format string) act {
	return func(c *exchange) bool {
		a, b, _ := c.span()
		c.head(206, `ETag: "one"`, fmt.Sprintf("Content-Range: "+format, a, b-1), fmt.Sprintf("Content-Length: %d", b-a))
		_, err := c.Write(c.o.file[a:b])
		return err == nil
	}
}

// dated answers with dates as the only validator, and breaks off after so many bytes if that is not 0.
func dated(modified, now string, n int) act {
	return func(c *exchange) bool {
		if condition := c.r.Header.Get("If-Range"); !strings.Contains(condition, modified) {
			c.r.Header.Del("Range")
		}
		c.r.Header.Del("If-Range")
		content := c.begin("Last-Modified: Mon, 02 Mar 2026 "+modified+" GMT", "Date: Mon, 02 Mar 2026 "+now+" GMT")
		if n == 0 {
			_, err := c.Write(content)
			return err == nil
		}
		c.Write(content[:n])
		time.Sleep(20 * time.Millisecond)
		return c.reset()
	}
}

// unranged gives all of the file each time, and breaks off some bytes later than the last time.
func unranged(step int) act {
	return func(c *exchange) bool {
		c.r.Header.Del("Range")
		content := c.begin()
		c.Write(content[:min(len(content), step*len(c.o.requests()))])
		time.Sleep(20 * time.Millisecond)
		return c.reset()
	}
}

// inChunks answers in chunks, whose end may be missing.
func inChunks(n int, whole bool) act {
	return func(c *exchange) bool {
		a, b, partial := c.span()
		lines := []string{`ETag: "one"`, "Accept-Ranges: bytes", "Transfer-Encoding: chunked", "Trailer: ETag"}
		status := 200
		if partial {
			status, lines = 206, append(lines, fmt.Sprintf("Content-Range: bytes %d-%d/%d", a, b-1, len(c.o.file)))
		}
		c.head(status, lines...)
		chunked(c, c.o.file[a:min(b, a+n)], whole)
		return whole
	}
}

// flipping has another file at each request, and breaks off.
func flipping() act {
	return func(c *exchange) bool {
		n := len(c.o.requests())
		c.o.file, c.o.etag = body(uint64(n), 300_000), fmt.Sprintf(`"%d"`, n)
		return resetAfter(100_000)(c)
	}
}

func TestRangeOfFile(t *testing.T) {
	file := body(1, 300_000)
	for _, tt := range []struct {
		name string
		have part.Have
		want []byte
	}{
		{"from", part.Have{From: 1000, Offset: 1000, Until: -1, Length: -1}, file[1000:]},
		{"from until", part.Have{From: 1000, Offset: 1000, Until: 200_000, Length: -1}, file[1000:200_000]},
		{"until", part.Have{Until: 200_000, Length: -1}, file[:200_000]},
		{"beyond the end", part.Have{From: 200_000, Offset: 200_000, Until: 900_000, Length: -1}, file[200_000:]},
		{"last", part.Have{Suffix: 200_000, Until: -1, Length: -1}, file[100_000:]},
		{"more last than there are", part.Have{Suffix: 900_000, Until: -1, Length: -1}, file},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := newOrigin(t, file, resetAfter(50_000), resetAfter(50_000), valid)
			got := download(t, quick(), resume.Request{URLs: []string{server.url}, Have: tt.have}, false)
			if got.err != nil {
				t.Fatal(got.err)
			}
			same(t, got.bytes, tt.want)
		})
	}
	server := newOrigin(t, file, valid)
	got := download(t, quick(), resume.Request{URLs: []string{server.url}, Have: part.Have{From: 300_000, Offset: 300_000, Until: -1, Length: -1}}, false)
	if got.kind != resume.Status || len(got.bytes) > 0 || len(server.requests()) != 1 {
		t.Errorf("behind the end: %d bytes, %v", len(got.bytes), got.err)
	}
}

func TestMirrors(t *testing.T) {
	file, other := body(1, 300_000), body(2, 300_000)
	gone := newOrigin(t, nil, func(c *exchange) bool { return false })
	gone.url = "http://127.0.0.1:1/file"
	different := &origin{t: t, file: other, etag: `"two"`, script: []act{valid}}
	startOrigin(t, different)
	breaks := newOrigin(t, file, resetAfter(150_000), func(c *exchange) bool { return c.reset() })
	whole := newOrigin(t, file, valid)
	missing := newOrigin(t, nil, answer(404, nil))
	got := download(t, quick(), resume.Request{URLs: []string{gone.url, missing.url, breaks.url, different.url, whole.url}}, true)
	if got.err != nil {
		t.Fatal(got.err)
	}
	same(t, got.bytes, file)
	if n := len(got.result.Account.Servers); n != 2 {
		t.Errorf("%d servers, want 2", n)
	}
	t.Run("begins again when no mirror has the file any more", func(t *testing.T) {
		breaks := newOrigin(t, file, resetAfter(150_000), answer(404, nil))
		got := download(t, quick(), resume.Request{URLs: []string{breaks.url, different.url}}, false)
		if got.err != nil {
			t.Fatal(got.err)
		}
		same(t, got.bytes, other)
	})
	t.Run("an outage", func(t *testing.T) {
		got := download(t, quick(), resume.Request{URLs: []string{gone.url}}, false)
		if got.kind != resume.Connect || got.result.Account.Requests != 1 {
			t.Errorf("%d requests, %v", got.result.Account.Requests, got.err)
		}
	})
	t.Run("an outage that is waited for", func(t *testing.T) {
		o := quick()
		o.Retry.Outages = true
		got := download(t, o, resume.Request{URLs: []string{gone.url}}, false)
		if got.kind != resume.Connect || got.result.Account.Requests != 5 {
			t.Errorf("%d requests, %v", got.result.Account.Requests, got.err)
		}
	})
}

// TestRereads: what there is is read over again a few times where a server has no ranges, and not for ever.
func TestRereads(t *testing.T) {
	t.Parallel()
	file := body(1, 3<<20)
	server := newOrigin(t, file, unranged(100_000))
	got := download(t, quick(), resume.Request{URLs: []string{server.url}}, false)
	if kept := int64(len(got.bytes)); got.kind != resume.Unusable || kept < 500_000 || got.result.Account.Wasted > 5*max(kept, 1<<20) {
		t.Errorf("%d bytes, %+v, %v", kept, got.result.Account, got.err)
	}
	server = newOrigin(t, file, unranged(700_000))
	if got := download(t, quick(), resume.Request{URLs: []string{server.url}}, false); got.err != nil {
		t.Error(got.err)
	}
}

func TestHeaderOfFirstAnswer(t *testing.T) {
	file := body(1, 100_000)
	first := func(c *exchange) bool {
		c.Write(c.begin("Content-Type: application/x-one", "X-Only: first")[:50_000])
		time.Sleep(20 * time.Millisecond)
		return c.reset()
	}
	server := newOrigin(t, file, first, valid)
	got := download(t, quick(), resume.Request{URLs: []string{server.url}, Header: http.Header{"X-Mine": {"yes"}}}, true)
	if got.err != nil || got.result.Header.Get("X-Only") != "first" || got.result.Header.Get("Content-Length") != "" {
		t.Errorf("%v, %v", got.err, got.result.Header)
	}
	for i, r := range server.requests() {
		if r.Header.Get("X-Mine") != "yes" || r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("request %d: %v", i, r.Header)
		}
	}
}
