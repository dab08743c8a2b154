package worker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/secure"
	"baton/relay/trunkproto"
	"baton/relay/trunks"
)

// pool is a worker's trunks to one peer.
type pool struct {
	peer     *config.Peer
	sealer   *trunkproto.Sealer // nil: TLS
	identity *secure.Identity   // of TLS
	ready    []*trunk           // the newest last
	opening  int
	waiting  []*split // flows without a trunk, in the order in which they came
	size     *trunks.Sizer
	closed   bool
	short    bool          // it is among the worker's that are
	down     bool          // the last attempt to open a trunk has failed
	why      error         // the last one that did
	when     time.Duration // that was, on the worker's clock
	rtt      time.Duration // of the last trunk's handshake
	renewed  time.Duration // on the worker's clock
	count    PoolCounters
}

var (
	errStale  = errors.New("the peer has closed the trunk")
	errUnused = errors.New("no flow could be put on it")
	errOld    = errors.New("it has waited long enough")
)

// newPool makes the pool of one of so many workers.
func newPool(p *config.Peer, o *Options) (*pool, error) {
	q := &pool{peer: p}
	q.resize(o.Of)
	if p.Credentials.Security == config.Plaintext {
		q.sealer = trunkproto.NewSealer(p.Credentials.Secret)
		return q, nil
	}
	var err error
	if q.identity, err = o.Identities.Of(&p.Credentials); err != nil {
		return nil, fmt.Errorf("peer %s: %w", p.Name, err)
	}
	return q, nil
}

// firstSetup is what opening a trunk is thought to take before one was.
const firstSetup = 100 * time.Millisecond

// resize has the pool forget what it has learnt of how many trunks are wanted.
func (p *pool) resize(workers int) {
	share := func(n int) int { return max(1, (n+workers-1)/workers) }
	p.size = trunks.NewSizer(share(p.peer.Ready.Min), share(p.peer.Ready.Max), firstSetup, rand.Float64)
}

// take gives the newest trunk; nil: there is none. Another one is opened when the flow has been put on it: see refill.
func (p *pool) take(w *Worker) *trunk {
	p.size.Took(w.now)
	if !p.short {
		p.short = true
		w.short = append(w.short, p)
	}
	k := len(p.ready)
	if k == 0 {
		p.count.Missed.Add(1)
		return nil
	}
	t := p.ready[k-1]
	p.ready = p.ready[:k-1]
	p.count.Ready.Add(-1)
	p.count.Taken.Add(1)
	return t
}

// queue has a flow for which take had none wait for the next trunk.
func (p *pool) queue(s *split) { p.waiting = append(p.waiting, s) }

// refill opens trunks in place of those that flows have taken in this turn.
func (w *Worker) refill() {
	for _, p := range w.short {
		p.short = false
		p.fill(w)
	}
	w.short = w.short[:0]
}

// fill opens trunks that are wanted.
func (p *pool) fill(w *Worker) {
	if p.closed {
		return
	}
	for range p.size.Open(w.now, len(p.ready)-len(p.waiting), p.opening) {
		if err := p.open(w); err != nil {
			p.failure(w, err)
			return
		}
	}
}

// open begins a trunk.
func (p *pool) open(w *Worker) error {
	fd, errno := newSocket(p.peer.Address.Addr())
	if errno != 0 {
		return errno
	}
	tune(fd)
	keepAlive(fd, p.peer.Ready.Probe)
	tuneTrunk(fd, &p.peer.Tuning)
	if errno := connect(fd, p.peer.Address); errno != 0 && errno != unix.EINPROGRESS {
		closeFD(fd)
		return errno
	}
	t := &trunk{pool: p, line: line{fd: fd}, begun: w.now}
	t.waiter.of = t
	if t.slot, errno = w.watch(fd, both, t); errno != 0 {
		closeFD(fd)
		return errno
	}
	if p.identity != nil {
		t.tls = p.identity.Open(p.peer.Name, &w.buffers)
	}
	w.startWait(&t.waiter, waitConnect)
	p.opening++
	return nil
}

// tuneTrunk sets what trunks alone have, on a socket that is not connected yet. The buffers are the window: beyond what the system
// allows, they need CAP_NET_ADMIN.
func tuneTrunk(fd int32, t *config.Tuning) {
	if t.Buffer > 0 {
		if setInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, t.Buffer) != 0 {
			_ = setInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, t.Buffer)
		}
		if setInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, t.Buffer) != 0 {
			_ = setInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, t.Buffer)
		}
	}
	if t.Congestion != "" {
		_ = setText(fd, unix.SOL_TCP, unix.TCP_CONGESTION, t.Congestion)
	}
}

// trunkReady is called when a trunk's hello is here.
func (p *pool) trunkReady(w *Worker, t *trunk) {
	p.opening--
	p.size.Opened(w.now, w.now-t.begun)
	p.down = false
	p.rtt = roundTrip(t.fd)
	p.count.Opened.Add(1)
	for len(p.waiting) > 0 {
		s := p.waiting[0]
		p.waiting = p.waiting[1:]
		if s.stage == stageConnecting {
			w.onto(s, t)
			return
		}
	}
	if p.closed {
		w.loseTrunk(t, errUnused)
		return
	}
	t.born = w.now
	p.ready = append(p.ready, t)
	p.count.Ready.Add(1)
}

// lost is called when a trunk without a flow is no more.
func (p *pool) lost(w *Worker, t *trunk, why error) {
	if !t.hasHello {
		p.opening--
		p.failure(w, why)
		return
	}
	if errors.Is(why, errStale) {
		p.count.Stale.Add(1)
		p.size.Lost(w.now, w.now-t.born)
	}
	for i, have := range p.ready {
		if have == t {
			p.ready = append(p.ready[:i], p.ready[i+1:]...)
			p.count.Ready.Add(-1)
			break
		}
	}
	p.fill(w)
}

// failure is called when a trunk could not be opened. Flows that wait are turned away when none is on its way: they have no hope.
func (p *pool) failure(w *Worker, why error) {
	p.count.Failed.Add(1)
	p.size.Failed(w.now)
	p.down, p.why, p.when = true, why, w.now
	w.o.Log.Debug("no trunk", "peer", p.peer.Name, "err", why)
	if p.opening > 0 {
		return
	}
	waiting := p.waiting
	p.waiting = nil
	for _, s := range waiting {
		if s.stage == stageConnecting {
			w.reject(s, s.answer(trunkproto.NoTrunk))
		}
	}
}

// look replaces old trunks, and opens those that were put off.
func (p *pool) look(w *Worker) {
	p.waiting = slices.DeleteFunc(p.waiting, func(s *split) bool { return s.stage != stageConnecting })
	surplus := p.size.Close(w.now, len(p.ready))
	for len(p.ready) > 0 && (surplus > 0 || w.now-p.ready[0].born > p.peer.Ready.Age) {
		surplus--
		w.loseTrunk(p.ready[0], errOld)
	}
	p.renew(w)
	p.fill(w)
}

// close ends all that have no flow.
func (p *pool) close(w *Worker) {
	p.closed = true
	for len(p.ready) > 0 {
		w.loseTrunk(p.ready[len(p.ready)-1], errUnused)
	}
}
