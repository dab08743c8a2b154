package test

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

// origin is a surrogate that answers what static files cannot: bodies of any length and framing, and a verdict on what
// it was sent.
//
//	/healthz       200
//	/bytes/N       N bytes of the pattern, with a length
//	/chunked/N     the same in chunks
//	/gzip/N        the same compressed, in chunks
//	/close/N       the same without a length, ended by a close
//	/early/N       103 before the same as /bytes
//	/204, /304     those
//	/leg           the TCP options of the server leg
//	/sink          checks that the body is the pattern; X-Length says how long it must be
//	/upgrade       switches to a protocol that echoes
//	any other      the target and the host as they came
type origin struct {
	name string
}

// serve runs an origin on the host, on port 80 of every address.
func serve(t lab.T, h *lab.Host, name string) {
	t.Helper()
	listener, err := h.Listen("tcp", ":80")
	if err != nil {
		t.Fatalf("origin: %v", err)
	}
	server := &http.Server{Handler: &origin{name: name}, ConnContext: withLeg}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("origin %s: %v", name, err)
		}
	})
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(peers.Header, o.name)
	kind, count, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	size, err := strconv.ParseInt(count, 10, 64)
	if err != nil && count != "" {
		kind = ""
	}
	switch kind {
	case "healthz":
		fmt.Fprintln(w, "ok")
	case "bytes":
		w.Header().Set("Content-Length", count)
		o.write(w, size)
	case "early":
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Content-Length", count)
		o.write(w, size)
	case "long":
		for range 40 {
			w.Header().Add("Set-Cookie", "session="+strings.Repeat("0123456789", 10))
		}
		w.Header().Set("Content-Length", count)
		o.write(w, size)
	case "chunked":
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		o.write(w, size)
	case "gzip":
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		o.write(z, size)
		_ = z.Close()
	case "close":
		o.untilClose(w, size)
	case "204":
		w.WriteHeader(http.StatusNoContent)
	case "304":
		w.Header().Set("ETag", `"1"`)
		w.WriteHeader(http.StatusNotModified)
	case "leg":
		fmt.Fprint(w, legOf(r.Context()))
	case "sink":
		o.sink(w, r)
	case "upgrade":
		o.upgrade(w)
	default:
		fmt.Fprintf(w, "%s %s", r.Host, r.RequestURI)
	}
}

func (o *origin) write(w io.Writer, size int64) { _, _ = io.Copy(w, &pattern{left: size}) }

func (o *origin) sink(w http.ResponseWriter, r *http.Request) {
	size, err := strconv.ParseInt(r.Header.Get("X-Length"), 10, 64)
	if err == nil {
		err = peers.CheckPattern(r.Body, size)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	fmt.Fprintf(w, "%d bytes", size)
}

func (o *origin) untilClose(w http.ResponseWriter, size int64) {
	c, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\n%s: %s\r\nConnection: close\r\n\r\n", peers.Header, o.name)
	o.write(buf, size)
	_ = buf.Flush()
}

func (o *origin) upgrade(w http.ResponseWriter) {
	c, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprintf(buf, "HTTP/1.1 101 Switching Protocols\r\n%s: %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", peers.Header, o.name)
	_ = buf.Flush()
	_, _ = io.Copy(c, buf)
}

// pattern reads as the bytes of peers.Pattern.
type pattern struct{ at, left int64 }

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	b = b[:min(int64(len(b)), p.left)]
	peers.Pattern(b, p.at)
	p.at += int64(len(b))
	p.left -= int64(len(b))
	return len(b), nil
}

// patternText is the pattern as a string.
func patternText(size int) string {
	b := make([]byte, size)
	peers.Pattern(b, 0)
	return string(b)
}

// connection is a client's connection, on which a test writes raw requests.
type connection struct {
	net.Conn
	r *bufio.Reader
}

// dial opens a connection with the tests' timeout.
func dial(ctx context.Context, h *lab.Host, address string) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	c, err := h.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &connection{c, bufio.NewReaderSize(c, 64<<10)}, c.SetDeadline(time.Now().Add(answersWithin))
}

// answer is a complete response.
type answer struct {
	*http.Response
	surrogate string
	body      string
	repeats   int // segments retransmitted by the client so far
}

// read reads one response to a request of this method.
func (c *connection) read(method string) (answer, error) {
	response, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("%s after %d bytes of the body: %w", response.Status, len(body), err)
	}
	info, err := tcpInfo(c.Conn)
	return answer{response, response.Header.Get(peers.Header), string(body), int(info.Total_retrans)}, err
}

// ask writes a raw request and reads the response.
func (c *connection) ask(method, request string) (answer, error) {
	if _, err := io.WriteString(c, request); err != nil {
		return answer{}, err
	}
	return c.read(method)
}

// get requests a path on the connection.
func (c *connection) get(host, path string) (answer, error) {
	return c.ask("GET", "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
}

// download fetches size bytes of the pattern over a new connection and checks each.
func download(ctx context.Context, h *lab.Host, address string, size int64, within time.Duration) error {
	c, err := dial(ctx, h, address)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(within))
	if _, err := fmt.Fprintf(c, "GET /bytes/%d HTTP/1.1\r\nHost: h\r\n\r\n", size); err != nil {
		return err
	}
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return fmt.Errorf("download: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("download: %s", response.Status)
	}
	if err := peers.CheckPattern(response.Body, size); err != nil {
		return fmt.Errorf("download: %w", err)
	}
	return nil
}

// upload sends size bytes of the pattern over a new connection; the origin checks each.
func upload(ctx context.Context, h *lab.Host, address string, size int64, within time.Duration) error {
	c, err := dial(ctx, h, address)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(within))
	_, err = fmt.Fprintf(c, "PUT /sink HTTP/1.1\r\nHost: h\r\nX-Length: %d\r\nContent-Length: %d\r\n\r\n", size, size)
	if err == nil {
		_, err = io.Copy(c, &pattern{left: size})
	}
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	a, err := c.read("PUT")
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	if want := fmt.Sprintf("%d bytes", size); a.StatusCode != http.StatusOK || a.body != want {
		return fmt.Errorf("upload: %s: %s", a.Status, a.body)
	}
	return nil
}
