package worker

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/secure"
)

// Options make a Worker.
type Options struct {
	Index int // from 0, of Of workers
	Of    int
	Log   *slog.Logger
	// SYNs is the source of SYNs, and Settle receives the decisions; it must not block. nil: flows start when they are accepted.
	SYNs   *SYNs
	Settle func(SYN, Settlement)
	// Listeners is told of this worker's that intercept. nil: nobody is.
	Listeners *Listeners
	// Measured receives what trunks learnt about their paths; it must not block. May be nil.
	Measured func(Measurement)
	// Outgrown returns when the initial window of trunks to a peer, or from an address, last doubled: older trunks are replaced. Zero:
	// never. nil: the system's windows are used.
	Outgrown func(peer string, from netip.Addr) time.Time
	Mark     uint32 // of sockets with a client's address (SO_MARK); 0: none
	// Identities are those of TLS trunks, shared by all workers and loaded by the owner. nil: the worker has its own.
	Identities *secure.Identities
	// Routes are those of entries with via: auto. nil: the worker has its own, which are empty.
	Routes *Routes
	// LookUp returns the addresses of a name, the best first. nil: the system's resolver.
	LookUp func(ctx context.Context, name string) ([]netip.Addr, error)
}

// Worker is an event loop with its flows.
type Worker struct {
	o              Options
	cfg            *config.Config // in force; replaced by a reload
	epoll          int32
	inbox          inbox
	slots          []slot
	unused         []uint32 // free slots
	now            time.Duration
	start          time.Time // origin of now
	entries        []*entry
	tallies        map[string]*tally // of entries, by name
	trunked        tally             // flows that came by trunks
	trunkListeners []*trunkListener
	idle           map[*handshake]struct{} // trunks of other relays without a flow
	idlePerPrefix  map[netip.Prefix]int    // their number per source prefix
	pools          map[string]*pool        // by the peer's name
	short          []*pool                 // pools with trunks taken in this iteration
	early          map[synKey]*split       // flows whose clients are not accepted yet
	looked         time.Duration           // when the pools were checked
	renewed        time.Duration           // when idle trunks were
	flows          map[*split]struct{}
	runnable       []*split // flows that have used their share
	waits          [waitKinds]deadlines
	aborting       []*split // flows with an end that waits for acknowledgements before an RST
	pipes          pipes
	buffers        secure.Buffers
	gate           secure.Gate
	own            bool         // the identities are this worker's
	tlsHandshakes  []*handshake // incoming trunks in a TLS handshake, oldest first
	scratch        []byte
	sealed         []byte // ciphertext that was received, until it is read
	events         int    // of the last iteration
	full           bool   // accepting is suspended
	lookups        sync.WaitGroup
	ended          chan struct{} // closed when Run has returned
	count          Counters
}

const (
	eventBatch   = 256                    // events per call
	flowShare    = 4 << 20                // bytes that a flow moves per iteration
	copyChunk    = 64 << 10               // bytes copied at a time
	longestPause = 5 * time.Second        // of an idle loop: guards against a lost wake-up
	drainTick    = 10 * time.Millisecond  // between checks of acknowledgements
	poolTick     = 100 * time.Millisecond // between checks of the pools
	fullTick     = 100 * time.Millisecond // between attempts to accept
)

// New creates a worker. Run starts it.
func New(o Options, cfg *config.Config) (*Worker, error) {
	w := &Worker{
		o: o, cfg: cfg, start: time.Now(), flows: make(map[*split]struct{}), early: make(map[synKey]*split), tallies: make(map[string]*tally),
		idle: make(map[*handshake]struct{}), idlePerPrefix: make(map[netip.Prefix]int), pools: make(map[string]*pool),
		scratch: make([]byte, secure.BufferSize)[:copyChunk], sealed: make([]byte, copyChunk), gate: secure.NewGate(1), ended: make(chan struct{}),
	}
	w.pipes.size = cfg.Limits.Pipe
	if w.o.Routes == nil {
		w.o.Routes = NewRoutes()
	}
	if w.o.LookUp == nil {
		w.o.LookUp = lookUpSystem
	}
	if w.o.Identities == nil {
		w.o.Identities, w.own = new(secure.Identities), true
		if err := w.o.Identities.Load(cfg); err != nil {
			return nil, fmt.Errorf("worker %d: %w", o.Index, err)
		}
	}
	if err := w.configure(cfg); err != nil {
		return nil, fmt.Errorf("worker %d: %w", o.Index, err)
	}
	if err := w.inbox.open(); err != nil {
		return nil, fmt.Errorf("worker %d: %w", o.Index, err)
	}
	return w, nil
}

// Run occupies the calling goroutine's thread, and returns when the worker is closed. The goroutine must end soon after, so that the thread
// does.
func (w *Worker) Run() error {
	runtime.LockOSThread() // and never unlocked
	defer close(w.ended)
	defer w.lookups.Wait() // they end with their flows
	defer w.inbox.refuse(w)
	if err := w.isolate(); err != nil {
		return fmt.Errorf("worker %d: %w", w.o.Index, err)
	}
	if err := w.open(); err != nil {
		return fmt.Errorf("worker %d: %w", w.o.Index, err)
	}
	defer closeFD(w.epoll)
	events := make([]unix.EpollEvent, eventBatch)
	for {
		n, errno := w.wait(events)
		if errno != 0 && errno != unix.EINTR {
			return fmt.Errorf("worker %d: epoll_wait: %w", w.o.Index, errno)
		}
		w.now = time.Since(w.start)
		for _, ev := range events[:max(n, 0)] {
			s := &w.slots[ev.Fd]
			if s.source != nil && s.generation == uint32(ev.Pad) {
				s.source.ready(w, ev.Events)
			}
		}
		w.runQueued()
		w.drain()
		w.expire()
		w.lookAtPools()
		w.renewIdle()
		if w.full {
			w.acceptAgain()
		}
		w.refill()
		if w.inbox.closed {
			w.close()
			return nil
		}
	}
}

// open creates the epoll instance.
func (w *Worker) open() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll_create1: %w", err)
	}
	w.epoll = int32(fd)
	if _, errno := w.watch(int32(w.inbox.fd), unix.EPOLLIN, &w.inbox); errno != 0 {
		return fmt.Errorf("watch the inbox: %w", errno)
	}
	if w.o.SYNs == nil {
		return nil
	}
	if _, errno := w.watch(int32(w.o.SYNs.FD), unix.EPOLLIN, w.o.SYNs); errno != 0 {
		return fmt.Errorf("watch the SYNs: %w", errno)
	}
	return nil
}

// busy is how long a worker that just had events waits without informing the Go scheduler. If informed, the scheduler gives the worker's P
// away, and getting one back takes two thread switches, which costs more than handling an event. It is longer than the kernel's tick (4 ms
// at 250 Hz): a shorter wait would program the timer and cancel it, which is expensive in a virtual machine. Stopping the world is not
// delayed: the Go runtime's signal interrupts the call.
const busy = 10 * time.Millisecond

// wait returns pending events, or waits for some.
func (w *Worker) wait(events []unix.EpollEvent) (n int, errno unix.Errno) {
	pause := w.pause()
	if w.events > 0 {
		n, errno = epollWait(w.epoll, events, min(pause, busy))
		pause -= busy
	}
	if n == 0 && errno == 0 && pause > 0 {
		var err error
		if n, err = unix.EpollWait(int(w.epoll), events, int(pause/time.Millisecond)); err != nil {
			n, errno = 0, err.(unix.Errno)
		}
	}
	w.events = n
	return n, errno
}

// pause is the longest time to wait for events.
func (w *Worker) pause() time.Duration {
	if len(w.runnable) > 0 {
		return 0
	}
	pause := longestPause
	if len(w.aborting) > 0 {
		pause = drainTick
	}
	if len(w.pools) > 0 {
		pause = min(pause, poolTick)
	}
	if len(w.idle) > 0 && w.o.Outgrown != nil {
		pause = min(pause, renewTick)
	}
	if w.full {
		pause = min(pause, fullTick)
	}
	for i := range w.waits {
		pause = min(pause, w.waits[i].next(w.now))
	}
	return pause + time.Millisecond - 1 // not too early
}

// lookAtPools checks the pools periodically.
func (w *Worker) lookAtPools() {
	if len(w.pools) == 0 || w.now-w.looked < poolTick && w.looked > 0 {
		return
	}
	w.looked = w.now
	for _, p := range w.pools {
		p.look(w)
	}
}

// runQueued runs the flows that had used their share.
func (w *Worker) runQueued() {
	batch := w.runnable
	w.runnable = nil
	for _, s := range batch {
		s.queued = false
		w.step(s)
	}
	if w.runnable == nil {
		w.runnable = batch[:0]
	}
}

// source receives events.
type source interface {
	ready(w *Worker, events uint32)
}

// slot is an entry of the table of sources; its generation identifies events of an earlier source.
type slot struct {
	source     source
	generation uint32
}

// watch registers a descriptor, edge-triggered.
func (w *Worker) watch(fd int32, events uint32, s source) (uint32, unix.Errno) {
	var n uint32
	if k := len(w.unused); k > 0 {
		n = w.unused[k-1]
		w.unused = w.unused[:k-1]
	} else {
		n = uint32(len(w.slots))
		w.slots = append(w.slots, slot{})
	}
	w.slots[n].source = s
	errno := epollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, events|unix.EPOLLET, uint64(w.slots[n].generation)<<32|uint64(n))
	if errno != 0 {
		w.forget(n)
	}
	return n, errno
}

// rewatch changes the events of a registered descriptor. A condition that already holds causes an event.
func (w *Worker) rewatch(fd int32, events, n uint32) unix.Errno {
	return epollCtl(w.epoll, unix.EPOLL_CTL_MOD, fd, events|unix.EPOLLET, uint64(w.slots[n].generation)<<32|uint64(n))
}

// forget frees the slot of a descriptor that is closed, or will be at once.
func (w *Worker) forget(n uint32) {
	w.slots[n].source = nil
	w.slots[n].generation++
	w.unused = append(w.unused, n)
}

const (
	both = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP
	over = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR // something follows what can be read
)
