package reactive

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"baton/api"
)

// PoolOptions configure a pool. Zero fields have defaults.
type PoolOptions struct {
	Size   int           // idle legs to each surrogate. Default: 8
	MaxAge time.Duration // of an idle leg; below the time after which surrogates close connections without a request. Default: 30 s
	Local  netip.Addr    // from which legs are opened; the zero address: the host's choice
	Dial   time.Duration // Default: 3 s
	Log    *slog.Logger
	// Connect opens a leg; nil is a dialer that uses local ports in turn. The connection is a [*net.TCPConn].
	Connect func(ctx context.Context, network, address string) (net.Conn, error)
}

// Pool keeps idle legs to the surrogates.
type Pool struct {
	o   PoolOptions
	ctx context.Context
	end context.CancelFunc
	run sync.WaitGroup

	mu         sync.Mutex
	surrogates map[netip.AddrPort]*supply
	legs       map[api.RouterLeg]*leg
	opened     uint64
	failed     uint64
}

// supply keeps the legs to one surrogate.
type supply struct {
	name   string
	idle   int
	wanted chan struct{}
	stop   context.CancelFunc
}

// leg is an idle leg. Its goroutine reads, so that its end is noticed.
type leg struct {
	*net.TCPConn
	key   api.RouterLeg
	taken bool
	done  chan struct{} // closed: the goroutine has ended
}

// NewPool returns a pool without surrogates; Close ends it.
func NewPool(o PoolOptions) *Pool {
	if o.Size <= 0 {
		o.Size = 8
	}
	if o.MaxAge <= 0 {
		o.MaxAge = 30 * time.Second
	}
	if o.Dial <= 0 {
		o.Dial = 3 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Connect == nil {
		o.Connect = newDialer(o.Local).Connect
	}
	p := &Pool{o: o, surrogates: map[netip.AddrPort]*supply{}, legs: map[api.RouterLeg]*leg{}}
	p.ctx, p.end = context.WithCancel(context.Background())
	return p
}

// Close closes the idle legs.
func (p *Pool) Close() {
	p.end()
	p.mu.Lock()
	for _, l := range p.legs {
		l.Close()
	}
	p.mu.Unlock()
	p.run.Wait()
}

// Set replaces the surrogates. Legs of those that stay stay.
func (p *Pool) Set(list []api.ControllerSurrogate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	want := map[netip.AddrPort]bool{}
	for _, s := range list {
		want[s.Address] = true
		if p.surrogates[s.Address] != nil {
			continue
		}
		ctx, stop := context.WithCancel(p.ctx)
		n := &supply{name: s.Name, wanted: make(chan struct{}, 1), stop: stop}
		p.surrogates[s.Address] = n
		p.run.Go(func() { p.fill(ctx, s.Address, n) })
	}
	for at, s := range p.surrogates {
		if !want[at] {
			s.stop()
			delete(p.surrogates, at)
		}
	}
	for key, l := range p.legs {
		if !want[key.Remote] {
			l.Close()
		}
	}
}

// Renew replaces all idle legs: a controller knows only those whose beginning it has seen.
func (p *Pool) Renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, l := range p.legs {
		delete(p.legs, key)
		l.Close()
	}
}

// The pauses between attempts to open a leg to a surrogate that refuses.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// fill keeps the supply of a surrogate.
func (p *Pool) fill(ctx context.Context, to netip.AddrPort, n *supply) {
	pause := firstPause
	for ctx.Err() == nil {
		p.mu.Lock()
		missing := p.o.Size - n.idle
		p.mu.Unlock()
		if missing <= 0 {
			select {
			case <-n.wanted:
			case <-ctx.Done():
			}
			continue
		}
		if err := p.open(ctx, to, n); err != nil && ctx.Err() == nil {
			if pause == firstPause {
				p.o.Log.Warn("cannot open a leg", "surrogate", n.name, "err", err)
			}
			p.mu.Lock()
			p.failed++
			p.mu.Unlock()
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			pause = min(2*pause, longestPause)
			continue
		}
		pause = firstPause
	}
}

func (p *Pool) open(ctx context.Context, to netip.AddrPort, n *supply) error {
	dialing, cancel := context.WithTimeout(ctx, p.o.Dial)
	defer cancel()
	c, err := p.o.Connect(dialing, "tcp", to.String())
	if err != nil {
		return err
	}
	conn := c.(*net.TCPConn)
	l := &leg{TCPConn: conn, key: api.RouterLeg{Local: addressOf(conn.LocalAddr()), Remote: to}, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		conn.Close()
		return ctx.Err()
	}
	_ = l.SetReadDeadline(time.Now().Add(p.o.MaxAge)) // before Take can set another
	p.legs[l.key] = l
	n.idle++
	p.opened++
	p.run.Go(func() { p.watch(l, n) })
	return nil
}

// watch is an idle leg until it is taken, too old, or closed by the surrogate.
func (p *Pool) watch(l *leg, n *supply) {
	defer close(l.done)
	var b [1]byte
	_, _ = l.Read(b[:]) // an idle leg has nothing to say: whatever this returns, the leg is idle no more
	p.mu.Lock()
	defer p.mu.Unlock()
	if !l.taken {
		delete(p.legs, l.key)
		l.Close()
	}
	n.idle--
	select {
	case n.wanted <- struct{}{}:
	default:
	}
}

// Take returns an idle leg, which is the caller's from then on. False: the pool has it no more.
func (p *Pool) Take(key api.RouterLeg) (*net.TCPConn, bool) {
	p.mu.Lock()
	l := p.legs[key]
	if l == nil {
		p.mu.Unlock()
		return nil, false
	}
	delete(p.legs, key)
	l.taken = true
	p.mu.Unlock()
	_ = l.SetReadDeadline(time.Unix(1, 0))
	<-l.done
	_ = l.SetReadDeadline(time.Time{})
	return l.TCPConn, true
}

// Idle is the number of idle legs.
func (p *Pool) Idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.legs)
}

func addressOf(a net.Addr) netip.AddrPort {
	t := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(t.Addr().Unmap(), t.Port())
}
