package relaycost

import (
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"

	"baton/lab"
)

// TestCrowd: only those are counted who are answered, and the first who is not says why.
func TestCrowd(t *testing.T) {
	const room = 10
	h := lab.New(t).Host("h")
	var listener net.Listener
	err := h.Do(func() (err error) {
		listener, err = net.Listen("tcp", "127.0.0.1:80")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var accepted, deaf atomic.Int32
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if deaf.Load() != 0 && deaf.Add(-1) > 0 {
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write(make([]byte, 128))
		}),
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateNew && accepted.Add(1) > room {
				c.Close()
			}
		},
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()

	c, held, why, err := gather(h, netip.MustParseAddrPort("127.0.0.1:80"), 2*room)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.disperse(); err != nil {
			t.Error(err)
		}
	}()
	if held != room || why == "" {
		t.Errorf("%d held, %q; want %d and a reason", held, why, room)
	}
	deaf.Store(4) // to three requests
	if held, why, err = c.again(); err != nil || held != room-3 || why == "" {
		t.Errorf("%d held, %q, %v; want %d and a reason", held, why, err, room-3)
	}
}
