package fallback

import (
	"net"
	"testing"
)

// TestRefusedConnectionWhileShuttingDown: when its Close returns, the connection is off the books.
func TestRefusedConnectionWhileShuttingDown(t *testing.T) {
	e := serve(t, Options{Decide: inOrder()})
	near, far := net.Pipe()
	defer far.Close()
	g := newGuard(near, e.Server)
	e.slots <- struct{}{} // as accept does
	e.Server.mu.Lock()
	e.conns[g], e.closing = struct{}{}, true
	e.Server.mu.Unlock()
	e.hooks.Connection(1)
	g.refusedAt.Store(1)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open != 0 {
		t.Errorf("%d connections are counted, want none", e.open)
	}
}
