package reactive

import (
	"net"
	"testing"
)

// TestDialerTakesPortsInTurn: a port is not used again before all others of the range were, also if some are somebody else's.
func TestDialerTakesPortsInTurn(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := newDialer(addressOf(l.Addr()).Addr())
	port := func() uint32 {
		c, err := d.Connect(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return uint32(addressOf(c.LocalAddr()).Port())
	}
	before := port()
	for range 20 {
		now := port()
		if step := (now + d.size - before) % d.size; step == 0 || step > 10 {
			t.Fatalf("port %d after %d", now, before)
		}
		before = now
	}
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at := uint32(addressOf(taken.Addr()).Port())
	d.turn.Store(at - d.first - 1 + d.size)
	if got := port(); got == at {
		t.Errorf("port %d, which is taken", got)
	}
}
