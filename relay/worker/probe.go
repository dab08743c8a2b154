package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"baton/relay/config"
	"baton/relay/flow"
	"baton/relay/trunkproto"
)

// Probe has the last of the relays via measure how far an address is from it, by one SYN. The way to that relay is a trunk from each to
// the next, each for this probe alone. Without a target the relay answers at once.
//
// A status of Connected says that the address has answered, if only by refusing, and the answer's RTT is that of its handshake. The last
// relay refuses what it may not connect to, but for addresses of its peers. Any other status is an answer as well; the error is of the
// context, of a way that cannot be, or of a worker that has ended.
func (w *Worker) Probe(ctx context.Context, via []string, target netip.AddrPort) (trunkproto.Answer, error) {
	if len(via) == 0 {
		return trunkproto.Answer{}, errors.New("probe: no relay is asked")
	}
	names, err := trunkproto.JoinNames(via...)
	if err != nil {
		return trunkproto.Answer{}, fmt.Errorf("probe: %w", err)
	}
	asked := make(chan trunkproto.Answer, 1)
	var s *split
	err = w.ask(func(w *Worker) error {
		if w.inbox.closed {
			return ErrClosed
		}
		s = w.newSplit(nil, netip.AddrPort{})
		s.guest = &guest{probe: true, asked: asked}
		s.server, s.way.via = target, names
		_, _ = rand.Read(s.way.id[:]) // never fails
		w.onward(s)
		return nil
	})
	if err != nil {
		return trunkproto.Answer{}, fmt.Errorf("probe: %w", err)
	}
	select {
	case a, told := <-asked:
		if !told {
			return a, fmt.Errorf("probe: %w", ErrClosed)
		}
		return a, nil
	case <-ctx.Done():
		_ = w.post(func(w *Worker) {
			if s.stage != stageOver {
				w.drop(s)
			}
		})
		return trunkproto.Answer{}, fmt.Errorf("probe: %w", context.Cause(ctx))
	}
}

func (s *split) isProbe() bool { return s.guest != nil && s.guest.probe }

func (w *Worker) isPeer(address netip.AddrPort) bool {
	return slices.ContainsFunc(w.cfg.Peers, func(p config.Peer) bool { return p.Address == address })
}

// sound begins to measure what a probe has asked this relay for.
func (w *Worker) sound(s *split) {
	if !s.server.IsValid() {
		w.found(s, s.own(trunkproto.Connected))
		return
	}
	s.way.shown = trunkproto.Hidden // nobody's flow has a client that could be shown
	s.guest.since = time.Now()
	w.dial(s)
}

// sounded is called when the address has answered.
func (w *Worker) sounded(s *split, rtt time.Duration) {
	a := s.own(trunkproto.Connected)
	a.RTT = rtt
	w.found(s, a)
}

// found tells who has asked, and ends the probe. What was connected to is reset: nothing of it stays there.
func (w *Worker) found(s *split, a trunkproto.Answer) {
	if server := &s.ends[flow.Server]; server.fd >= 0 {
		w.hangUp(server, true)
	}
	switch {
	case s.guest.asked != nil:
		s.guest.asked <- a // has room for one
		s.guest.asked = nil
		w.drop(s)
	case s.answered || s.ends[flow.Client].fd < 0: // passed on before
		w.drop(s)
	default:
		w.conclude(s, s.guest.refused(a))
	}
}
