package fallback

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
)

// BenchmarkKeepAlive is one small request after the other on one connection, through the proxy.
func BenchmarkKeepAlive(b *testing.B) {
	s := newSurrogate(b, "s", says(okResponse))
	e := serve(b, Options{Decide: inOrder(s.decision())})
	c, err := net.Dial("tcp4", e.addr.String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for b.Loop() {
		io.WriteString(c, getRequest)
		if _, body, err := readResponse(r, "GET"); err != nil || body != "ok" {
			b.Fatalf("response %q, error %v", body, err)
		}
	}
}

// BenchmarkDownload is one large response through the proxy; MB/s is its rate.
func BenchmarkDownload(b *testing.B) {
	const size = 64 << 20
	piece := make([]byte, 1<<20)
	s := newSurrogate(b, "s", func(c *net.TCPConn, r *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n")
			for range size / len(piece) {
				if _, err := c.Write(piece); err != nil {
					return
				}
			}
		}
	})
	e := serve(b, Options{Decide: inOrder(s.decision())})
	c, err := net.Dial("tcp4", e.addr.String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.SetBytes(size)
	r := bufio.NewReaderSize(c, 256<<10)
	for b.Loop() {
		io.WriteString(c, getRequest)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, res.Body); err != nil || n != size {
			b.Fatalf("read %d octets, error %v, want %d", n, err, size)
		}
	}
}
