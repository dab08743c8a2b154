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

	mu      sync.Mutex
	clients map[clientKey]*pending
	wg      sync.WaitGroup

	old timeWaits
}

type clientKey struct{ client, vip netip.AddrPort }

// legWait bounds the time that a request waits for a leg of one surrogate.
const legWait = 2 * time.Second

func (a *asker) run(ctx context.Context) error {
	defer a.old.close()
	a.wg.Go(func() { a.expire(ctx) })
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
		delete(a.clients, key)
		a.r.dp.ForgetClient(key.client, key.vip)
		return
	}
	asked, err := a.r.dp.Pending(key.client, key.vip)
	if err != nil {
		delete(a.clients, key)
		return // it has reset its session; if not, it is asked about again
	}
	if p != nil && p.base != asked.Seq {
		p = nil // of an earlier session on the same port: a decision about that finds nobody (datapath.ErrNotAsked)
	}
	if p == nil {
		if len(a.clients) >= a.r.current().cfg.Limits.Pending {
			return
		}
		p = &pending{client: key.client, vip: key.vip, base: asked.Seq, first: time.Now()}
		a.clients[key] = p
	}
	own := append([]byte(nil), b...)
	s := segment{frame: own, seq: tcp.Seq(), data: own[len(own)-len(b[datapath.VnetHeader:])+frame.Data:][:len(frame.Payload())]}
	fits := p.add(s)
	if p.decided {
		return
	}
	if !fits {
		a.refuse(ctx, p, &head.Error{Status: http.StatusRequestHeaderFieldsTooLarge, Reason: "head is too long"})
		return
	}
	req, n, err := head.Parse(p.contiguous())
	var bad *head.Error
	switch {
	case err == nil:
		p.decided = true
		a.wg.Go(func() { a.decide(ctx, p, req, n) })
	case errors.As(err, &bad):
		a.refuse(ctx, p, bad)
	case tcp.Flags().Has(packet.FIN) && p.ends(s):
		a.refuse(ctx, p, &head.Error{Status: http.StatusBadRequest, Reason: "request ends within its head"})
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
				case now.Sub(p.first) > wait:
					a.refuse(ctx, p, &head.Error{Status: http.StatusRequestTimeout, Reason: "request did not arrive in time"})
				case p.bytes > stalledHead && p.bytes == p.looked:
					p.decided = true
					a.wg.Go(func() { a.local(p, nil, "proxied") })
				}
				p.looked = p.bytes
			}
			a.mu.Unlock()
			a.proxied.expire(now)
		}
	}
}

// refuse has the router's own server answer. Called with the lock.
func (a *asker) refuse(ctx context.Context, p *pending, why *head.Error) {
	p.decided = true
	a.wg.Go(func() { a.local(p, &fallback.Verdict{Status: why.Status, Reason: why.Reason}, "refused") })
}

// decide finds a surrogate and has the client spliced to it, or leaves it to the proxy.
func (a *asker) decide(ctx context.Context, p *pending, req head.Request, headBytes int) {
	s := a.r.current()
	vip, ok := s.byAddr[p.vip]
	if !ok {
		a.forget(p)
		return
	}
	match, ok := s.routes.Match(vip, &req)
	if !ok {
		a.local(p, &fallback.Verdict{Status: http.StatusNotFound, Reason: "no route matches the request"}, "no route")
		return
	}
	d := datapath.Decision{Pool: uint16(match.Pool), Method: route.MethodID(req.Method), Request: datapath.NoLength}
	if !req.Upgrade {
		d.Chunked = req.ContentLength < 0
		d.Request = uint64(headBytes) + uint64(max(req.ContentLength, 0))
	}
	client, err := a.r.dp.Pending(p.client, p.vip)
	if err != nil { // it expired, or a repeated SYN took its place
		a.forget(p)
		return
	}
	a.proxied.take(clientKey{p.client, p.vip}) // of an earlier session on the same port, which did not come for it
	class := client.Class(a.r.mss)
	pool := s.pools[match.Pool]
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
		if err != nil {
			a.log.Debug("no leg", "surrogate", name, "class", class, "err", err)
			continue
		}
		d.Surrogate = pool.ids[at]
		if err := a.release(p, d, func() {}); err != nil {
			a.log.Debug("request is not released", "client", p.client, "err", err)
			return
		}
		a.r.metrics.Decided(p.vip, "spliced", time.Since(p.first))
		a.r.metrics.HandedOff(p.vip, name)
		return
	}
	if len(tried) == 0 {
		a.local(p, &fallback.Verdict{Status: http.StatusServiceUnavailable, Reason: "no surrogate is up"}, "no surrogate")
		return
	}
	a.local(p, nil, "proxied")
}

// local gives the connection to the VIP's own listener, which answers with the verdict, or proxies.
func (a *asker) local(p *pending, v *fallback.Verdict, outcome string) {
	if err := a.old.end(p.vip, p.client); err != nil {
		a.log.Debug("an old socket may be in the way", "err", err)
	}
	verdicts := a.r.verdicts(p.vip)
	err := a.release(p, datapath.Decision{Local: true}, func() {
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
func (a *asker) release(p *pending, d datapath.Decision, first func()) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(p)
	if asked, err := a.r.dp.Pending(p.client, p.vip); err != nil || asked.Seq != p.base {
		return cmp.Or(err, datapath.ErrNotAsked)
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

// drop is forget, called with the lock.
func (a *asker) drop(p *pending) {
	if key := (clientKey{p.client, p.vip}); a.clients[key] == p {
		delete(a.clients, key)
	}
}
