package upcall

import (
	"context"
	"net/http"
	"time"

	kernel "baton/datapath/router"
	"baton/router/fallback"
	"baton/router/head"
	"baton/router/outcome"
	"baton/router/state"
)

// departure is a client that leaves for its VIP's socket.
type departure struct {
	p       *pending
	verdict *fallback.Verdict // the socket's answer; nil: it proxies
	why     outcome.Outcome
}

// departLocked queues a client for its socket. If the queue is full, expireClients tries again.
func (d *Decider) departLocked(x departure) {
	select {
	case d.departed <- x:
		d.protectLocked(x.p)
	default:
	}
}

// refuseLocked makes the router's own server answer.
func (d *Decider) refuseLocked(p *pending, why *head.Error) {
	p.bad = why
	d.departLocked(departure{p, &fallback.Verdict{Status: why.Status, Reason: why.Reason}, outcome.Refused})
}

// assignDeparted assigns clients to their sockets until ctx is done.
func (d *Decider) assignDeparted(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case x := <-d.departed:
			d.assignToSocket(x)
		}
	}
}

// assignToSocket assigns the connection to the VIP's socket, which answers with the verdict, or proxies.
func (d *Decider) assignToSocket(x departure) {
	p := x.p
	if _, waits := d.isWaiting(p); !waits {
		d.forget(p)
		return
	}
	if err := d.o.EndOldSocket(p.vip, p.client); err != nil {
		d.o.Log.Debug("cannot remove old socket", "err", err)
	}
	verdicts := d.o.Verdicts(p.vip)
	err := d.replay(p, kernel.Decision{Local: true}, func() {
		if x.verdict != nil {
			verdicts.Put(p.client, *x.verdict)
		} else {
			verdicts.Take(p.client) // left by an earlier session on the same port
		}
		d.reasons.keepValue(p.key(), x.why, time.Now())
	})
	if err != nil {
		d.o.Log.Debug("cannot hand client over to the proxy", "client", p.client, "err", err)
		return
	}
	d.o.Decided(p.vip, x.why, time.Since(p.first))
}

// expireEvery is how often late clients are looked for.
const expireEvery = time.Second

// expireClients looks for late clients until ctx is done.
func (d *Decider) expireClients(ctx context.Context) {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s := d.o.Snapshot()
			d.mu.Lock()
			for _, p := range d.clients {
				d.expireLocked(s, p, now)
			}
			d.replayed.dropOld(now)
			d.mu.Unlock()
			d.chosen.expireValues(now)
			d.reasons.expireValues(now)
		}
	}
}

// expireLocked ends the wait for a head that trickles in (408), or a hello. What the queue had no room for is tried
// again.
func (d *Decider) expireLocked(s *state.Snapshot, p *pending, now time.Time) {
	switch {
	case p.decided:
	case p.givenUp != "":
		d.departLocked(departure{p, nil, p.givenUp})
	case p.bad != nil:
		d.refuseLocked(p, p.bad)
	case p.isSilent() && now.Sub(p.waits) > patienceWith(s, p):
		d.departLocked(departure{p, nil, outcome.Stalled})
	case now.Sub(p.first) <= s.Config.Timeouts.Handshake:
	case isEncrypted(s, p):
		d.departLocked(departure{p, nil, outcome.Stalled})
	default:
		d.refuseLocked(p, &head.Error{Status: http.StatusRequestTimeout, Reason: "request did not arrive in time"})
	}
}
