package fallback

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
)

func TestContinue(t *testing.T) {
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		readHeadOf(r)
		io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		body := make([]byte, 4)
		io.ReadFull(r, body)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%s", body)
	})
	e := serve(t, Options{Decide: inOrder(s.decision())})
	c := e.dial(t)
	io.WriteString(c, "POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
	r := bufio.NewReader(c)
	res, _, err := readResponse(r, "POST")
	if err != nil || res.StatusCode != 100 {
		t.Fatalf("first response %v, error %v, want 100 before the body is sent", res, err)
	}
	io.WriteString(c, "body")
	res, body, err := readResponse(r, "POST")
	if err != nil || res.StatusCode != 200 || body != "body" {
		t.Errorf("response %v %q, error %v, want 200 body", res, body, err)
	}
}

// TestNoInterimForOldClient: a client of HTTP/1.0 would take an interim response for the final one.
func TestNoInterimForOldClient(t *testing.T) {
	s := newSurrogate(t, "s", says("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"+okResponse))
	e := serve(t, Options{Decide: inOrder(s.decision())})
	c := e.dial(t)
	io.WriteString(c, "GET /a HTTP/1.0\r\n\r\n")
	res, body, err := readResponse(bufio.NewReader(c), "GET")
	if err != nil || res.StatusCode != 200 || body != "ok" {
		t.Errorf("response %v %q, error %v, want 200 ok", res, body, err)
	}
}

// TestContinueLate: a surrogate that says "continue" when the content is on its way already: the client hears it once.
func TestContinueLate(t *testing.T) {
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		readHeadOf(r)
		body := make([]byte, 4)
		io.ReadFull(r, body)
		fmt.Fprintf(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%s", body)
	})
	e := serve(t, Options{Decide: inOrder(s.decision())})
	c := e.dial(t)
	io.WriteString(c, "POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
	r := bufio.NewReader(c)
	for i, want := range []int{100, 200} {
		res, _, err := readResponse(r, "POST")
		if err != nil || res.StatusCode != want {
			t.Fatalf("response %d: %v, error %v, want %d", i, res, err, want)
		}
		if i == 0 {
			io.WriteString(c, "body")
		}
	}
}

// TestContinueRefused: a surrogate can refuse the body before it is sent.
func TestContinueRefused(t *testing.T) {
	s := newSurrogate(t, "s", saysAndCloses("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
	e := serve(t, Options{Decide: inOrder(s.decision())})
	res, _, err := e.ask(t, "POST", "POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4000000\r\n\r\n")
	if err != nil || res.StatusCode != 413 {
		t.Errorf("response %v, error %v, want 413", res, err)
	}
}
