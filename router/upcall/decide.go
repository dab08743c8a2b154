package upcall

import (
	"context"
	"errors"
	"net/http"
	"time"

	kernel "baton/datapath/router"
	"baton/packet/hello"
	"baton/router/config"
	"baton/router/fallback"
	"baton/router/head"
	"baton/router/legs"
	"baton/router/outcome"
	"baton/router/proxyheader"
	"baton/router/route"
	"baton/router/state"
)

const (
	// legWait is how long a request waits for a leg of one surrogate.
	legWait = 2 * time.Second
	// keptLegWait is the same where no proxy takes over: a SYN that is lost twice is repeated after 3 s.
	keptLegWait = 4 * time.Second
	// maxTried is how many surrogates are tried for one request.
	maxTried = 3
)

// errOutdated: another configuration is in force by now. The decision is made again.
var errOutdated = errors.New("the configuration has changed")

// decideLocked decides for a client in the background.
func (d *Decider) decideLocked(p *pending, decide func()) {
	d.protectLocked(p)
	d.deciding++
	d.wg.Go(func() {
		decide()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.deciding--
	})
}

// decideRequest chooses a surrogate for a request and splices the client to it, or leaves it to a socket.
func (d *Decider) decideRequest(ctx context.Context, s *state.Snapshot, p *pending, req *head.Request, headBytes int) {
	for d.tryRequest(ctx, s, p, req, headBytes) == errOutdated {
		s = d.o.Snapshot()
	}
}

// tryRequest decides by one configuration. The error is errOutdated or nil.
func (d *Decider) tryRequest(ctx context.Context, s *state.Snapshot, p *pending, req *head.Request, headBytes int) error {
	vip, ok := s.VIPs[p.vip]
	if !ok {
		d.forget(p)
		return nil
	}
	if isEncrypted(s, p) { // since the head was read: the VIP's new socket reads it again
		d.assignToSocket(departure{p, nil, outcome.Proxied})
		return nil
	}
	match, ok := s.Routes.Match(vip, req)
	if !ok {
		d.assignToSocket(departure{p, &fallback.Verdict{Status: http.StatusNotFound, Reason: "no route matches the request"}, outcome.NoRoute})
		return nil
	}
	if why := s.Unfit(vip, &match, req, headBytes, p.firstBytes()); why != "" {
		d.assignToSocket(departure{p, nil, why})
		return nil
	}
	pool := s.Pools[match.Pool]
	w := &wanted{vip: vip, pool: match.Pool, question: pool.QuestionOf(req, p.client.Addr()), head: headBytes}
	w.decision = kernel.Decision{
		Pool: pool.ID, Method: route.MethodID(req.Method), Bound: req.Bound, Upgrade: req.Upgrade, Edit: pool.Edit(match.Rewrite),
		Chunked: req.ContentLength < 0, Request: uint64(headBytes) + uint64(max(req.ContentLength, 0)),
	}
	if w.name, ok = req.Fields.Get("Host"); !ok {
		w.name = req.Host
	}
	return d.splice(ctx, s, p, w)
}

// decideHello is decideRequest for a hello.
func (d *Decider) decideHello(ctx context.Context, s *state.Snapshot, p *pending, h *hello.Hello) {
	for d.tryHello(ctx, s, p, h) == errOutdated {
		s = d.o.Snapshot()
	}
}

// tryHello is tryRequest for a hello.
func (d *Decider) tryHello(ctx context.Context, s *state.Snapshot, p *pending, h *hello.Hello) error {
	vip, ok := s.VIPs[p.vip]
	if !ok {
		d.forget(p)
		return nil
	}
	if !isEncrypted(s, p) { // since the hello was read
		d.assignToSocket(departure{p, nil, outcome.Proxied})
		return nil
	}
	match, ok := s.Routes.MatchHello(vip, h)
	if !ok {
		d.assignToSocket(departure{p, nil, outcome.NoRoute})
		return nil
	}
	pool := s.Pools[match.Pool]
	return d.splice(ctx, s, p, &wanted{
		vip: vip, pool: match.Pool, question: pool.QuestionOfHello(h, p.client.Addr()),
		decision: kernel.Decision{Pool: pool.ID, Opaque: true}, name: []byte(h.ServerName), sent: h.Sent,
	})
}

// wanted is a leg to a surrogate of a pool.
type wanted struct {
	vip      int // index
	pool     int // index
	question state.Question
	decision kernel.Decision // without the surrogate
	name     []byte          // for the access log: the host or server name as sent
	sent     string          // for the header of the PROXY protocol: the server name as sent
	head     int             // length of the request's head
}

// splice splices a client to a surrogate, or leaves it to a socket. The error is errOutdated or nil.
func (d *Decider) splice(ctx context.Context, s *state.Snapshot, p *pending, w *wanted) error {
	client, err := d.o.Kernel.Pending(p.client, p.vip)
	if err != nil { // it expired, or a repeated SYN replaced it
		d.forget(p)
		return nil
	}
	d.chosen.takeValue(p.key()) // left by an earlier session on the same port
	class := client.Class(d.o.MSS)
	var tried []string
	bypass, why := "", outcome.NoLeg
	for range maxTried {
		pool := s.Pools[w.pool]
		c, ok := d.o.Pick(pool, &w.question, tried)
		if bypass = c.Bypass; !ok {
			break
		}
		sg := &pool.Config.Surrogates[c.At]
		tried = append(tried, sg.Name)
		if never := d.neverSpliced(s, w, pool, c.At); never != "" {
			d.chosen.keepValue(p.key(), sg.Name, time.Now())
			why = never
			break
		}
		decision := w.decision
		err := d.waitLeg(ctx, p, pool, c.At, class, &decision)
		now := d.o.Snapshot()
		if !now.SameConfiguration(s) {
			return errOutdated
		}
		if err != nil {
			d.o.Log.Debug("no leg", "surrogate", sg.Name, "class", class, "err", err)
			if errors.Is(err, legs.ErrNoPlace) {
				why = outcome.NoPlace
			}
			s = now // of the same configuration: what is up may have changed while it waited
			continue
		}
		d.replaySpliced(s, p, w, &decision, sg.Name)
		return nil
	}
	d.assignToSocket(leaveUnspliced(p, tried, bypass, why))
	return nil
}

// neverSpliced is the outcome for a surrogate that no client of the VIP is spliced to; "" for others.
func (d *Decider) neverSpliced(s *state.Snapshot, w *wanted, pool *state.Pool, at int) outcome.Outcome {
	vip, sg := &s.Config.VIPs[w.vip], &pool.Config.Surrogates[at]
	switch unspliced := config.Unspliced(vip, sg) != ""; {
	case unspliced && !sg.Address.Addr().IsLoopback() && sg.Address.Addr().Is4() != vip.Address.Addr().Is4():
		return outcome.OtherFamily
	case unspliced, d.o.Legs.Local(pool.IDs[at]):
		return outcome.LocalSurrogate
	}
	return ""
}

// waitLeg waits for a leg to a surrogate, and completes the decision.
func (d *Decider) waitLeg(ctx context.Context, p *pending, pool *state.Pool, at int, class uint8, decision *kernel.Decision) error {
	decision.Surrogate = pool.IDs[at]
	if !pool.Config.Keeps() {
		wait, cancel := context.WithTimeout(ctx, legWait)
		defer cancel()
		return d.o.Legs.WaitIdle(wait, decision.Surrogate, class)
	}
	wait, cancel := context.WithTimeout(ctx, keptLegWait)
	defer cancel()
	k, err := d.o.Legs.WaitKept(wait, decision.Surrogate, class, p.client, p.vip)
	decision.Surrogate, decision.Leg, decision.Keep = k.Surrogate, k.Number, k.Waits
	return err
}

// replaySpliced replays a request to the surrogate that the decision has.
func (d *Decider) replaySpliced(s *state.Snapshot, p *pending, w *wanted, decision *kernel.Decision, surrogate string) {
	err := d.replay(p, *decision, func() {
		if w.sent != "" && proxyheader.Of(s.Pools[w.pool].Config) == proxyheader.V2 {
			d.o.Kernel.KeepName(p.client, p.vip, w.sent)
		}
		if s.Logs(w.vip) {
			d.o.Kernel.KeepHead(p.client, p.vip, w.name, p.contiguous()[:w.head])
		}
	})
	if err != nil {
		d.o.Log.Debug("cannot replay request", "client", p.client, "err", err)
		return
	}
	d.o.Decided(p.vip, outcome.Spliced, time.Since(p.first))
	d.o.HandedOff(p.vip, surrogate)
}

// leaveUnspliced is the departure of a client that was not spliced to the surrogates that were tried, and why.
func leaveUnspliced(p *pending, tried []string, bypass string, why outcome.Outcome) departure {
	switch {
	case len(tried) > 0:
		return departure{p, nil, why}
	case bypass != "":
		return departure{p, nil, outcome.Bypass} // the proxy redirects it
	}
	return departure{p, &fallback.Verdict{Status: http.StatusServiceUnavailable, Reason: "no surrogate is up"}, outcome.NoSurrogate}
}

// isWaiting reports whether the kernel waits for the decision on this request: else another session uses the client's port, or its
// decision was made.
func (d *Decider) isWaiting(p *pending) (kernel.Pending, bool) {
	client, err := d.o.Kernel.Pending(p.client, p.vip)
	return client, err == nil && client.Seq == p.base && client.Ack == p.ack && !client.Decided
}

// replay records the decision and replays the packets in order. It calls before first, but only if the kernel still waits for
// this decision: another session may use the client's port by now. The error is kernel.ErrNoUpcall then.
func (d *Decider) replay(p *pending, decision kernel.Decision, before func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forgetLocked(p)
	client, waits := d.isWaiting(p)
	if !waits {
		return kernel.ErrNoUpcall
	}
	before()
	if err := d.o.Kernel.Decide(p.client, p.vip, p.base, decision); err != nil {
		return err
	}
	d.replayed.keepClient(p.key(), &client, time.Now())
	for _, s := range p.segments {
		if err := d.o.Tap.Write(s.frame); err != nil {
			return err
		}
	}
	return nil
}

// protectLocked marks a client as decided: it is not evicted, and no timer ends it.
func (d *Decider) protectLocked(p *pending) {
	p.decided = true
	p.stopTimer()
	d.holding.decided(p)
}

// forget forgets a client with its packets.
func (d *Decider) forget(p *pending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forgetLocked(p)
}

func (d *Decider) forgetLocked(p *pending) {
	p.stopTimer()
	d.holding.end(p)
	if d.clients[p.key()] == p {
		delete(d.clients, p.key())
	}
}

// abandonLocked forgets a client whose session has ended. A decision that is being made for it will fail, and frees its packets.
func (d *Decider) abandonLocked(key clientKey) {
	p := d.clients[key]
	if p == nil {
		return
	}
	delete(d.clients, key)
	p.stopTimer()
	if !p.decided {
		d.holding.end(p)
	}
}
