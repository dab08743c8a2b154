package router

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"baton/datapath"
	kernel "baton/datapath/router"
	"baton/packet"
	"baton/router/config"
	"baton/router/fallback"
	"baton/router/head"
	"baton/router/route"
)

// asker answers the kernel's questions: packets of clients whose request the kernel did not decide.
type asker struct {
	r   *Router
	tap *datapath.Tap
	log *slog.Logger

	proxied proxied

	mu       sync.Mutex
	clients  map[clientKey]*pending
	holding  *holding
	deciding int
	leaving  chan leaving
	wg       sync.WaitGroup

	old timeWaits
}

type clientKey struct{ client, vip netip.AddrPort }

// leaving is a client that is to be given to the VIP's own listener.
type leaving struct {
	p       *pending
	verdict *fallback.Verdict // nil: it is proxied
	outcome string
}

const (
	// legWait bounds the time that a request waits for a leg of one surrogate.
	legWait = 2 * time.Second
	// mostDeciding requests are being decided at one time; most of them wait for a leg. Others' clients repeat them.
	mostDeciding = 4096
	// leavers give clients to listeners; as many clients wait for one.
	leavers     = 4
	mostLeaving = 4096
)

func (a *asker) run(ctx context.Context) error {
	defer a.old.close()
	a.wg.Go(func() { a.expire(ctx) })
	for range leavers {
		a.wg.Go(func() { a.leave(ctx) })
	}
	defer a.wg.Wait()
	stop := context.AfterFunc(ctx, func() { a.tap.Close() })
	defer stop()
	buf := make([]byte, 65536+datapath.VnetHeader+packet.EthernetSize)
	for {
		n, err := a.tap.Read(buf)
		if ctx.Err() != nil || errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if n > datapath.VnetHeader {
			a.take(ctx, buf[:n])
		}
	}
}

func (a *asker) take(ctx context.Context, b []byte) {
	frame, err := packet.Parse(b[datapath.VnetHeader:])
	if err != nil || frame.Protocol != packet.ProtocolTCP {
		return // a neighbour's broadcast
	}
	key := clientKey{frame.Src, frame.Dst}
	tcp := frame.TCP()
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.clients[key]
	bare := len(frame.Payload()) == 0
	if tcp.Flags()&packet.RST != 0 || bare && p == nil {
		// the client has given up; what it may still be told, its own retransmission asks for
		a.giveUp(key)
		a.r.dp.ForgetClient(key.client, key.vip)
		return
	}
	asked, err := a.r.dp.Pending(key.client, key.vip)
	if err != nil {
		a.giveUp(key)
		return // it has reset its session; if not, it is asked about again
	}
	if p != nil && p.base != asked.Seq {
		a.giveUp(key)
		p = nil // of an earlier session on the same port: a decision about that finds nobody (kernel.ErrNotAsked)
	}
	if p == nil {
		if len(a.clients) >= a.r.current().cfg.Limits.Pending {
			return
		}
		p = &pending{client: key.client, vip: key.vip, base: asked.Seq, first: time.Now()}
		a.clients[key] = p
		a.holding.begin(p)
	}
	came := segment{seq: tcp.Seq(), data: frame.Payload()}
	ends := func() bool { return tcp.Flags().Has(packet.FIN) && p.ends(came) }
	switch keep, fits := p.wants(came.seq, len(came.data)); {
	case !fits && !p.decided:
		a.refuse(p, &head.Error{Status: http.StatusRequestHeaderFieldsTooLarge, Reason: "head is too long"})
		return
	case !keep:
		if !p.decided && ends() { // the end comes with bytes that are there already
			a.read(ctx, p, true)
		}
		return
	case !a.room(p, len(b)):
		return
	}
	own := append([]byte(nil), b...)
	s := segment{frame: own, seq: tcp.Seq(), data: own[len(own)-len(b[datapath.VnetHeader:])+frame.Data:][:len(frame.Payload())]}
	a.holding.charge(p, cap(own))
	p.add(s)
	if !p.decided {
		a.read(ctx, p, ends())
	}
}

// read has the request decided when its head is whole. ends: its client sends no more. Called with the lock.
func (a *asker) read(ctx context.Context, p *pending, ends bool) {
	req, n, err := head.Parse(p.contiguous())
	var bad *head.Error
	switch {
	case err == nil:
		behind, malformed := bodyIn(&req, p.contiguous()[n:])
		if malformed {
			a.refuse(p, &head.Error{Status: http.StatusBadRequest, Reason: "malformed chunked body"})
			return
		}
		p.decided = true
		a.holding.decided(p)
		a.deciding++
		a.wg.Go(func() {
			if behind && a.r.current().holds(p.vip) {
				a.local(p, nil, "pipelined")
			} else {
				a.decide(ctx, p, req, n)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.deciding--
		})
	case errors.As(err, &bad):
		a.refuse(p, bad)
	case ends:
		a.refuse(p, &head.Error{Status: http.StatusBadRequest, Reason: "request ends within its head"})
	}
}

// room makes room for so many bytes of a client. False: there is none; the client repeats them. Called with the lock.
func (a *asker) room(p *pending, bytes int) bool {
	if !p.decided && a.deciding >= mostDeciding {
		return false
	}
	for {
		victim, ok := a.holding.victim(bytes)
		if victim == nil {
			return ok
		}
		a.drop(victim)
		a.r.dp.ForgetClient(victim.client, victim.vip) // it may begin anew
		if victim == p {
			return false
		}
	}
}

// stalledHead is how much of a head must be there, in bytes, for the client to be thought at the end of its initial window:
// nothing is acknowledged before the decision, so that it can send no more.
const stalledHead = 2 << 10

// expire refuses heads that trickle in (408), and leaves to the proxy those that a socket must acknowledge to see the rest.
func (a *asker) expire(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			wait := a.r.current().cfg.Timeouts.Handshake
			a.mu.Lock()
			for _, p := range a.clients {
				switch {
				case p.decided:
				case p.bad != nil:
					a.refuse(p, p.bad)
				case now.Sub(p.first) > wait:
					a.refuse(p, &head.Error{Status: http.StatusRequestTimeout, Reason: "request did not arrive in time"})
				case p.bytes > stalledHead && p.bytes == p.looked:
					a.letGo(leaving{p, nil, "proxied"})
				}
				p.looked = p.bytes
			}
			a.mu.Unlock()
			a.proxied.expire(now)
		}
	}
}

// refuse has the router's own server answer. Called with the lock.
func (a *asker) refuse(p *pending, why *head.Error) {
	p.bad = why
	a.letGo(leaving{p, &fallback.Verdict{Status: why.Status, Reason: why.Reason}, "refused"})
}

// letGo has a client given to its listener. When too many wait for that, it is tried again in a second. Called with the lock.
func (a *asker) letGo(l leaving) {
	select {
	case a.leaving <- l:
		l.p.decided = true
		a.holding.decided(l.p)
	default:
	}
}

// leave gives clients to their listeners.
func (a *asker) leave(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-a.leaving:
			a.local(l.p, l.verdict, l.outcome)
		}
	}
}

// bodyIn tells whether the bytes behind a request's head hold more than its body, and whether that is malformed.
func bodyIn(req *head.Request, b []byte) (behind, malformed bool) {
	if req.ContentLength < 0 {
		n, bad := fallback.ChunkedEnd(b)
		return n > 0, bad
	}
	return int64(len(b)) > req.ContentLength, false
}

// decide finds a surrogate and has the client spliced to it, or leaves it to the proxy.
func (a *asker) decide(ctx context.Context, p *pending, req head.Request, headBytes int) {
	for !a.decideBy(ctx, a.r.current(), p, req, headBytes) {
	}
}

// decideBy is decide by one state. False: another is in force by now.
func (a *asker) decideBy(ctx context.Context, s *state, p *pending, req head.Request, headBytes int) bool {
	vip, ok := s.byAddr[p.vip]
	if !ok {
		a.forget(p)
		return true
	}
	match, ok := s.routes.Match(vip, &req)
	if !ok {
		a.local(p, &fallback.Verdict{Status: http.StatusNotFound, Reason: "no route matches the request"}, "no route")
		return true
	}
	pool := s.pools[match.Pool]
	d := kernel.Decision{Pool: pool.id, Method: route.MethodID(req.Method), Bound: req.Bound, Upgrade: req.Upgrade}
	d.Chunked = req.ContentLength < 0
	d.Request = uint64(headBytes) + uint64(max(req.ContentLength, 0))
	client, err := a.r.dp.Pending(p.client, p.vip)
	if err != nil { // it expired, or a repeated SYN took its place
		a.forget(p)
		return true
	}
	a.proxied.take(clientKey{p.client, p.vip}) // of an earlier session on the same port, which did not come for it
	class := client.Class(a.r.mss)
	var tried []string
	for range 3 {
		at, ok := pool.pick(&req, p.client.Addr(), tried, a.r.sessions)
		if !ok {
			break
		}
		name := pool.cfg.Surrogates[at].Name
		tried = append(tried, name)
		if sg := &pool.cfg.Surrogates[at]; config.Unspliced(&s.cfg.VIPs[vip], sg) != "" || a.r.legs.Local(pool.ids[at]) {
			a.proxied.put(clientKey{p.client, p.vip}, name, time.Now())
			break
		}
		wait, cancel := context.WithTimeout(ctx, legWait)
		err := a.r.legs.Want(wait, pool.ids[at], class)
		cancel()
		if a.r.current() != s {
			return false
		}
		if err != nil {
			a.log.Debug("no leg", "surrogate", name, "class", class, "err", err)
			continue
		}
		d.Surrogate = pool.ids[at]
		if err := a.release(p, d, func() {}); err != nil {
			a.log.Debug("request is not released", "client", p.client, "err", err)
			return true
		}
		a.r.metrics.Decided(p.vip, "spliced", time.Since(p.first))
		a.r.metrics.HandedOff(p.vip, name)
		return true
	}
	if len(tried) == 0 {
		a.local(p, &fallback.Verdict{Status: http.StatusServiceUnavailable, Reason: "no surrogate is up"}, "no surrogate")
		return true
	}
	a.local(p, nil, "proxied")
	return true
}

// local gives the connection to the VIP's own listener, which answers with the verdict, or proxies.
func (a *asker) local(p *pending, v *fallback.Verdict, outcome string) {
	if err := a.old.end(p.vip, p.client); err != nil {
		a.log.Debug("an old socket may be in the way", "err", err)
	}
	verdicts := a.r.verdicts(p.vip)
	err := a.release(p, kernel.Decision{Local: true}, func() {
		if v != nil {
			verdicts.Put(p.client, *v)
		} else {
			verdicts.Take(p.client) // of an earlier session on the same port, which did not come for it
		}
	})
	if err != nil {
		a.log.Debug("client is not given to the proxy", "client", p.client, "err", err)
		return
	}
	a.r.metrics.Decided(p.vip, outcome, time.Since(p.first))
}

// release writes the decision down and gives the packets back, in order. first is done before, but only if the kernel still asks about
// this request: the client's port may be another session's by now.
func (a *asker) release(p *pending, d kernel.Decision, first func()) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(p)
	if asked, err := a.r.dp.Pending(p.client, p.vip); err != nil || asked.Seq != p.base {
		return cmp.Or(err, kernel.ErrNotAsked)
	}
	first()
	if err := a.r.dp.Decide(p.client, p.vip, p.base, d); err != nil {
		return err
	}
	for _, s := range p.segments {
		if err := a.tap.Write(s.frame); err != nil {
			return err
		}
	}
	return nil
}

func (a *asker) forget(p *pending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(p)
}

// giveUp forgets a client; what is being decided about it finds nobody. Called with the lock.
func (a *asker) giveUp(key clientKey) {
	if p := a.clients[key]; p != nil {
		delete(a.clients, key)
		if !p.decided {
			a.holding.end(p) // else when that has ended
		}
	}
}

// drop is forget, called with the lock.
func (a *asker) drop(p *pending) {
	a.holding.end(p)
	if key := (clientKey{p.client, p.vip}); a.clients[key] == p {
		delete(a.clients, key)
	}
}
