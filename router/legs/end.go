package legs

import (
	"errors"

	kernel "baton/datapath/router"
)

// End resets every session at both ends, and every idle leg at its surrogate. The data path must be detached, so that the
// numbers are the last. It returns how many sessions there were.
func End(dp *kernel.Router) (int, error) {
	w, err := OpenWire()
	if err != nil {
		return 0, err
	}
	defer w.Close()
	sessions := 0
	var failed error // a session that is not told learns it from its own timers: the others are told all the same
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
