package adversary

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"baton/experiments/adversary/script"
	"baton/lab"
	"baton/lab/peers"
)

// The fields of every response, besides peers.Header.
const poolField = "X-Pool"

// nginx is a surrogate with Debian's settings that reports the request. An inner server reads a posted body, so that nginx waits
// for it; other bodies it does not wait for, like most servers.
func nginx(h *lab.Host, name, pool string) *peers.Server {
	answer := "$http_x_token|$cookie_token|$request_method|$request_uri|" + name + "|" + pool
	return peers.Nginx(h, peers.NginxOptions{Name: name, NoAccessLog: true, Requests: 1_000_000, Server: fmt.Sprintf(`
	add_header %s %s always;
	add_header %s $http_x_token always;
	client_max_body_size 1m;
	client_body_buffer_size 128k;
	location ~ ^/(u/)?%[2]s/echo/ { default_type text/plain; return 200 "%[4]s\n"; }
	location ~ ^/%[2]s/file/(\w+)$ { alias %[5]s/$1; }
	location ~ ^/%[2]s/sink/ {
		proxy_pass http://127.0.0.1:8081;
		proxy_set_header X-Body $request_body;
	}`, poolField, pool, script.TokenField, answer, peers.Site(h.Lab())),
		HTTP: fmt.Sprintf(`server {
	listen 127.0.0.1:8081;
	large_client_header_buffers 4 128k;
	location / { default_type text/plain; return 200 "%s|$http_x_body\n"; }
}`, answer)})
}

// origin is a surrogate of ours: it answers as nginx does, can take its time, and does what a request of the adversary's asks for. It holds
// every request against what it should be.
//
//	/POOL/echo/TOKEN      who asked and who answers
//	/POOL/sink/TOKEN      the same and the body
//	/POOL/file/1m?TOKEN   1 MiB of the pattern
//	/POOL/slow/MS/TOKEN   as echo, after a time
//	/POOL/paced/N/TOKEN   N pieces of the pattern, one each 20 ms
type origin struct {
	name, pool string
	ledger     *ledger
}

// serve runs an origin at an address of the host until the lab's end.
func serve(n *network, h *lab.Host, address string, o *origin) {
	listener, err := h.Listen("tcp", address)
	if err != nil {
		n.T().Fatalf("adversary: %s: %v", o.name, err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			wg.Go(func() {
				(&exchange{origin: o, c: c.(*net.TCPConn)}).serve()
				c.Close()
				mu.Lock()
				delete(open, c)
				mu.Unlock()
			})
		}
	})
	n.T().Cleanup(func() {
		listener.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
}

// exchange is a connection of an origin.
type exchange struct {
	*origin
	c     *net.TCPConn
	r     *bufio.Reader
	seen  recorder
	last  []byte // the message before
	bound string // session that no other may follow on this connection, and why
	why   string
}

// recorder keeps the bytes since the last message.
type recorder struct {
	io.Reader
	b []byte
}

func (r *recorder) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if len(r.b) < 1<<20 {
		r.b = append(r.b, b[:n]...)
	}
	return n, err
}

// message is the current message.
func (e *exchange) message() []byte {
	return e.seen.b[:max(0, len(e.seen.b)-e.r.Buffered())]
}

func (e *exchange) next() {
	e.last = e.message()
	e.seen.b = append([]byte(nil), e.seen.b[max(0, len(e.seen.b)-e.r.Buffered()):]...)
}

func (e *exchange) serve() {
	e.seen.Reader = e.c
	e.r = bufio.NewReaderSize(&e.seen, 64<<10)
	for {
		if _, err := e.r.Peek(1); err != nil {
			return
		}
		request, body, err := e.read()
		e.mixture()
		if err != nil {
			if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
				_, _ = io.WriteString(e.c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			}
			return
		}
		e.check(request, body)
		if !e.answer(request, body) || request.Close {
			return
		}
		e.next()
	}
}

func (e *exchange) read() (*http.Request, []byte, error) {
	request, err := http.ReadRequest(e.r)
	if err != nil {
		return nil, nil, err
	}
	if request.Header.Get(script.ConductField) == string(script.Early) {
		return request, nil, nil
	}
	if strings.EqualFold(request.Header.Get("Expect"), "100-continue") {
		_, _ = io.WriteString(e.c, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	body, err := io.ReadAll(io.LimitReader(request.Body, 1<<20))
	return request, body, err
}

// mixture reports bytes of an innocent and of the adversary in one message.
func (e *exchange) mixture() {
	b := e.message()
	if bytes.Contains(b, []byte(script.InnocentMark)) && bytes.Contains(b, []byte(script.EvilMark)) {
		e.ledger.add(Wrong, "%s received an innocent's bytes and the adversary's in one message: %.600q", e.name, b)
	}
}

// check verifies a request.
func (e *exchange) check(r *http.Request, body []byte) {
	token := r.Header.Get(script.TokenField)
	if strings.HasPrefix(r.URL.Path, script.Denied) && !e.ledger.liar(token) {
		e.ledger.add(Access, "%s was asked for %s by %s, over %v, behind %.400q", e.name, r.URL.Path, token, e.c.RemoteAddr(), e.last)
	}
	session := r.Header.Get(script.SessionField)
	if e.bound != "" && session != e.bound && session != "" {
		e.ledger.add(Reuse, "%s: %s follows %s on the connection from %v, after %s", e.name, session, e.bound, e.c.RemoteAddr(), e.why)
		e.bound = ""
	}
	for _, field := range []string{"Authorization", "Proxy-Authorization"} {
		scheme, _, _ := strings.Cut(r.Header.Get(field), " ")
		if scheme == "NTLM" || scheme == "Negotiate" {
			e.bound, e.why = session, scheme+" credentials"
		}
	}
	if !strings.HasPrefix(token, script.InnocentMark) {
		return
	}
	cookie, err := r.Cookie("token")
	if err != nil || cookie.Value != token || !strings.Contains(r.RequestURI, token) ||
		r.Method == http.MethodPost && string(body) != bodyOf(token, len(body)) {
		e.ledger.add(Wrong, "%s received a bent request of %s: %.600q", e.name, token, e.message())
	}
	if pool := strings.Split(strings.TrimPrefix(r.URL.Path, "/u"), "/"); len(pool) < 2 || pool[1] != e.pool && (pool[1] != "x" || e.pool != "odd") {
		e.ledger.add(Wrong, "%s of pool %s was asked for %s by %s", e.name, e.pool, r.URL.Path, token)
	}
}

// bodyOf is the body of an innocent's POST.
func bodyOf(token string, n int) string {
	return strings.Repeat(token+".", n/(len(token)+1)+1)[:n]
}

// answer reports whether the connection continues.
func (e *exchange) answer(r *http.Request, body []byte) bool {
	if conduct := script.Conduct(r.Header.Get(script.ConductField)); conduct != "" && strings.HasPrefix(r.Header.Get(script.TokenField), script.EvilMark) {
		return e.misbehave(conduct, r)
	}
	part := strings.Split(r.URL.Path, "/")
	if part[1] == "u" {
		part = part[1:]
	}
	number := 0
	if len(part) > 3 {
		number, _ = strconv.Atoi(part[3])
	}
	kind := ""
	if len(part) > 2 {
		kind = part[2]
	}
	switch kind {
	case "file":
		return e.head(r, 1<<20) && e.pieces(r, 16, 0)
	case "paced":
		return e.head(r, int64(number)<<16) && e.pieces(r, number, 20*time.Millisecond)
	case "slow":
		time.Sleep(time.Duration(min(number, 10_000)) * time.Millisecond)
	case "sink":
		return e.say(r, e.echo(r)+"|"+string(body)+"\n")
	}
	return e.say(r, e.echo(r)+"\n")
}

// echo is the same as nginx's variables.
func (e *exchange) echo(r *http.Request) string {
	cookie := ""
	if c, err := r.Cookie("token"); err == nil {
		cookie = c.Value
	}
	return strings.Join([]string{r.Header.Get(script.TokenField), cookie, r.Method, r.RequestURI, e.name, e.pool}, "|")
}

func (e *exchange) headText(r *http.Request, length int64) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\n%s: %s\r\n%s: %s\r\n%s: %s\r\nContent-Length: %d\r\n\r\n", peers.Header, e.name, poolField, e.pool,
		script.TokenField, r.Header.Get(script.TokenField), length)
}

func (e *exchange) head(r *http.Request, length int64) bool {
	_, err := io.WriteString(e.c, e.headText(r, length))
	return err == nil
}

func (e *exchange) say(r *http.Request, text string) bool {
	whole := e.headText(r, int64(len(text)))
	if r.Method != http.MethodHead {
		whole += text
	}
	_, err := io.WriteString(e.c, whole)
	return err == nil
}

// pieces sends so many of 64 KiB of the pattern.
func (e *exchange) pieces(r *http.Request, count int, gap time.Duration) bool {
	if r.Method == http.MethodHead {
		return true
	}
	b := make([]byte, 1<<16)
	widest := uint32(0)
	for i := range count {
		peers.Pattern(b, int64(i)<<16)
		if _, err := e.c.Write(b); err != nil {
			return false
		}
		widest = max(widest, window(e.c))
		pause(gap)
	}
	token := r.Header.Get(script.TokenField)
	if count > 8 && widest > 0 && widest < narrow && strings.HasPrefix(token, script.InnocentMark) {
		e.ledger.add(Window, "%s never saw more than %d bytes of the window of %s, which offers 64 KiB", e.name, widest, token)
	}
	return true
}

// narrow is a window that no innocent offers throughout (bytes).
const narrow = 16 << 10

// window is the peer's window in bytes, as the kernel sees it; 0: unknown.
func window(c *net.TCPConn) (bytes uint32) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			bytes = info.Snd_wnd
		}
	})
	return bytes
}
