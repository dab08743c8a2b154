package test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"baton/lab"
)

// A tagged request is unique, and so is its response: both are full of a random number. The response's bytes follow from the
// request, so that a client knows each byte that may come, and a surrogate whether a body belongs to its head.
type tagged struct {
	id     uint64 // 60 bits
	prefix string // "/t" is routed by the kernel, "/u" by user space
	host   string
	nth    int // first request of the session: later ones may have to stay on another host
	upload int // bytes of the request's body
	size   int // bytes of the response's body
	framing
}

// framing marks the end of a response.
type framing string

const (
	byLength framing = "length"
	inChunks framing = "chunked"
	byClose  framing = "close"
	byReset  framing = "reset" // with a length, and reset halfway
)

// announces is the one host that uses framing byClose.
const announces = "b.test"

var lastID atomic.Uint64

// newTagged makes a random request for one of the hosts.
func newTagged(random *rand.Rand, hosts []string) tagged {
	q := tagged{
		id: random.Uint64()<<36>>4 | lastID.Add(1)&(1<<32-1), prefix: "/t", framing: byLength,
		host: hosts[random.IntN(len(hosts))], size: random.IntN(1 << (4 + random.IntN(13))),
	}
	switch random.IntN(12) {
	case 0, 1:
		q.framing = inChunks
	case 2:
		q.framing = byClose
	case 3:
		q.framing = byReset
	}
	if q.framing == byClose && q.host != announces { // a surrogate that often announces its close gets legs for few requests
		q.framing = byLength
	}
	if random.IntN(5) == 0 {
		q.upload = random.IntN(1 << (4 + random.IntN(11)))
	}
	if random.IntN(8) == 0 {
		q.prefix = "/u"
	}
	return q
}

// last reports whether the connection ends with the response.
func (q tagged) last() bool { return q.framing == byClose || q.framing == byReset }

// blocks is n bytes that repeat the number every 16.
func blocks(id uint64, n int) []byte {
	block := fmt.Appendf(nil, "%015x\n", id)
	return bytes.Repeat(block, n/len(block)+1)[:n]
}

func (q tagged) request() []byte {
	method := "GET"
	if q.upload > 0 {
		method = "POST"
	}
	b := fmt.Appendf(nil, "%s %s/%015x/%s/%d HTTP/1.1\r\nHost: %s\r\nX-Id: %015x\r\nX-Nth: %d\r\n", method, q.prefix, q.id, q.framing, q.size, q.host, q.id, q.nth)
	if q.upload > 0 {
		b = fmt.Appendf(b, "Content-Length: %d\r\n", q.upload)
	}
	return append(append(b, "\r\n"...), blocks(^q.id&(1<<60-1), q.upload)...)
}

// response is all bytes that the client should receive; if reset, those it may receive.
func (q tagged) response() []byte {
	b := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nX-Id: %015x\r\n", q.id)
	body := blocks(q.id, q.size)
	switch q.framing {
	case inChunks:
		b = append(b, "Transfer-Encoding: chunked\r\n\r\n"...)
		random := rand.New(rand.NewPCG(q.id, 0))
		for len(body) > 0 {
			n := min(1+random.IntN(3000), len(body))
			b = fmt.Appendf(b, "%x\r\n%s\r\n", n, body[:n])
			body = body[n:]
		}
		return append(b, "0\r\n\r\n"...)
	case byClose:
		b = append(b, "Connection: close\r\n\r\n"...)
	default:
		b = fmt.Appendf(b, "Content-Length: %d\r\n\r\n", q.size)
	}
	return append(b, body...)
}

// parseTagged parses a request's head at a surrogate.
func parseTagged(r *http.Request) (tagged, error) {
	part := strings.Split(r.URL.Path, "/")
	if len(part) != 5 {
		return tagged{}, fmt.Errorf("path %q", r.URL.Path)
	}
	q := tagged{prefix: "/" + part[1], framing: framing(part[3]), host: r.Host, upload: int(r.ContentLength)}
	var errs [3]error
	q.id, errs[0] = strconv.ParseUint(part[2], 16, 60)
	q.size, errs[1] = strconv.Atoi(part[4])
	q.nth, errs[2] = strconv.Atoi(r.Header.Get("X-Nth"))
	if err := errors.Join(errs[:]...); err != nil {
		return q, err
	}
	if got := r.Header.Get("X-Id"); got != part[2] {
		return q, fmt.Errorf("path has %s, head has %s", part[2], got)
	}
	return q, nil
}

// taggedOrigin answers tagged requests.
type taggedOrigin struct {
	t        lab.T
	host     string        // whose requests belong here
	patience int           // closes unannounced after about as many requests; 0: never
	slow     chan struct{} // unless nil, read before each half of a response is sent
	accepted atomic.Int64
	stayed   atomic.Int64 // later requests of sessions that could not move to the right pool

	mu    sync.Mutex
	open  map[net.Conn]bool // false once the listener is closed
	ended bool
}

// serveTagged runs a tagged origin on the host, on port 80 of every address.
func serveTagged(t lab.T, h *lab.Host, o *taggedOrigin) *taggedOrigin {
	t.Helper()
	o.t, o.open = t, make(map[net.Conn]bool)
	listener, err := h.Listen("tcp", ":80")
	if err != nil {
		t.Fatalf("tagged origin: %v", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			o.accepted.Add(1)
			if !o.hold(c) {
				c.Close()
				return
			}
			wg.Go(func() { o.serve(c) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		o.mu.Lock()
		o.ended = true
		for c := range o.open {
			c.Close()
		}
		o.mu.Unlock()
		wg.Wait()
	})
	return o
}

func (o *taggedOrigin) hold(c net.Conn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open[c] = true
	return !o.ended
}

func (o *taggedOrigin) letGo(c net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, c)
	c.Close()
}

func (o *taggedOrigin) serve(c net.Conn) {
	defer o.letGo(c)
	r := bufio.NewReader(c)
	most := -1
	if o.patience > 0 {
		most = o.patience/2 + rand.IntN(o.patience)
	}
	for served := 0; served != most; served++ {
		head, err := readHead(r)
		if err != nil {
			return // within a head, as our clients do
		}
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
		if err != nil {
			o.t.Errorf("%s: after %d requests on a connection came what is none: %v", o.host, served, err)
			return
		}
		if request.URL.Path == "/healthz" {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		q, err := parseTagged(request)
		if err != nil || q.host != o.host && q.nth == 0 {
			o.t.Errorf("%s: request %d on a connection is for %q: %v", o.host, served, request.Host, err)
			return
		}
		if q.host != o.host {
			o.stayed.Add(1)
		}
		body := make([]byte, q.upload)
		n, err := io.ReadFull(r, body)
		if !bytes.Equal(body[:n], blocks(^q.id&(1<<60-1), n)) {
			o.t.Errorf("%s: request %d on a connection: %d bytes of a body of %d are not its own: %.100q", o.host, served, n, q.upload, body[:n])
		}
		if err != nil {
			return
		}
		if !o.answer(c, q) {
			return
		}
	}
}

// answer reports whether the connection continues.
func (o *taggedOrigin) answer(c net.Conn, q tagged) bool {
	b := q.response()
	half := len(b) / 2
	for _, part := range [][]byte{b[:half], b[half:]} {
		if o.slow != nil {
			<-o.slow
		}
		if _, err := c.Write(part); err != nil {
			return false
		}
		if q.framing == byReset {
			_ = c.(*net.TCPConn).SetLinger(0)
			return false
		}
	}
	return !q.last()
}

// readHead reads up to the end of a message head, or fails at the end of the connection.
func readHead(r *bufio.Reader) (head []byte, err error) {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		head = append(head, line...)
		if len(line) == len("\r\n") {
			return head, nil
		}
	}
}

func TestTaggedResponsesAreTheirOwn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		q := newTagged(random, []string{"a.test"})
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(q.request())))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseTagged(request); err != nil || got != q {
			t.Fatalf("request reads as %+v, %v, want %+v", got, err, q)
		}
		response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(q.response())), request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || !bytes.Equal(body, blocks(q.id, q.size)) {
			t.Fatalf("%+v: response body of %d bytes: %v", q, len(body), err)
		}
	}
}
