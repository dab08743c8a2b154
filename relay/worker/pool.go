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
	identity *secure.Identity   // for TLS
	ready    []*trunk           // newest last
	opening  int
	waiting  []*split // flows without a trunk, oldest first
	size     *trunks.Sizer
	closed   bool
	short    bool          // in the worker's list of pools to refill
	down     bool          // the last attempt to open a trunk failed
	why      error         // the last failure
	when     time.Duration // time of it, on the worker's clock
	rtt      time.Duration // of the last trunk's handshake
	renewed  time.Duration // on the worker's clock
	count    PoolCounters
}

var (
	errStale  = errors.New("the peer has closed the trunk")
	errUnused = errors.New("it was not needed")
	errOld    = errors.New("it was replaced")
)

// newPool creates a worker's pool of trunks to a peer.
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

// firstSetup is the assumed time to open a trunk before one was opened.
const firstSetup = 100 * time.Millisecond

// resize resets the demand that the pool has learnt.
func (p *pool) resize(workers int) {
	share := func(n int) int { return max(1, (n+workers-1)/workers) }
	p.size = trunks.NewSizer(share(p.peer.Ready.Min), share(p.peer.Ready.Max), firstSetup, rand.Float64)
}

// take returns the newest ready trunk, nil if there is none. refill replaces it after the flow was started.
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

// queue makes a flow wait for the next trunk.
func (p *pool) queue(s *split) { p.waiting = append(p.waiting, s) }

// unqueue takes back queue. It does nothing for a flow that does not wait.
func (p *pool) unqueue(s *split) {
	p.waiting = slices.DeleteFunc(p.waiting, func(other *split) bool { return other == s })
}

// refill opens trunks in place of those taken in this iteration.
func (w *Worker) refill() {
	for _, p := range w.short {
		p.short = false
		p.fill(w)
	}
	w.short = w.short[:0]
}

// fill opens as many trunks as are needed.
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

// open starts to open a trunk.
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

// tuneTrunk sets the options of trunks, on a socket before it is connected. The buffers limit the window; above the system's limit they
// need CAP_NET_ADMIN.
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

// trunkReady is called when a trunk's hello was received.
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

// lost is called when a trunk without a flow was closed.
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

// failure is called when a trunk could not be opened. Waiting flows are rejected if no other is being opened.
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

// look replaces old trunks and opens postponed ones.
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

// close closes all trunks without a flow.
func (p *pool) close(w *Worker) {
	p.closed = true
	for len(p.ready) > 0 {
		w.loseTrunk(p.ready[len(p.ready)-1], errUnused)
	}
}
