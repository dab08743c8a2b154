package router

import (
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
	"baton/router/legs"
	"baton/router/proxyheader"
	"baton/router/route"
)

// upcalls handles upcalls: packets of clients whose request the kernel did not decide.
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

// leaving is a client to be assigned to the VIP's listener.
type leaving struct {
	p       *pending
	verdict *fallback.Verdict // nil: proxy
	outcome string
}

const (
	// legWait is how long a request waits for a leg of one surrogate.
	legWait = 2 * time.Second
	// keptLegWait is the same where no proxy takes over: a SYN that is lost twice is repeated after 3 s.
	keptLegWait = 4 * time.Second
	// maxDeciding bounds the requests being decided, most of which wait for a leg. Other clients retransmit.
	maxDeciding = 4096
	// leavers is the number of goroutines that assign clients to listeners, maxLeaving the length of their queue.
	leavers    = 4
	maxLeaving = 4096
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
			u.handle(ctx, buf[:n])
		}
	}
}

func (u *upcalls) handle(ctx context.Context, b []byte) {
	frame, err := packet.Parse(b[datapath.VnetHeader:])
	if err != nil || frame.Protocol != packet.ProtocolTCP {
		return // broadcasts of neighbours
	}
	key := clientKey{frame.Src, frame.Dst}
	tcp := frame.TCP()
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.clients[key]
	bare := len(frame.Payload()) == 0
	if tcp.Flags()&packet.RST != 0 || bare && p == nil {
		// the client has given up; if it still wants an answer, it retransmits
		u.abandon(key)
		u.r.dp.ForgetClient(key.client, key.vip)
		return
	}
	client, err := u.r.dp.Pending(key.client, key.vip)
	if err != nil {
		u.abandon(key)
		return // it has reset its session; or there is another upcall
	}
	if p != nil && p.base != client.Seq {
		u.abandon(key)
		p = nil // of an earlier session on the same port: its decision fails (kernel.ErrNoUpcall)
	}
	if client.Decided && p == nil {
		// It was on its way here when the decision was made: the kernel has that. As a new client it would be decided again, and lose
		// the socket that it has by then.
		_ = u.tap.Write(b) // if it is lost, the client retransmits
		return
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
	switch keep, fits := p.accepts(came.seq, len(came.data)); {
	case !fits && !p.decided && u.r.current().encrypted(p.vip):
		u.handOver(leaving{p, nil, "proxied"})
		return
	case !fits && !p.decided:
		u.refuse(p, &head.Error{Status: http.StatusRequestHeaderFieldsTooLarge, Reason: "head is too long"})
		return
	case !keep:
		if !p.decided && ends() { // a FIN on a retransmission
			u.read(ctx, p, true)
		}
		return
	case !u.reserve(p, len(b)):
		return
	}
	own := append([]byte(nil), b...)
	s := segment{frame: own, seq: tcp.Seq(), data: own[len(own)-len(b[datapath.VnetHeader:])+frame.Data:][:len(frame.Payload())]}
	u.holding.charge(p, cap(own))
	p.add(s)
	switch {
	case p.decided:
	case client.Proxy:
		u.giveUp(p)
	default:
		u.read(ctx, p, ends())
	}
}

// giveUp has the proxy send a request that the kernel has routed, but cannot put fields into. Called with the lock.
func (u *upcalls) giveUp(p *pending) {
	p.unmarked = u.r.current().unfit(p)
	u.handOver(leaving{p, nil, p.unmarked})
}

// read starts the decision once the request's head is complete. ends: the client has sent FIN. Called with the lock.
func (u *upcalls) read(ctx context.Context, p *pending, ends bool) {
	if u.r.current().encrypted(p.vip) {
		u.readHello(ctx, p, ends)
		return
	}
	req, n, err := head.Parse(p.contiguous())
	var bad *head.Error
	switch {
	case err == nil:
		behind, malformed := bodyIn(&req, p.contiguous()[n:])
		if malformed {
			u.refuse(p, &head.Error{Status: http.StatusBadRequest, Reason: "malformed chunked body"})
			return
		}
		u.begin(p, func() {
			if behind && u.r.current().holds(p.vip) {
				u.local(p, nil, "pipelined")
			} else {
				u.decide(ctx, p, req, n)
			}
		})
	case errors.As(err, &bad):
		u.refuse(p, bad)
	case ends:
		u.refuse(p, &head.Error{Status: http.StatusBadRequest, Reason: "request ends within its head"})
	}
}

// begin decides for a client in the background. Called with the lock.
func (u *upcalls) begin(p *pending, decide func()) {
	p.decided = true
	u.holding.decided(p)
	u.deciding++
	u.wg.Go(func() {
		decide()
		u.mu.Lock()
		defer u.mu.Unlock()
		u.deciding--
	})
}

// reserve makes room for so many bytes of a client. False: there is none; the client retransmits. Called with the lock.
func (u *upcalls) reserve(p *pending, bytes int) bool {
	if !p.decided && u.deciding >= maxDeciding {
		return false
	}
	for {
		victim, ok := u.holding.victim(bytes)
		if victim == nil {
			return ok
		}
		u.drop(victim)
		u.r.dp.ForgetClient(victim.client, victim.vip) // it may start again
		if victim == p {
			return false
		}
	}
}

// stalledHead is the length of a partial head, in bytes, from which its rest may be lost, or not sent: nothing is acknowledged before the
// decision, so that a client repeats its first segment alone, or has exhausted its initial window. It is below that of a full segment.
const stalledHead = 1 << 10

// expire refuses heads that trickle in (408), and hands those that are stalled over to the proxy, whose socket acknowledges them.
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
				case p.unmarked != "":
					u.handOver(leaving{p, nil, p.unmarked})
				case u.r.current().encrypted(p.vip):
					if now.Sub(p.first) > u.r.current().helloWait(p.vip) { // in place of what the queue had no room for
						u.handOver(leaving{p, nil, "proxied"})
					}
				case p.bad != nil:
					u.refuse(p, p.bad)
				case now.Sub(p.first) > wait:
					u.refuse(p, &head.Error{Status: http.StatusRequestTimeout, Reason: "request did not arrive in time"})
				case p.bytes > stalledHead && p.bytes == p.looked:
					u.handOver(leaving{p, nil, "proxied"})
				}
				p.looked = p.bytes
			}
			u.mu.Unlock()
			u.proxied.expire(now)
		}
	}
}

// refuse lets the router's own server answer. Called with the lock.
func (u *upcalls) refuse(p *pending, why *head.Error) {
	p.bad = why
	u.handOver(leaving{p, &fallback.Verdict{Status: why.Status, Reason: why.Reason}, "refused"})
}

// handOver queues a client for its listener. If the queue is full, it is retried after a second. Called with the lock.
func (u *upcalls) handOver(l leaving) {
	select {
	case u.leaving <- l:
		l.p.decided = true
		u.holding.decided(l.p)
	default:
	}
}

// leave assigns clients to their listeners.
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

// bodyIn reports whether the bytes after a request's head extend beyond its body, and whether the body is malformed.
func bodyIn(req *head.Request, b []byte) (behind, malformed bool) {
	if req.ContentLength < 0 {
		n, bad := fallback.ChunkedEnd(b)
		return n > 0, bad
	}
	return int64(len(b)) > req.ContentLength, false
}

// decide chooses a surrogate and splices the client to it, or leaves it to the proxy.
func (u *upcalls) decide(ctx context.Context, p *pending, req head.Request, headBytes int) {
	for !u.decideBy(ctx, u.r.current(), p, req, headBytes) {
	}
}

// decideBy decides by one state. False: another is in force now.
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
	if outcome := s.unfitAt(vip, &match, p, &req, headBytes); outcome != "" {
		u.local(p, nil, outcome)
		return true
	}
	d := kernel.Decision{Pool: pool.id, Method: route.MethodID(req.Method), Bound: req.Bound, Upgrade: req.Upgrade}
	d.Edit = pool.edit(match.Rewrite)
	d.Chunked = req.ContentLength < 0
	d.Request = uint64(headBytes) + uint64(max(req.ContentLength, 0))
	name, ok := req.Fields.Get("Host")
	if !ok {
		name = req.Host
	}
	return u.splice(ctx, s, p, &wanted{vip: vip, pool: pool, ask: pool.asks(&req, p.client.Addr()), decision: d, name: name, head: headBytes})
}

// wanted is a leg to a surrogate of a pool.
type wanted struct {
	vip      int // index
	pool     *poolState
	ask      asked
	decision kernel.Decision // without the surrogate
	name     []byte          // for the access log: the host or server name as sent
	sent     string          // for the header of the PROXY protocol: the server name as sent
	head     int             // length of the request's head
}

// splice splices a client to a surrogate, or leaves it to the proxy. False: another state is in force now.
func (u *upcalls) splice(ctx context.Context, s *state, p *pending, w *wanted) bool {
	pool, d := w.pool, w.decision
	client, err := u.r.dp.Pending(p.client, p.vip)
	if err != nil { // it expired, or a repeated SYN replaced it
		u.forget(p)
		return true
	}
	u.proxied.pop(clientKey{p.client, p.vip}) // left by an earlier session on the same port
	class := client.Class(u.r.mss)
	var tried []string
	bypass := ""
	for range 3 {
		at, instead, ok := u.r.pick(pool, &w.ask, tried, byHandoff, u.r.sessions)
		if bypass = instead; !ok {
			break
		}
		name := pool.cfg.Surrogates[at].Name
		tried = append(tried, name)
		if sg := &pool.cfg.Surrogates[at]; config.Unspliced(&s.cfg.VIPs[w.vip], sg) != "" || u.r.legs.Local(pool.ids[at]) {
			u.proxied.add(clientKey{p.client, p.vip}, name, time.Now())
			break
		}
		patience := legWait
		if pool.cfg.Keeps() {
			patience = keptLegWait
		}
		wait, cancel := context.WithTimeout(ctx, patience)
		d.Surrogate = pool.ids[at]
		if pool.cfg.Keeps() {
			var k legs.KeptLeg
			k, err = u.r.legs.WaitKept(wait, d.Surrogate, class, p.client, p.vip)
			d.Surrogate, d.Leg, d.Keep = k.Surrogate, k.Number, k.Waits
		} else {
			err = u.r.legs.WaitIdle(wait, d.Surrogate, class)
		}
		cancel()
		if u.r.current() != s {
			return false
		}
		if err != nil {
			u.log.Debug("no leg", "surrogate", name, "class", class, "err", err)
			continue
		}
		if err := u.release(p, d, func() {
			if w.sent != "" && proxyheader.Of(pool.cfg) == proxyheader.V2 {
				u.r.dp.KeepName(p.client, p.vip, w.sent)
			}
			if s.logs(w.vip) {
				u.r.dp.KeepHead(p.client, p.vip, w.name, p.contiguous()[:w.head])
			}
		}); err != nil {
			u.log.Debug("cannot replay request", "client", p.client, "err", err)
			return true
		}
		u.r.metrics.Decided(p.vip, "spliced", time.Since(p.first))
		u.r.metrics.HandedOff(p.vip, name)
		return true
	}
	if len(tried) == 0 {
		u.noSurrogate(p, bypass)
		return true
	}
	u.local(p, nil, "proxied")
	return true
}

// local assigns the connection to the VIP's listener, which answers with the verdict, or proxies.
func (u *upcalls) local(p *pending, v *fallback.Verdict, outcome string) {
	if !u.waits(p) {
		u.forget(p)
		return
	}
	if err := u.old.end(p.vip, p.client); err != nil {
		u.log.Debug("cannot remove old socket", "err", err)
	}
	verdicts := u.r.verdicts(p.vip)
	err := u.release(p, kernel.Decision{Local: true}, func() {
		if v != nil {
			verdicts.Put(p.client, *v)
		} else {
			verdicts.Take(p.client) // left by an earlier session on the same port
		}
	})
	if err != nil {
		u.log.Debug("cannot hand client over to the proxy", "client", p.client, "err", err)
		return
	}
	u.r.metrics.Decided(p.vip, outcome, time.Since(p.first))
}

// waits reports whether the kernel waits for the decision on this request: else another session uses the client's port, or its decision
// was made.
func (u *upcalls) waits(p *pending) bool {
	client, err := u.r.dp.Pending(p.client, p.vip)
	return err == nil && client.Seq == p.base && !client.Decided
}

// release records the decision and replays the packets in order. It calls first before that, but only if the kernel still waits
// for this decision: another session may use the client's port by now.
func (u *upcalls) release(p *pending, d kernel.Decision, first func()) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(p)
	if !u.waits(p) {
		return kernel.ErrNoUpcall
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

// abandon forgets a client; its pending decision will fail. Called with the lock.
func (u *upcalls) abandon(key clientKey) {
	if p := u.clients[key]; p != nil {
		delete(u.clients, key)
		if !p.decided {
			u.holding.end(p) // else after the decision
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
