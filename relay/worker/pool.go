package worker

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/prologue"
)

// pool is a worker's trunks to one peer.
type pool struct {
	peer    *config.Peer
	sealer  *prologue.Sealer // nil: TLS
	ready   []*trunk         // the newest last
	opening int
	waiting []*split // flows without a trunk, in the order in which they came
	failed  int      // in a row
	closed  bool
	again   time.Duration // when a trunk may be opened after failures, on the worker's clock
	count   PoolCounters
}

var (
	errStale  = errors.New("the peer has closed the trunk")
	errUnused = errors.New("no flow could be put on it")
	errOld    = errors.New("it has waited long enough")
)

func newPool(p *config.Peer) *pool {
	q := &pool{peer: p}
	if p.Credentials.Security == config.Plaintext {
		q.sealer = prologue.NewSealer(p.Credentials.Secret)
	}
	return q
}

// take gives the newest trunk; nil: there is none.
func (p *pool) take(w *Worker) *trunk {
	defer p.fill(w)
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

// queue has a flow wait for the next trunk.
func (p *pool) queue(w *Worker, s *split) {
	p.waiting = append(p.waiting, s)
	p.fill(w)
}

// want is how many trunks are to be ready or on their way.
func (p *pool) want(w *Worker) int {
	return max(1, (p.peer.Ready.Min+w.o.Of-1)/w.o.Of) + len(p.waiting)
}

// fill opens trunks that are wanted.
func (p *pool) fill(w *Worker) {
	for len(p.ready)+p.opening < p.want(w) && !p.closed && w.now >= p.again {
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
	w.tune(fd)
	tuneTrunk(fd, &p.peer.Tuning)
	_ = setInt(fd, unix.SOL_TCP, unix.TCP_KEEPIDLE, max(1, int(p.peer.Ready.Probe/time.Second)))
	if errno := connect(fd, p.peer.Address); errno != 0 && errno != unix.EINPROGRESS {
		closeFD(fd)
		return errno
	}
	t := &trunk{pool: p, fd: fd}
	t.waiter.of = t
	if t.slot, errno = w.watch(fd, both, t); errno != 0 {
		closeFD(fd)
		return errno
	}
	w.await(&t.waiter, waitConnect)
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

// greeted is called when a trunk's hello is here.
func (p *pool) greeted(w *Worker, t *trunk) {
	p.opening--
	p.failed = 0
	p.count.Opened.Add(1)
	for len(p.waiting) > 0 {
		s := p.waiting[0]
		p.waiting = p.waiting[1:]
		if s.stage == stageConnecting {
			w.onto(s, t)
			return
		}
	}
	t.born = w.now
	p.ready = append(p.ready, t)
	p.count.Ready.Add(1)
}

// lost is called when a trunk without a flow is no more.
func (p *pool) lost(w *Worker, t *trunk, why error) {
	if !t.greeted {
		p.opening--
		p.failure(w, why)
		return
	}
	for i, have := range p.ready {
		if have == t {
			p.ready = append(p.ready[:i], p.ready[i+1:]...)
			p.count.Ready.Add(-1)
			p.count.Stale.Add(1)
			break
		}
	}
	p.fill(w)
}

// Backing off from a peer that cannot be reached.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

// failure waits longer each time before the next trunk is opened. Flows that wait are turned away: they have no hope.
func (p *pool) failure(w *Worker, why error) {
	p.count.Failed.Add(1)
	p.failed++
	p.again = w.now + min(lastPause, firstPause<<min(p.failed-1, 10))
	w.o.Log.Debug("no trunk", "peer", p.peer.Name, "err", why)
	if p.opening > 0 {
		return
	}
	waiting := p.waiting
	p.waiting = nil
	for _, s := range waiting {
		if s.stage == stageConnecting {
			w.turnAway(s, s.own(prologue.NoTrunk))
		}
	}
}

// look replaces old trunks, and opens those that were put off.
func (p *pool) look(w *Worker) {
	for len(p.ready) > 0 && w.now-p.ready[0].born > p.peer.Ready.Age {
		w.loseTrunk(p.ready[0], errOld)
	}
	p.fill(w)
}

// close ends all that have no flow.
func (p *pool) close(w *Worker) {
	p.closed = true
	for len(p.ready) > 0 {
		w.loseTrunk(p.ready[len(p.ready)-1], errUnused)
	}
}
