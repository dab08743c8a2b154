package worker

import (
	"net/netip"
	"slices"
	"time"
)

// A trunk begins with the window that was known as it was opened. Of those that wait, the ones that a newer would leave far behind are
// replaced by whoever would send with that window: an opener opens others, an acceptor closes them, so that the opener does. Flows take
// the newest trunk, so that the oldest can go.

const (
	renewTick = 200 * time.Millisecond // between looks
	renewAge  = 2 * time.Second        // of the youngest trunk that an acceptor closes: openers mistrust those that end at once
)

// outgrown returns the time, on the worker's clock, before which trunks were opened that begin with too little; 0: there is none.
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

// half is how many of so many are renewed at a time, so that flows find others.
func half(n int) int { return (n + 1) / 2 }

// renew closes some of those that a peer's pool has outgrown. It is the caller's to fill it again.
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

// renewIdle closes some of the trunks that other relays have opened.
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
