package fallback

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
)

// TestBoundCredentials: a connection to the surrogate on which a client has authenticated serves only this client.
func TestBoundCredentials(t *testing.T) {
	for credentials, apart := range map[string]bool{"NTLM TlRM": true, "Negotiate YII": true, "Basic eDp5": false, "Bearer x": false} {
		s := newSurrogate(t, "s", says(okResponse))
		e := serve(t, Options{Decide: inOrder(s.decision())})
		bound, stranger := e.dial(t), e.dial(t)
		ask := func(c net.Conn, request string) {
			t.Helper()
			io.WriteString(c, request)
			if _, body, err := readResponse(bufio.NewReader(c), "GET"); err != nil || body != "ok" {
				t.Fatalf("%s: %q, error %v", credentials, body, err)
			}
		}
		for range 3 {
			ask(bound, strings.Replace(getRequest, "\r\n\r\n", "\r\nAuthorization: "+credentials+"\r\n\r\n", 1))
			ask(bound, getRequest)
			ask(stranger, getRequest)
		}
		want := 1
		if apart {
			want = 2
		}
		if got := s.connections(); int(got) != want {
			t.Errorf("%s: connections to the surrogate = %d, want %d", credentials, got, want)
		}
	}
}

// TestOwnConnections: if the decision says so, a connection to the surrogate serves one client, and is closed with it.
func TestOwnConnections(t *testing.T) {
	ended := make(chan struct{}, 2)
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) { says(okResponse)(c, r); ended <- struct{}{} })
	d := s.decision()
	d.Own = true
	e := serve(t, Options{Decide: inOrder(d)})
	clients := []net.Conn{e.dial(t), e.dial(t)}
	for range 3 {
		for _, c := range clients {
			io.WriteString(c, getRequest)
			if _, body, err := readResponse(bufio.NewReader(c), "GET"); err != nil || body != "ok" {
				t.Fatalf("%q, error %v", body, err)
			}
		}
	}
	if got := s.connections(); got != 2 {
		t.Errorf("connections to the surrogate = %d, want 2", got)
	}
	for _, c := range clients {
		c.Close()
		<-ended
	}
}
