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
	answers := make(chan trunkproto.Answer, 1)
	var s *split
	err = w.ask(func(w *Worker) error {
		if w.inbox.closed {
			return ErrClosed
		}
		s = w.newSplit(nil, netip.AddrPort{})
		s.request = &request{probe: true, answers: answers}
		s.server, s.route.via = target, names
		_, _ = rand.Read(s.route.id[:]) // never fails
		w.startOnward(s)
		return nil
	})
	if err != nil {
		return trunkproto.Answer{}, fmt.Errorf("probe: %w", err)
	}
	select {
	case a, answered := <-answers:
		if !answered {
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

func (s *split) isProbe() bool { return s.request != nil && s.request.probe }

func (w *Worker) isPeer(address netip.AddrPort) bool {
	return slices.ContainsFunc(w.cfg.Peers, func(p config.Peer) bool { return p.Address == address })
}

// startProbe begins to measure what a probe has asked this relay for.
func (w *Worker) startProbe(s *split) {
	if !s.server.IsValid() {
		w.finishProbe(s, s.answer(trunkproto.Connected))
		return
	}
	s.route.shown = trunkproto.Hidden // nobody's flow has a client that could be shown
	s.request.since = time.Now()
	w.dial(s)
}

// probeMeasured is called when the address has answered.
func (w *Worker) probeMeasured(s *split, rtt time.Duration) {
	a := s.answer(trunkproto.Connected)
	a.RTT = rtt
	w.finishProbe(s, a)
}

// finishProbe tells who has asked, and ends the probe. What was connected to is reset: nothing of it stays there.
func (w *Worker) finishProbe(s *split, a trunkproto.Answer) {
	if server := &s.ends[flow.Server]; server.fd >= 0 {
		w.hangUp(server, true)
	}
	switch {
	case s.request.answers != nil:
		s.request.answers <- a // has room for one
		s.request.answers = nil
		w.drop(s)
	case s.answered || s.ends[flow.Client].fd < 0: // passed on before
		w.drop(s)
	default:
		w.sendRefusal(s, s.request.refusedReply(a))
	}
}
