package test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
	"baton/lab/peers"
)

// handle makes f serve each connection to a port of the host, on every address. A connection is closed when f returns, and all at
// the end of the test or at stop: from then on the port refuses.
func handle(t lab.T, h *lab.Host, port int, f func(*net.TCPConn)) (stop func()) {
	t.Helper()
	listener, err := h.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		t.Fatalf("port %d of %s: %v", port, h.Name(), err)
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		open  = make(map[net.Conn]bool)
		ended bool
	)
	serve := func(c net.Conn) {
		defer c.Close()
		mu.Lock()
		open[c] = true
		late := ended
		mu.Unlock()
		if !late {
			f(c.(*net.TCPConn))
		}
		mu.Lock()
		delete(open, c)
		mu.Unlock()
	}
	wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serve(c) })
		}
	})
	stop = sync.OnceFunc(func() {
		listener.Close()
		mu.Lock()
		ended = true
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// script is a surrogate that does what a request's path says.
//
//	/bytes/N               N bytes of the pattern, and goes on
//	/cut/FRAMING/N/M       the same, closed after M bytes of the response, its head included
//	/reset/FRAMING/N/M     reset then, when they have been acknowledged
//	/slow/N                as /bytes, after two seconds
//	/early/END             413 before a byte of the body is read; then END: closes, or half-closes and reads on
//	/healthz               200
type script struct {
	t    lab.T
	name string

	requests atomic.Int64 // but those for /healthz
}

const firstByteAfter = 2 * time.Second // of /slow

// serveScript runs a scripted surrogate on a port of the host.
func serveScript(t lab.T, h *lab.Host, port int, name string) (s *script, stop func()) {
	t.Helper()
	s = &script{t: t, name: name}
	return s, handle(t, h, port, s.serve)
}

func (s *script) serve(c *net.TCPConn) {
	r := bufio.NewReader(c)
	for {
		head, err := readHead(r)
		if err != nil {
			return
		}
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
		if err != nil {
			s.t.Errorf("%s: %v: %q", s.name, err, head)
			return
		}
		if request.URL.Path == "/healthz" {
			_, _ = c.Write(s.response(byLength, 0))
			continue
		}
		s.requests.Add(1)
		part := strings.Split(request.URL.Path, "/")
		number := func(i int) (n int) {
			if i < len(part) {
				n, _ = strconv.Atoi(part[i])
			}
			return n
		}
		switch part[1] {
		case "slow":
			time.Sleep(firstByteAfter)
			fallthrough
		case "bytes":
			if _, err := c.Write(s.response(byLength, number(2))); err != nil {
				return
			}
		case "cut", "reset":
			_, _ = c.Write(s.response(framing(part[2]), number(3))[:number(4)])
			if part[1] == "reset" {
				s.acknowledged(c)
				_ = c.SetLinger(0)
			}
			return
		case "early":
			fmt.Fprintf(c, "HTTP/1.1 413 Content Too Large\r\n%s: %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", peers.Header, s.name)
			if part[2] == "half-closes" {
				_ = c.CloseWrite()
				_, _ = io.Copy(io.Discard, r)
			}
			return
		default:
			s.t.Errorf("%s: asked for %q", s.name, head)
			return
		}
	}
}

// response is the surrogate's response in a framing, byte by byte.
func (s *script) response(f framing, size int) []byte {
	b := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\n%s: %s\r\n", peers.Header, s.name)
	body := patternText(size)
	if f == inChunks {
		b = append(b, "Transfer-Encoding: chunked\r\n\r\n"...)
		for len(body) > 0 {
			n := min(3000, len(body))
			b = fmt.Appendf(b, "%x\r\n%s\r\n", n, body[:n])
			body = body[n:]
		}
		return append(b, "0\r\n\r\n"...)
	}
	return fmt.Appendf(b, "Content-Length: %d\r\n\r\n%s", size, body)
}

// acknowledged waits until the peer has everything written: an RST discards the rest.
func (s *script) acknowledged(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		s.t.Errorf("%s: %v", s.name, err)
		return
	}
	err = lab.Poll(answersWithin, func() error {
		var left int
		var failed error
		if err := raw.Control(func(fd uintptr) { left, failed = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err != nil || failed != nil {
			return fmt.Errorf("%w %w", err, failed)
		}
		if left > 0 {
			return fmt.Errorf("%d bytes are not acknowledged", left)
		}
		return nil
	})
	if err != nil {
		s.t.Errorf("%s: %v", s.name, err)
	}
}
