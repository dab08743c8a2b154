package vips

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"baton/sockdiag"
)

// TimeWaits removes sockets in TIME_WAIT. When a VIP's server has closed first, its kernel keeps the ports for a minute, but the
// client may reuse its own at once. The host does not see the SYN of a new connection accepted by the data path, which would
// replace the old socket, and would reset it.
type TimeWaits struct {
	mu   sync.Mutex
	diag *sockdiag.Conn // nil: not open
}

// EndOldSocket removes the host's socket between a VIP and a client, except the listener.
func (w *TimeWaits) EndOldSocket(vip, client netip.AddrPort) (err error) {
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
	// By its cookie: this very socket, not the listener if it is gone.
	if err := w.diag.Destroy([]sockdiag.Socket{old.Socket})[0]; err != nil && !errors.Is(err, sockdiag.ErrGone) {
		return fmt.Errorf("end the old socket of %v: %w", client, err)
	}
	return nil
}

// Close is called after the last EndOldSocket.
func (w *TimeWaits) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.diag != nil {
		_ = w.diag.Close() // nothing is left to report
		w.diag = nil
	}
}
