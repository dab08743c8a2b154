package anycastresets

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"baton/lab/peers"
)

// Origin serves one file, and resets the connections that it is asked for it on.
type Origin struct {
	file   []byte
	server *http.Server

	mu    sync.Mutex
	every time.Duration
	all   bool
	open  map[net.Conn]*time.Timer // that were asked; its own timer, if they are not reset at once
	began time.Time                // of the first request since Reset
	count int
}

// NewOrigin makes a file of so many bytes, of the lab's pattern.
func NewOrigin(size int) *Origin {
	o := &Origin{file: make([]byte, size), open: make(map[net.Conn]*time.Timer)}
	peers.Pattern(o.file, 0)
	o.server = &http.Server{Handler: o, ConnState: o.state, ReadHeaderTimeout: time.Minute}
	return o
}

// Listen serves on an address of the host whose namespace it is called in, until Close.
func (o *Origin) Listen(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	go func() {
		if err := o.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			panic(err)
		}
	}()
	return nil
}

// Close ends it.
func (o *Origin) Close() error { return o.server.Close() }

// Reset has connections reset from now on: each so long after its first request, or all of them at once; never if every is 0. It returns how
// many were reset since it was called before.
func (o *Origin) Reset(every time.Duration, all bool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	count := o.count
	o.every, o.all, o.began, o.count = every, all, time.Time{}, 0
	return count
}

func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"the-same-at-every-site"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(o.file))
}

func (o *Origin) state(c net.Conn, s http.ConnState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, known := o.open[c]
	switch {
	case s == http.StateClosed || s == http.StateHijacked:
		if t := o.open[c]; t != nil {
			t.Stop()
		}
		delete(o.open, c)
	case s != http.StateActive || known || o.every == 0:
	case o.all:
		o.open[c] = nil
		if o.began.IsZero() {
			o.began = time.Now()
			o.next(o.began)
		}
	default:
		o.open[c] = time.AfterFunc(o.every, func() { o.reset(c) })
	}
}

// next resets all after another while, as long as Reset is not called. The lock is held.
func (o *Origin) next(began time.Time) {
	time.AfterFunc(o.every, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.began != began {
			return
		}
		for c := range o.open {
			o.abort(c)
		}
		o.next(began)
	})
}

func (o *Origin) reset(c net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.abort(c)
}

func (o *Origin) abort(c net.Conn) {
	o.count++
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
