package fallback

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"baton/router/head"
	"baton/router/head/headtest"
)

// cut is a client that sends these pieces, and then nothing.
type cut struct {
	net.Conn
	pieces [][]byte
}

func (c *cut) Read(p []byte) (int, error) {
	if len(c.pieces) == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p, c.pieces[0])
	if c.pieces[0] = c.pieces[0][n:]; len(c.pieces[0]) == 0 {
		c.pieces = c.pieces[1:]
	}
	return n, nil
}

func (c *cut) RemoteAddr() net.Addr              { return &net.TCPAddr{} }
func (c *cut) SetReadDeadline(t time.Time) error { return nil }

// piecesOf cuts bytes at random, sometimes one by one.
func piecesOf(random *rand.Rand, b []byte) (pieces [][]byte) {
	longest := []int{1, 7, 100, len(b)}[random.IntN(4)]
	for len(b) > 0 {
		n := min(1+random.IntN(longest), len(b))
		pieces, b = append(pieces, b[:n]), b[n:]
	}
	return pieces
}

// TestProxyGrammar: the proxy refuses what head.Parse refuses, with its status and however the head is cut, and
// reads the same in what it accepts, host and path included.
func TestProxyGrammar(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := &Server{maxHead: head.MaxHead, timeouts: Timeouts{Head: time.Minute, Stall: time.Minute}}
	counted := make(map[int]int) // by status; 0: accepted
	for range 10_000 {
		b := headtest.Next(random)
		if random.IntN(500) == 0 { // so long that no segment may decide how it is refused
			b = append(bytes.Repeat([]byte{"\x16a"[random.IntN(2)]}, head.MaxHead), b...)
		}
		req, n, err := head.Parse(b)
		want := 0
		var refused *head.Error
		switch {
		case errors.As(err, &refused):
			want = refused.Status
		case err != nil:
			want = http.StatusRequestTimeout
		}
		g := newGuard(&cut{pieces: piecesOf(random, b)}, s)
		var passed []byte
		for p := make([]byte, 4096); ; {
			n, err := g.Read(p)
			passed = append(passed, p[:n]...)
			if err != nil || bytes.HasSuffix(passed, []byte("\r\n\r\n")) {
				break
			}
		}
		counted[want]++
		whole := want != 0 || bytes.Equal(passed, bytes.TrimPrefix(b[:n], []byte("\r\n")))
		if !whole || g.refused.Status != want {
			t.Fatalf("the proxy answers %d and passes on %q; want %d, %v\n%q", g.refused.Status, passed, want, err, b)
		}
		if want == 0 {
			sameRequest(t, &req, passed)
		}
	}
	t.Log(counted)
	if counted[0] < 1000 || counted[400] < 1000 {
		t.Errorf("%v, which says little", counted)
	}
}

// sameRequest compares a head that has been parsed with what net/http makes of it.
func sameRequest(t *testing.T, want *head.Request, b []byte) {
	t.Helper()
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		t.Fatalf("net/http refuses %q: %v", b, err)
	}
	routed := func(h *head.Request) string {
		return fmt.Sprintf("path %q, query %q, host %q", h.Path, h.Query, h.Host)
	}
	got := HeadOf(req)
	if routed(&got) != routed(want) {
		t.Fatalf("%q: %s; want %s", b, routed(&got), routed(want))
	}
}
