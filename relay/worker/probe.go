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

// Probe makes the last relay of via measure the distance of an address by one SYN, over one trunk per hop for this probe alone. Without a
// target the relay answers at once.
//
// Status Connected means that the address answered, even by refusing; the answer's RTT is that of its handshake. The last relay rejects
// addresses outside its allow, except those of its peers. Any other status is an answer as well. The error is of the context, an invalid
// route, or a worker that has ended.
func (w *Worker) Probe(ctx context.Context, via []string, target netip.AddrPort) (trunkproto.Answer, error) {
	if len(via) == 0 {
		return trunkproto.Answer{}, errors.New("probe: no relay is given")
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

// startProbe starts the measurement that a probe requests.
func (w *Worker) startProbe(s *split) {
	if !s.server.IsValid() {
		w.finishProbe(s, s.answer(trunkproto.Connected))
		return
	}
	s.route.shown = trunkproto.Hidden // a probe has no client to show
	s.request.since = time.Now()
	w.dial(s)
}

// probeMeasured is called when the address has answered.
func (w *Worker) probeMeasured(s *split, rtt time.Duration) {
	a := s.answer(trunkproto.Connected)
	a.RTT = rtt
	w.finishProbe(s, a)
}

// finishProbe answers the probe and ends it. The measured connection is reset, so that nothing remains of it.
func (w *Worker) finishProbe(s *split, a trunkproto.Answer) {
	if server := &s.ends[flow.Server]; server.fd >= 0 {
		w.hangUp(server, true)
	}
	switch {
	case s.request.answers != nil:
		s.request.answers <- a // capacity 1
		s.request.answers = nil
		w.drop(s)
	case s.answered || s.ends[flow.Client].fd < 0: // the next relay's answer was forwarded
		w.drop(s)
	default:
		w.sendRefusal(s, s.request.refusedReply(a))
	}
}
