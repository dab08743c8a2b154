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

// upcalls answers the kernel's questions: packets of clients whose request the kernel did not decide.
type upcalls struct {
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

func (u *upcalls) run(ctx context.Context) error {
	defer u.old.close()
	u.wg.Go(func() { u.expire(ctx) })
	for range leavers {
		u.wg.Go(func() { u.leave(ctx) })
	}
	defer u.wg.Wait()
	stop := context.AfterFunc(ctx, func() { u.tap.Close() })
	defer stop()
	buf := make([]byte, 65536+datapath.VnetHeader+packet.EthernetSize)
	for {
		n, err := u.tap.Read(buf)
		if ctx.Err() != nil || errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if n > datapath.VnetHeader {
			u.take(ctx, buf[:n])
		}
	}
}

func (u *upcalls) take(ctx context.Context, b []byte) {
	frame, err := packet.Parse(b[datapath.VnetHeader:])
	if err != nil || frame.Protocol != packet.ProtocolTCP {
		return // a neighbour's broadcast
	}
	key := clientKey{frame.Src, frame.Dst}
	tcp := frame.TCP()
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.clients[key]
	bare := len(frame.Payload()) == 0
	if tcp.Flags()&packet.RST != 0 || bare && p == nil {
		// the client has given up; what it may still be told, its own retransmission asks for
		u.giveUp(key)
		u.r.dp.ForgetClient(key.client, key.vip)
		return
	}
	client, err := u.r.dp.Pending(key.client, key.vip)
	if err != nil {
		u.giveUp(key)
		return // it has reset its session; if not, there is another upcall
	}
	if p != nil && p.base != client.Seq {
		u.giveUp(key)
		p = nil // of an earlier session on the same port: a decision about that finds nobody (kernel.ErrNoUpcall)
	}
	if p == nil {
		if len(u.clients) >= u.r.current().cfg.Limits.Pending {
			return
		}
		p = &pending{client: key.client, vip: key.vip, base: client.Seq, first: time.Now()}
		u.clients[key] = p
		u.holding.begin(p)
	}
	came := segment{seq: tcp.Seq(), data: frame.Payload()}
	ends := func() bool { return tcp.Flags().Has(packet.FIN) && p.ends(came) }
	switch keep, fits := p.wants(came.seq, len(came.data)); {
	case !fits && !p.decided:
		u.refuse(p, &head.Error{Status: http.StatusRequestHeaderFieldsTooLarge, Reason: "head is too long"})
		return
	case !keep:
		if !p.decided && ends() { // the end comes with bytes that are there already
			u.read(ctx, p, true)
		}
		return
	case !u.room(p, len(b)):
		return
	}
	own := append([]byte(nil), b...)
	s := segment{frame: own, seq: tcp.Seq(), data: own[len(own)-len(b[datapath.VnetHeader:])+frame.Data:][:len(frame.Payload())]}
	u.holding.charge(p, cap(own))
	p.add(s)
	if !p.decided {
		u.read(ctx, p, ends())
	}
}

// read has the request decided when its head is whole. ends: its client sends no more. Called with the lock.
func (u *upcalls) read(ctx context.Context, p *pending, ends bool) {
	req, n, err := head.Parse(p.contiguous())
	var bad *head.Error
	switch {
	case err == nil:
		behind, malformed := bodyIn(&req, p.contiguous()[n:])
		if malformed {
			u.refuse(p, &head.Error{Status: http.StatusBadRequest, Reason: "malformed chunked body"})
			return
		}
		p.decided = true
		u.holding.decided(p)
		u.deciding++
		u.wg.Go(func() {
			if behind && u.r.current().holds(p.vip) {
				u.local(p, nil, "pipelined")
			} else {
				u.decide(ctx, p, req, n)
			}
			u.mu.Lock()
			defer u.mu.Unlock()
			u.deciding--
		})
	case errors.As(err, &bad):
		u.refuse(p, bad)
	case ends:
		u.refuse(p, &head.Error{Status: http.StatusBadRequest, Reason: "request ends within its head"})
	}
}

// room makes room for so many bytes of a client. False: there is none; the client repeats them. Called with the lock.
func (u *upcalls) room(p *pending, bytes int) bool {
	if !p.decided && u.deciding >= mostDeciding {
		return false
	}
	for {
		victim, ok := u.holding.victim(bytes)
		if victim == nil {
			return ok
		}
		u.drop(victim)
		u.r.dp.ForgetClient(victim.client, victim.vip) // it may begin anew
		if victim == p {
			return false
		}
	}
}

// stalledHead is how much of a head must be there, in bytes, for the client to be thought at the end of its initial window:
// nothing is acknowledged before the decision, so that it can send no more.
const stalledHead = 2 << 10

// expire refuses heads that trickle in (408), and leaves to the proxy those that a socket must acknowledge to see the rest.
func (u *upcalls) expire(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			wait := u.r.current().cfg.Timeouts.Handshake
			u.mu.Lock()
			for _, p := range u.clients {
				switch {
				case p.decided:
				case p.bad != nil:
					u.refuse(p, p.bad)
				case now.Sub(p.first) > wait:
					u.refuse(p, &head.Error{Status: http.StatusRequestTimeout, Reason: "request did not arrive in time"})
				case p.bytes > stalledHead && p.bytes == p.looked:
					u.letGo(leaving{p, nil, "proxied"})
				}
				p.looked = p.bytes
			}
			u.mu.Unlock()
			u.proxied.expire(now)
		}
	}
}

// refuse has the router's own server answer. Called with the lock.
func (u *upcalls) refuse(p *pending, why *head.Error) {
	p.bad = why
	u.letGo(leaving{p, &fallback.Verdict{Status: why.Status, Reason: why.Reason}, "refused"})
}

// letGo has a client given to its listener. When too many wait for that, it is tried again in a second. Called with the lock.
func (u *upcalls) letGo(l leaving) {
	select {
	case u.leaving <- l:
		l.p.decided = true
		u.holding.decided(l.p)
	default:
	}
}

// leave gives clients to their listeners.
func (u *upcalls) leave(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-u.leaving:
			u.local(l.p, l.verdict, l.outcome)
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
func (u *upcalls) decide(ctx context.Context, p *pending, req head.Request, headBytes int) {
	for !u.decideBy(ctx, u.r.current(), p, req, headBytes) {
	}
}

// decideBy is decide by one state. False: another is in force by now.
func (u *upcalls) decideBy(ctx context.Context, s *state, p *pending, req head.Request, headBytes int) bool {
	vip, ok := s.byAddr[p.vip]
	if !ok {
		u.forget(p)
		return true
	}
	match, ok := s.routes.Match(vip, &req)
	if !ok {
		u.local(p, &fallback.Verdict{Status: http.StatusNotFound, Reason: "no route matches the request"}, "no route")
		return true
	}
	pool := s.pools[match.Pool]
	d := kernel.Decision{Pool: pool.id, Method: route.MethodID(req.Method), Bound: req.Bound, Upgrade: req.Upgrade}
	d.Chunked = req.ContentLength < 0
	d.Request = uint64(headBytes) + uint64(max(req.ContentLength, 0))
	client, err := u.r.dp.Pending(p.client, p.vip)
	if err != nil { // it expired, or a repeated SYN took its place
		u.forget(p)
		return true
	}
	u.proxied.take(clientKey{p.client, p.vip}) // of an earlier session on the same port, which did not come for it
	class := client.Class(u.r.mss)
	var tried []string
	for range 3 {
		at, ok := pool.pick(&req, p.client.Addr(), tried, u.r.sessions)
		if !ok {
			break
		}
		name := pool.cfg.Surrogates[at].Name
		tried = append(tried, name)
		if sg := &pool.cfg.Surrogates[at]; config.Unspliced(&s.cfg.VIPs[vip], sg) != "" || u.r.legs.Local(pool.ids[at]) {
			u.proxied.put(clientKey{p.client, p.vip}, name, time.Now())
			break
		}
		wait, cancel := context.WithTimeout(ctx, legWait)
		err := u.r.legs.WaitIdle(wait, pool.ids[at], class)
		cancel()
		if u.r.current() != s {
			return false
		}
		if err != nil {
			u.log.Debug("no leg", "surrogate", name, "class", class, "err", err)
			continue
		}
		d.Surrogate = pool.ids[at]
		if err := u.release(p, d, func() {}); err != nil {
			u.log.Debug("request is not released", "client", p.client, "err", err)
			return true
		}
		u.r.metrics.Decided(p.vip, "spliced", time.Since(p.first))
		u.r.metrics.HandedOff(p.vip, name)
		return true
	}
	if len(tried) == 0 {
		u.local(p, &fallback.Verdict{Status: http.StatusServiceUnavailable, Reason: "no surrogate is up"}, "no surrogate")
		return true
	}
	u.local(p, nil, "proxied")
	return true
}

// local gives the connection to the VIP's own listener, which answers with the verdict, or proxies.
func (u *upcalls) local(p *pending, v *fallback.Verdict, outcome string) {
	if err := u.old.end(p.vip, p.client); err != nil {
		u.log.Debug("an old socket may be in the way", "err", err)
	}
	verdicts := u.r.verdicts(p.vip)
	err := u.release(p, kernel.Decision{Local: true}, func() {
		if v != nil {
			verdicts.Put(p.client, *v)
		} else {
			verdicts.Take(p.client) // of an earlier session on the same port, which did not come for it
		}
	})
	if err != nil {
		u.log.Debug("client is not given to the proxy", "client", p.client, "err", err)
		return
	}
	u.r.metrics.Decided(p.vip, outcome, time.Since(p.first))
}

// release writes the decision down and gives the packets back, in order. first is done before, but only if the kernel still asks about
// this request: the client's port may be another session's by now.
func (u *upcalls) release(p *pending, d kernel.Decision, first func()) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(p)
	if client, err := u.r.dp.Pending(p.client, p.vip); err != nil || client.Seq != p.base {
		return cmp.Or(err, kernel.ErrNoUpcall)
	}
	first()
	if err := u.r.dp.Decide(p.client, p.vip, p.base, d); err != nil {
		return err
	}
	for _, s := range p.segments {
		if err := u.tap.Write(s.frame); err != nil {
			return err
		}
	}
	return nil
}

func (u *upcalls) forget(p *pending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(p)
}

// giveUp forgets a client; what is being decided about it finds nobody. Called with the lock.
func (u *upcalls) giveUp(key clientKey) {
	if p := u.clients[key]; p != nil {
		delete(u.clients, key)
		if !p.decided {
			u.holding.end(p) // else when that has ended
		}
	}
}

// drop is forget, called with the lock.
func (u *upcalls) drop(p *pending) {
	u.holding.end(p)
	if key := (clientKey{p.client, p.vip}); u.clients[key] == p {
		delete(u.clients, key)
	}
}
