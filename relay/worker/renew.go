package worker

import (
	"net/netip"
	"slices"
	"time"
)

// A trunk starts with the initial window at the time when it was opened. Ready trunks are replaced when newer ones would start with a far
// larger window. The sender of the data replaces them: an opener opens new ones, an acceptor closes them so that the opener does. Flows
// take the newest trunk, so the oldest are replaced first.

const (
	renewTick = 200 * time.Millisecond // between checks
	renewAge  = 2 * time.Second        // minimum age of trunks that an acceptor closes: openers back off when trunks end at once
)

// outgrown returns the time, on the worker's clock, before which trunks started with too small a window; 0: none did.
func (w *Worker) outgrown(peer string, from netip.Addr) time.Duration {
	if w.o.Outgrown == nil {
		return 0
	}
	at := w.o.Outgrown(peer, from)
	if at.IsZero() {
		return 0
	}
	return at.Sub(w.start)
}

// half is how many of n trunks are renewed at a time, so that flows find others.
func half(n int) int { return (n + 1) / 2 }

// renew closes some outgrown trunks of a pool. The caller fills it again.
func (p *pool) renew(w *Worker) {
	if w.now-p.renewed < renewTick {
		return
	}
	p.renewed = w.now
	since := w.outgrown(p.peer.Name, netip.Addr{})
	for n := half(len(p.ready)); n > 0 && p.ready[0].begun < since; n-- {
		w.loseTrunk(p.ready[0], errOld)
	}
}

// renewIdle closes some outgrown trunks that other relays have opened.
func (w *Worker) renewIdle() {
	if w.o.Outgrown == nil || len(w.idle) == 0 || w.now-w.renewed < renewTick {
		return
	}
	w.renewed = w.now
	waiting := make(map[netip.Addr][]*handshake)
	for a := range w.idle {
		if len(a.header) == 0 && (a.tls == nil || !a.tls.Handshaking()) && w.now-a.born >= renewAge {
			waiting[a.from.Addr()] = append(waiting[a.from.Addr()], a)
		}
	}
	for from, all := range waiting {
		since := w.outgrown("", from)
		slices.SortFunc(all, func(a, b *handshake) int { return int(a.born - b.born) })
		for _, a := range all[:half(len(all))] {
			if a.born < since {
				w.abortHandshake(a, false)
			}
		}
	}
}
