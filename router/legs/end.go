package legs

import (
	"errors"

	kernel "baton/datapath/router"
)

// End resets every session at both ends, and every idle leg at its surrogate. The data path must be detached, so that
// sequence numbers are final. It returns the number of sessions.
func End(dp *kernel.Router) (int, error) {
	w, err := OpenWire(nil)
	if err != nil {
		return 0, err
	}
	defer w.Close()
	sessions := 0
	var failed error // an end that gets no RST times out by itself: continue with the others
	err = dp.EachSplice(func(s kernel.Splice) error {
		switch s.State {
		case kernel.Active, kernel.Closing:
			sessions++
			failed = errors.Join(failed, w.Reset(s.VIP, s.Client, s.RcvNxt-s.ToServerAck))
			fallthrough
		case kernel.Idle:
			failed = errors.Join(failed, w.End(s))
		}
		return nil
	})
	return sessions, errors.Join(err, failed)
}
