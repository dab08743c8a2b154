package worker

import (
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/secure"
)

// Options make a Worker.
type Options struct {
	Index int // among Of workers, from 0
	Of    int
	Log   *slog.Logger
	// SYNs tells of SYNs, and Settle is told what becomes of them; it must not wait. nil: flows begin when they are accepted.
	SYNs   *SYNs
	Settle func(SYN, Settlement)
	// Measured is told what trunks have found out about their paths; it must not wait. nil: nobody wants to know.
	Measured func(Measurement)
	// Outgrown returns when trunks to a peer, or those that come from an address, began to begin with twice as much: those that were opened
	// before are replaced. Zero: they never did. nil: the system's windows.
	Outgrown func(peer string, from netip.Addr) time.Time
	Mark     uint32 // of sockets that have their client's address (SO_MARK); 0: none
	// Identities are those of trunks of TLS, the same for all workers: who gives them loads them, too. nil: the worker has its own.
	Identities *secure.Identities
	// Routes are those of entries that leave theirs to the relay. nil: the worker has its own, of which nothing is known.
	Routes *Routes
}

// Worker is an event loop with its flows.
type Worker struct {
	o              Options
	cfg            *config.Config // in force; replaced by a reload
	epoll          int32
	inbox          inbox
	slots          []slot
	unused         []uint32 // numbers of free slots
	now            time.Duration
	start          time.Time // of the clock that now is on
	entries        []*entry
	tallies        map[string]*tally // of entries, by name
	trunked        tally             // of flows that came by trunks
	trunkListeners []*trunkListener
	idle           map[*handshake]struct{} // trunks of other relays that have no flow yet
	idlePerPrefix  map[netip.Prefix]int    // how many of them a network has
	pools          map[string]*pool        // by the peer's name
	short          []*pool                 // of which flows have taken trunks in this turn
	early          map[synKey]*split       // flows whose clients were not accepted yet
	looked         time.Duration           // at the pools
	renewed        time.Duration           // the guests
	flows          map[*split]struct{}
	runnable       []*split // have more to move than their share of a turn
	waits          [waitKinds]deadlines
	aborting       []*split // with an end whose bytes in front of an RST are not acknowledged
	pipes          pipes
	buffers        secure.Buffers
	gate           secure.Gate
	own            bool         // the identities are
	tlsHandshakes  []*handshake // whose TLS handshakes go on, in the order in which they began to
	scratch        []byte
	sealed         []byte        // what has come for TLS, until it is read
	events         int           // of the last turn
	full           bool          // no more flows are accepted for now
	ended          chan struct{} // closed when Run has returned
	count          Counters
}

const (
	eventBatch   = 256                    // events taken from the kernel at a time
	flowShare    = 4 << 20                // bytes that a flow moves before others have their turn
	copyChunk    = 64 << 10               // bytes that are copied at a time
	longestPause = 5 * time.Second        // of a loop that nothing wakes: only guards against a lost wake-up
	drainTick    = 10 * time.Millisecond  // between looks at acknowledgements
	poolTick     = 100 * time.Millisecond // between looks at the trunks that wait
	fullTick     = 100 * time.Millisecond // between attempts to accept
)

// New makes a worker that does nothing before Run.
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

// Run takes the calling goroutine's thread for good, and returns when the worker is closed. The caller's goroutine must end soon after,
// so that the thread does.
func (w *Worker) Run() error {
	runtime.LockOSThread() // and never unlocked
	defer close(w.ended)
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

// open makes what events come from.
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

// busy is how long a worker that had events waits for others without telling the Go scheduler. Told, that gives the worker's processor
// away, and the thread needs two switches to have one again, which is dearer than what an event costs. It is longer than the kernel's tick
// (4 ms at 250 Hz): to wait for less is to set the processor's clock and to set it back, which in a virtual machine is dearer still. Whoever
// stops the world has not to wait for it: the Go runtime's signal ends the call.
const busy = 10 * time.Millisecond

// wait takes what events there are, or waits for some.
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

// pause is how long the loop may wait for events.
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

// lookAtPools opens, from time to time, trunks that were put off, and closes old ones.
func (w *Worker) lookAtPools() {
	if len(w.pools) == 0 || w.now-w.looked < poolTick && w.looked > 0 {
		return
	}
	w.looked = w.now
	for _, p := range w.pools {
		p.look(w)
	}
}

// runQueued gives flows that had more to move than their share another turn.
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

// source is what the kernel tells events about.
type source interface {
	ready(w *Worker, events uint32)
}

// slot is a source's place in the table that events lead to; its generation tells events of an earlier source there.
type slot struct {
	source     source
	generation uint32
}

// watch has the kernel tell, once for each change, what becomes of a descriptor.
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

// rewatch changes what the kernel tells of a descriptor that is watched. What is the case already it tells at once.
func (w *Worker) rewatch(fd int32, events, n uint32) unix.Errno {
	return epollCtl(w.epoll, unix.EPOLL_CTL_MOD, fd, events|unix.EPOLLET, uint64(w.slots[n].generation)<<32|uint64(n))
}

// forget frees the slot of a descriptor that is, or will at once be, closed.
func (w *Worker) forget(n uint32) {
	w.slots[n].source = nil
	w.slots[n].generation++
	w.unused = append(w.unused, n)
}

const (
	both = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP
	over = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR // something is due behind what can be read
)
