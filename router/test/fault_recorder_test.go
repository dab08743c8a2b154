package test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"baton/lab"
	"baton/lab/peers"
)

// message is what one client sends, and what a surrogate may receive of it.
type message struct {
	id      string
	text    string
	tail    string // bytes after it that may reach the surrogate too, or be refused
	must    bool   // it must arrive
	never   bool   // it must not arrive
	partial bool   // a part of it is enough: the client gives up
}

// messageID is in each message that may reach a surrogate, and in no other.
var messageID = regexp.MustCompile(`~[0-9a-f]{6}~`)

// ledger is everything that clients have sent, and that surrogates have received. The latter must contain nothing else.
type ledger struct {
	t lab.T

	mu       sync.Mutex
	drawn    int
	messages map[string]message
	streams  []*stream
}

// stream is the bytes that a surrogate has received on a connection.
type stream struct {
	ledger    *ledger
	surrogate string
	net.Conn
	got []byte
}

// Read records.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	s.got = append(s.got, b[:n]...)
	return n, err
}

// draw returns an unused id.
func (l *ledger) draw() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drawn++
	return fmt.Sprintf("~%06x~", l.drawn)
}

// enter records a message before it is sent.
func (l *ledger) enter(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.messages == nil {
		l.messages = make(map[string]message)
	}
	l.messages[m.id] = m
}

// audit compares each byte that a surrogate has received with what was sent.
func (l *ledger) audit() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	came := make(map[string]int)
	for _, s := range l.streams {
		for rest := string(s.got); rest != ""; {
			id := messageID.FindString(rest)
			m, known := l.messages[id]
			switch {
			case known && strings.HasPrefix(rest, m.text):
				rest = strings.TrimPrefix(rest[len(m.text):], m.tail)
			case known && m.partial && strings.HasPrefix(m.text, rest), !known && l.partly(rest):
				rest = ""
			default:
				l.t.Errorf("%s received on a connection what no client sent there: %.300q, want %.300q", s.surrogate, rest, m.text)
				rest = ""
			}
			came[id]++
		}
	}
	for id, m := range l.messages {
		if n := came[id]; n > 1 || m.must && n == 0 || m.never && n > 0 {
			l.t.Errorf("came %d times to a surrogate: %.300q", n, m.text)
		}
	}
}

// partly reports whether a stream ends with the start of a message that its client abandoned before its id.
func (l *ledger) partly(rest string) bool {
	for _, m := range l.messages {
		if m.partial && strings.HasPrefix(m.text, rest) {
			return true
		}
	}
	return false
}

// recorder is a surrogate that answers each valid request with its target, and anything else with 400.
func (l *ledger) recorder(t lab.T, h *lab.Host, name string) {
	t.Helper()
	handle(t, h, 80, func(c *net.TCPConn) {
		s := &stream{ledger: l, surrogate: name, Conn: c}
		l.mu.Lock()
		l.streams = append(l.streams, s)
		l.mu.Unlock()
		r := bufio.NewReaderSize(s, 64<<10)
		for {
			target, goesOn, err := nextRequest(r, c)
			if errors.Is(err, errMalformed) {
				fmt.Fprintf(c, "HTTP/1.1 400 Bad Request\r\n%s: %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", peers.Header, name)
				_ = c.CloseWrite()
				_, _ = io.Copy(io.Discard, r)
			}
			if err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s", peers.Header, name, len(target), target)
			if !goesOn {
				return
			}
		}
	})
}

var errMalformed = errors.New("malformed")

// nextRequest reads a complete request.
func nextRequest(r *bufio.Reader, c io.Writer) (target string, goesOn bool, err error) {
	var head []byte
	for len(head) <= len("\r\n") { // an empty line may precede a request
		if head, err = readHead(r); err != nil {
			return "", false, err
		}
	}
	request, err := http.ReadRequest(bufio.NewReaderSize(bytes.NewReader(head), 64<<10))
	if err != nil {
		return "", false, errMalformed
	}
	if strings.EqualFold(request.Header.Get("Expect"), "100-continue") {
		_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	if len(request.TransferEncoding) > 0 {
		err = skipChunks(r)
	} else {
		_, err = io.CopyN(io.Discard, r, request.ContentLength)
	}
	return request.RequestURI, !request.Close, err
}

// skipChunks reads a valid chunked body without trailers.
func skipChunks(r *bufio.Reader) error {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(strings.TrimSuffix(line, "\r\n"), 16, 48)
		if err != nil || size < 0 {
			return errMalformed
		}
		body := make([]byte, size+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		if string(body[size:]) != "\r\n" {
			return errMalformed
		}
		if size == 0 {
			return nil
		}
	}
}
