package resume_test

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// body is n bytes of the file with this key: byte for byte a function of key and offset.
func body(key uint64, n int) []byte {
	b := make([]byte, n+8)
	for at := 0; at < n; at += 8 {
		x := (uint64(at) + 1) * 0x9e3779b97f4a7c15 * (2*key + 1)
		x ^= x >> 29
		binary.LittleEndian.PutUint64(b[at:], x*0xbf58476d1ce4e5b9)
	}
	return b[:n]
}

// origin is a server of HTTP/1.1 that plays a part for each request: the next one of its script, or the last one again.
type origin struct {
	t      *testing.T
	secure bool
	at     string // address to listen on; "": any port of this host
	url    string
	file   []byte
	etag   string
	mu     sync.Mutex
	script []act
	asked  []*http.Request
	conns  int
}

// act answers one request; the connection goes on if it is true.
type act func(c *exchange) bool

type exchange struct {
	net.Conn
	o   *origin
	r   *http.Request
	raw *net.TCPConn
}

func newOrigin(t *testing.T, file []byte, script ...act) *origin {
	return startOrigin(t, &origin{t: t, file: file, etag: `"one"`, script: script})
}

func startOrigin(t *testing.T, o *origin) *origin {
	t.Helper()
	listener, err := net.Listen("tcp", cmp.Or(o.at, "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	o.url = "http://" + listener.Addr().String() + "/file"
	var config *tls.Config
	if o.secure {
		config = certificate(t)
		o.url = "https://" + listener.Addr().String() + "/file"
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go o.serve(c.(*net.TCPConn), config)
		}
	}()
	return o
}

// certificate is that of httptest's servers, which certify 127.0.0.1.
func certificate(t *testing.T) *tls.Config {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	t.Cleanup(s.Close)
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}
}

func (o *origin) serve(raw *net.TCPConn, config *tls.Config) {
	var c net.Conn = raw
	if config != nil {
		c = tls.Server(raw, config)
	}
	defer c.Close()
	o.mu.Lock()
	o.conns++
	o.mu.Unlock()
	reader := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		o.mu.Lock()
		o.asked = append(o.asked, r)
		play := o.script[min(len(o.asked), len(o.script))-1]
		o.mu.Unlock()
		if !play(&exchange{c, o, r, raw}) {
			return
		}
	}
}

func (o *origin) requests() []*http.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked
}

// span is what a request asks for, as a server that supports ranges understands it.
func (c *exchange) span() (first, end int, partial bool) {
	size := len(c.o.file)
	rng, ok := strings.CutPrefix(c.r.Header.Get("Range"), "bytes=")
	condition := c.r.Header.Get("If-Range")
	if !ok || condition != "" && condition != c.o.etag {
		return 0, size, false
	}
	a, b, _ := strings.Cut(rng, "-")
	if a == "" {
		n, _ := strconv.Atoi(b)
		return max(0, size-n), size, true
	}
	first, _ = strconv.Atoi(a)
	end = size
	if b != "" {
		n, _ := strconv.Atoi(b)
		end = min(size, n+1)
	}
	return first, end, true
}

func (c *exchange) write(format string, args ...any) { fmt.Fprintf(c, format, args...) }

// head writes a head; lines are its fields.
func (c *exchange) head(status int, lines ...string) {
	c.write("HTTP/1.1 %d %s\r\n%s\r\n\r\n", status, http.StatusText(status), strings.Join(lines, "\r\n"))
}

// begin writes the head of the right answer and returns its content.
func (c *exchange) begin(more ...string) []byte {
	first, end, partial := c.span()
	lines := append([]string{"Accept-Ranges: bytes", fmt.Sprintf("Content-Length: %d", end-first)}, more...)
	if c.o.etag != "" {
		lines = append(lines, "ETag: "+c.o.etag)
	}
	if first >= len(c.o.file) && partial {
		c.head(416, fmt.Sprintf("Content-Range: bytes */%d", len(c.o.file)), "Content-Length: 0")
		return nil
	}
	status := 200
	if partial {
		status = 206
		lines = append(lines, fmt.Sprintf("Content-Range: bytes %d-%d/%d", first, end-1, len(c.o.file)))
	}
	c.head(status, lines...)
	return c.o.file[first:end]
}

func (c *exchange) reset() bool {
	c.raw.SetLinger(0)
	c.raw.Close()
	return false
}

// right answers as it should.
func valid(c *exchange) bool {
	_, err := c.Write(c.begin())
	return err == nil
}

// resetAfter resets the connection after so many bytes of content. What was sent before is given time to arrive.
func resetAfter(n int) act {
	return func(c *exchange) bool {
		content := c.begin()
		c.Write(content[:min(n, len(content))])
		time.Sleep(20 * time.Millisecond)
		return c.reset()
	}
}

// endAfter ends the connection with a FIN.
func endAfter(n int) act {
	return func(c *exchange) bool {
		content := c.begin()
		c.Write(content[:min(n, len(content))])
		return false
	}
}

// endUnanswered ends the connection with a FIN before any answer.
func endUnanswered(*exchange) bool { return false }

// stallAfter says nothing more.
func stallAfter(n int) act {
	return func(c *exchange) bool {
		content := c.begin()
		c.Write(content[:min(n, len(content))])
		c.raw.SetReadDeadline(time.Now().Add(10 * time.Second))
		c.raw.Read(make([]byte, 1))
		return false
	}
}

// answer is a fixed answer.
func answer(status int, content []byte, lines ...string) act {
	return func(c *exchange) bool {
		c.head(status, append(lines, fmt.Sprintf("Content-Length: %d", len(content)))...)
		c.Write(content)
		return true
	}
}

// chunked writes content in chunks; the last chunk and its trailers only if it is whole.
func chunked(w *exchange, content []byte, whole bool) {
	for len(content) > 0 {
		n := min(len(content), 1000)
		fmt.Fprintf(w, "%x\r\n%s\r\n", n, content[:n])
		content = content[n:]
	}
	if whole {
		w.write("0\r\nETag: \"late\"\r\n\r\n")
	}
}

func same(t *testing.T, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Fatalf("%d bytes, want %d; the first that differs is %d", len(got), len(want), at)
}
