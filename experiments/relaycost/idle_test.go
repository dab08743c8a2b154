package relaycost

import (
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"

	"baton/lab"
)

// TestIdleClients: only those are counted who are answered, and the first who is not says why.
func TestIdleClients(t *testing.T) {
	const limit = 10
	h := lab.New(t).Host("h")
	var listener net.Listener
	err := h.Do(func() (err error) {
		listener, err = net.Listen("tcp", "127.0.0.1:80")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var accepted, failing atomic.Int32
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if failing.Load() != 0 && failing.Add(-1) > 0 {
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write(make([]byte, 128))
		}),
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateNew && accepted.Add(1) > limit {
				c.Close()
			}
		},
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()

	c, held, why, err := startIdle(h, netip.MustParseAddrPort("127.0.0.1:80"), 2*limit)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	}()
	if held != limit || why == "" {
		t.Errorf("%d held, %q; want %d and a reason", held, why, limit)
	}
	failing.Store(4) // to three requests
	if held, why, err = c.again(); err != nil || held != limit-3 || why == "" {
		t.Errorf("%d held, %q, %v; want %d and a reason", held, why, err, limit-3)
	}
}
