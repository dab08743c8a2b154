package router

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"baton/sockdiag"
)

// timeWaits removes what is left of earlier connections between the same ports. When a VIP's server has closed a
// connection first, its kernel holds the ports for a minute, and the client may use its own again at once. A new
// connection that the data path has answered comes to the host without the SYN that would take the place of the old one:
// the kernel would reset it.
type timeWaits struct {
	mu   sync.Mutex
	diag *sockdiag.Conn // nil: not open
}

// end removes the host's socket between a VIP and a client, unless that is none but the listener.
func (w *timeWaits) end(vip, client netip.AddrPort) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.diag == nil {
		if w.diag, err = sockdiag.Open(); err != nil {
			return err
		}
	}
	old, err := w.diag.FindTCP(vip, client)
	switch {
	case errors.Is(err, sockdiag.ErrGone):
		return nil
	case err != nil:
		return fmt.Errorf("look for a socket of %v: %w", client, err)
	case old.State == sockdiag.Listen:
		return nil
	}
	// By its cookie: that very socket, and not the listener if it has gone.
	if err := w.diag.Destroy([]sockdiag.Socket{old.Socket})[0]; err != nil && !errors.Is(err, sockdiag.ErrGone) {
		return fmt.Errorf("end the old socket of %v: %w", client, err)
	}
	return nil
}

// close is called when nobody asks any more.
func (w *timeWaits) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.diag != nil {
		_ = w.diag.Close() // nothing is left to be said
		w.diag = nil
	}
}
