package upcall

import (
	"context"
	"errors"
	"net/http"
	"time"

	"baton/datapath"
	kernel "baton/datapath/router"
	"baton/packet"
	"baton/packet/hello"
	"baton/router/config"
	"baton/router/fallback"
	"baton/router/head"
	"baton/router/outcome"
	"baton/router/state"
)

// arrival is a packet that has come up, before any of it is kept.
type arrival struct {
	key   clientKey
	frame []byte // with its virtio-net header; the reader's buffer
	at    int    // where the payload begins in frame
	flags packet.Flags
	ack   packet.Seq
	segment
}

// receive takes a packet of a client.
func (d *Decider) receive(ctx context.Context, frame []byte) {
	f, err := packet.Parse(frame[datapath.VnetHeader:])
	if err != nil || f.Protocol != packet.ProtocolTCP {
		return // broadcasts of neighbours
	}
	tcp := f.TCP()
	a := &arrival{
		key: clientKey{f.Src, f.Dst}, frame: frame, at: datapath.VnetHeader + f.Data, flags: tcp.Flags(), ack: tcp.Ack(),
		segment: segment{seq: tcp.Seq(), data: f.Payload()},
	}
	s := d.o.Snapshot() // the packet is only judged by this one
	d.mu.Lock()
	defer d.mu.Unlock()
	p, client := d.findClientLocked(s, a)
	if p == nil || !d.keepLocked(ctx, s, p, a) {
		return
	}
	switch {
	case p.decided:
	case client.Proxy:
		d.giveUpLocked(s, p)
	default:
		d.readLocked(ctx, s, p, a.flags.Has(packet.FIN) && p.isWholeWith(&a.segment))
	}
}

// findClientLocked returns the client that a packet is of, a new one if need be; nil, there is nothing to decide.
func (d *Decider) findClientLocked(s *state.Snapshot, a *arrival) (*pending, kernel.Pending) {
	client, err := d.o.Kernel.Pending(a.key.client, a.key.vip)
	if err != nil {
		d.abandonLocked(a.key)
		if d.replayed.isBehind(a, time.Now()) {
			d.sendBack(a) // the decision has been used
		}
		return nil, client // else the client has reset its session
	}
	if !a.isOf(&client) {
		return nil, client // of an earlier connection on the same port, and not missed
	}
	p := d.clients[a.key]
	if p != nil && (p.base != client.Seq || p.ack != client.Ack) {
		d.abandonLocked(a.key)
		p = nil // of an earlier connection on the same port: its decision fails (kernel.ErrNoUpcall)
	}
	switch {
	case client.Decided && p == nil:
		// It was on its way here when the decision was made: the kernel has that. As a new client it would be decided again, and lose
		// the socket that it has by then.
		d.sendBack(a)
	case a.flags.Has(packet.RST):
		if p.expectsReset(client.Seq, a.seq) {
			d.giveUpClientLocked(a.key, client.Seq)
		}
		return nil, client
	case len(a.data) == 0 && p == nil:
		d.giveUpClientLocked(a.key, client.Seq) // if it still wants an answer, it retransmits
	case p == nil && len(d.clients) < s.Config.Limits.Pending:
		p = &pending{client: a.key.client, vip: a.key.vip, base: client.Seq, ack: client.Ack, first: time.Now()}
		d.clients[a.key] = p
		d.holding.begin(p)
	}
	return p, client
}

// sendBack gives a packet to the kernel again, behind what was replayed. Without a session the kernel drops it.
func (d *Decider) sendBack(a *arrival) {
	_ = d.o.Tap.Write(a.frame) // if it is lost, the client retransmits
}

// isOf reports whether a packet is of the connection that the kernel keeps a client of. Numbers of connections
// between the same ports may be near each other, and so may the router's: what tells them apart is the exact number
// that the first packets acknowledge, and for later ones that they acknowledge no less.
func (a *arrival) isOf(client *kernel.Pending) bool {
	switch {
	case !a.flags.Has(packet.ACK): // an RST
		return true
	case client.First:
		return a.ack == client.Ack
	}
	// a next request, whose packets may acknowledge more and more of the responses before
	return a.ack.Sub(client.Ack) <= maxPendingBytes
}

// giveUpClientLocked forgets a client that has given up.
func (d *Decider) giveUpClientLocked(key clientKey, seq packet.Seq) {
	d.abandonLocked(key)
	d.o.Kernel.ForgetUpcall(key.client, key.vip, seq)
}

// keepLocked keeps a packet of a client. False: it is not kept; the client may be on its way to a socket, or
// repeats it.
func (d *Decider) keepLocked(ctx context.Context, s *state.Snapshot, p *pending, a *arrival) bool {
	keep, fits := p.accepts(a.seq, len(a.data))
	switch {
	case !fits && !p.decided:
		// Whether it is refused must not depend on how the client has cut it: the socket reads all of it.
		d.departLocked(departure{p, nil, outcome.Proxied})
		return false
	case !keep:
		if !p.decided && a.flags.Has(packet.FIN) && p.isWholeWith(&a.segment) { // a FIN on a retransmission
			d.readLocked(ctx, s, p, true)
		}
		return false
	case !d.reserveLocked(p, len(a.frame)):
		return false
	}
	own := append([]byte(nil), a.frame...)
	d.holding.charge(p, cap(own))
	p.add(segment{frame: own, seq: a.seq, data: own[a.at : a.at+len(a.data)]})
	return true
}

// reserveLocked makes room for so many bytes of a client. False: there is none; the client retransmits.
func (d *Decider) reserveLocked(p *pending, bytes int) bool {
	if !p.decided && d.deciding >= maxDeciding {
		return false
	}
	for {
		victim, ok := d.holding.victim(bytes)
		if victim == nil {
			return ok
		}
		d.forgetLocked(victim)
		d.o.Kernel.ForgetUpcall(victim.client, victim.vip, victim.base) // it may start again
		if victim == p {
			return false
		}
	}
}

// giveUpLocked has the proxy send a request that the kernel has routed, but cannot put fields into.
func (d *Decider) giveUpLocked(s *state.Snapshot, p *pending) {
	p.givenUp = outcome.NotInsertable
	if vip, ok := s.VIPs[p.vip]; ok {
		p.givenUp = s.UnfitForKernel(vip, p.contiguous(), p.firstBytes())
	}
	d.departLocked(departure{p, nil, p.givenUp})
}

// readLocked starts the decision once the request's head is whole. ended: the client has sent FIN.
func (d *Decider) readLocked(ctx context.Context, s *state.Snapshot, p *pending, ended bool) {
	if isEncrypted(s, p) {
		d.readHelloLocked(ctx, s, p, ended)
		return
	}
	req, n, err := head.Parse(p.contiguous())
	var bad *head.Error
	switch {
	case err == nil:
		more, malformed := hasMore(&req, p.contiguous()[n:])
		if malformed {
			d.refuseLocked(p, &head.Error{Status: http.StatusBadRequest, Reason: "malformed chunked body"})
			return
		}
		d.decideLocked(p, func() {
			if v := s.VIP(p.vip); more && v != nil && v.Pipelining == config.PipeliningHold {
				d.assignToSocket(departure{p, nil, outcome.Pipelined})
			} else {
				d.decideRequest(ctx, s, p, &req, n)
			}
		})
	case errors.As(err, &bad):
		d.refuseLocked(p, bad)
	case ended:
		d.refuseLocked(p, &head.Error{Status: http.StatusBadRequest, Reason: "request ends within its head"})
	default:
		d.waitForMoreLocked(s, p)
	}
}

// How long a client may be silent in the middle of its head or hello, of which nothing is acknowledged: then it may
// wait for an ACK itself (Nagle's algorithm, a window of ten segments however small), and a socket takes over, which
// acknowledges.
const (
	silence = 50 * time.Millisecond
	// keptSilence is where that socket cannot help: it would refuse clients of a VIP with pools that keep clients'
	// addresses, and there is none before the first segment. It is enough for what was lost to come again.
	keptSilence = 1500 * time.Millisecond
)

// waitForMoreLocked gives a client a while to send more of its head or hello.
func (d *Decider) waitForMoreLocked(s *state.Snapshot, p *pending) {
	if !d.stopped {
		p.startTimer(patienceWith(s, p), func() { d.proxySilent(p) })
	}
}

// patienceWith is how long a client may be silent.
func patienceWith(s *state.Snapshot, p *pending) time.Duration {
	if v := s.VIP(p.vip); p.firstBytes() == 0 || v != nil && s.Keeps(v) {
		return keptSilence
	}
	return silence
}

// proxySilent leaves a client to the proxy that has sent nothing more since its timer was started.
func (d *Decider) proxySilent(p *pending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped && d.clients[p.key()] == p && !p.decided && p.isSilent() {
		d.departLocked(departure{p, nil, outcome.Stalled})
	}
}

// hasMore reports whether the bytes after a request's head extend beyond its body, and whether the body is malformed.
func hasMore(req *head.Request, b []byte) (more, malformed bool) {
	if req.ContentLength < 0 {
		n, bad := fallback.ChunkedEnd(b)
		return n > 0, bad
	}
	return int64(len(b)) > req.ContentLength, false
}

// readHelloLocked starts the decision once a hello is whole. What is refused goes to the VIP's socket too, which reads it again and
// answers. ended: the client has sent FIN.
func (d *Decider) readHelloLocked(ctx context.Context, s *state.Snapshot, p *pending, ended bool) {
	h, err := hello.Read(p.contiguous())
	switch {
	case err == nil:
		d.decideLocked(p, func() { d.decideHello(ctx, s, p, &h) })
	case !errors.Is(err, hello.ErrIncomplete) || ended:
		d.departLocked(departure{p, nil, outcome.Refused})
	default:
		d.waitForMoreLocked(s, p)
	}
}

// isEncrypted reports whether a client's session is routed by its hello.
func isEncrypted(s *state.Snapshot, p *pending) bool {
	v := s.VIP(p.vip)
	return v != nil && v.Protocol.Encrypted()
}
