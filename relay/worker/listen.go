package worker

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/flow"
	"baton/relay/proxyheader"
	"baton/relay/trunkproto"
)

// entry is a listener for flows.
type entry struct {
	*config.Entry
	route route
	fd    int32
	slot  uint32
	tally *tally
}

// Listeners is where listeners of entries that intercept are made known.
type Listeners struct {
	FD  int // what Set needs of the thread's descriptors; owned by the caller
	Set func(fd int, at netip.AddrPort) error
}

var shown = map[config.ClientAddress]trunkproto.ClientAddress{
	config.Hidden: trunkproto.Hidden, config.Spoofed: trunkproto.Spoofed, config.ProxyHeader: trunkproto.ProxyHeader,
}

const backlog = 1 << 16 // limited by net.core.somaxconn

// Listen opens this worker's listener of an entry. Workers must open theirs in the order of their numbers: a packet's hash modulo their
// count selects the listener.
func (w *Worker) Listen(c *config.Entry) error {
	return w.ask(func(w *Worker) error {
		e := &entry{Entry: c, tally: w.tallyOf(c.Name)}
		if len(c.Via) > 0 {
			via, err := trunkproto.JoinNames(c.Via...)
			if err != nil {
				return fmt.Errorf("entry %s: %w", c.Name, err)
			}
			e.route.via = via
		}
		e.route.shown, e.route.congestion = shown[c.ClientAddress], c.Congestion
		fd, err := w.listen(c.Listen, e.isEarly(), func(fd int32) error {
			if c.Mode != config.Transparent {
				return nil
			}
			if errno := transparent(fd, c.Listen.Addr()); errno != 0 {
				return fmt.Errorf("IP_TRANSPARENT: %w", errno)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("entry %s: %w", c.Name, err)
		}
		if c.Intercept != nil && w.o.Listeners != nil && w.o.Index == 0 { // one of the group
			if err := w.o.Listeners.Set(int(fd), c.Listen); err != nil {
				closeFD(fd)
				return fmt.Errorf("entry %s: %w", c.Name, err)
			}
		}
		slot, errno := w.watch(fd, unix.EPOLLIN, e)
		if errno != 0 {
			closeFD(fd)
			return fmt.Errorf("entry %s: epoll_ctl: %w", c.Name, errno)
		}
		e.fd, e.slot = fd, slot
		w.entries = append(w.entries, e)
		return nil
	})
}

// isEarly reports whether the entry has early SYN.
func (e *entry) isEarly() bool {
	return e.EarlySYN == config.Optimistic || e.EarlySYN == config.ConnectFirst
}

// transparent lets a socket use addresses of other hosts.
func transparent(fd int32, a netip.Addr) unix.Errno {
	if a.Is6() {
		return setInt(fd, unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1)
	}
	return setInt(fd, unix.SOL_IP, unix.IP_TRANSPARENT, 1)
}

// listen opens a listening socket in the workers' reuseport group. Connections inherit its options. hashed: the group selects by the
// packets' hash, which the kernel program has set.
func (w *Worker) listen(a netip.AddrPort, hashed bool, more func(fd int32) error) (_ int32, err error) {
	fd, errno := newSocket(a.Addr())
	if errno != 0 {
		return -1, fmt.Errorf("socket: %w", errno)
	}
	defer func() {
		if err != nil {
			closeFD(fd)
		}
	}()
	if errno := setInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); errno != 0 {
		return -1, fmt.Errorf("SO_REUSEADDR: %w", errno)
	}
	if errno := setInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); errno != 0 {
		return -1, fmt.Errorf("SO_REUSEPORT: %w", errno)
	}
	if a.Addr().Is6() {
		_ = setInt(fd, unix.SOL_IPV6, unix.IPV6_V6ONLY, 1)
	}
	tune(fd)
	if err := more(fd); err != nil {
		return -1, err
	}
	if errno := bind(fd, a); errno != 0 {
		return -1, fmt.Errorf("bind %v: %w", a, errno)
	}
	if hashed && w.o.Index == 0 && w.o.Of > 1 {
		if errno := chooseByHash(fd, w.o.Of); errno != 0 {
			return -1, fmt.Errorf("SO_ATTACH_REUSEPORT_CBPF: %w", errno)
		}
	}
	if errno := listen(fd, backlog); errno != 0 {
		return -1, fmt.Errorf("listen %v: %w", a, errno)
	}
	return fd, nil
}

// chooseByHash makes a reuseport group select by the packet's hash modulo its members.
func chooseByHash(fd int32, members int) unix.Errno {
	const rxhash = 0xfffff000 + 32 // SKF_AD_OFF + SKF_AD_RXHASH, linux/filter.h
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: rxhash},
		{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: uint32(members)},
		{Code: unix.BPF_RET | unix.BPF_A},
	}
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	return setsockopt(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, unsafe.Pointer(&f), unsafe.Sizeof(f))
}

// tune sets the options of every connection.
func tune(fd int32) {
	_ = setInt(fd, unix.SOL_TCP, unix.TCP_NODELAY, 1)
	closingResets(fd, true)
}

// ready accepts connections.
func (e *entry) ready(w *Worker, _ uint32) {
	for !w.full {
		if w.count.Live.Load() >= int64(w.most()) {
			w.full = true
			w.count.Full.Add(1)
			return
		}
		fd, peer, errno := accept(e.fd)
		switch {
		case errno == unix.ECONNABORTED || errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return
		case errno != 0:
			w.full = true // out of descriptors or memory: retry later
			w.count.Full.Add(1)
			return
		}
		w.begin(e, fd, peer)
	}
}

// most is the limit of this worker's flows.
func (w *Worker) most() int { return max(1, w.cfg.Limits.Flows/w.o.Of) }

// acceptAgain resumes accepting.
func (w *Worker) acceptAgain() {
	w.full = false
	for _, e := range w.entries {
		e.ready(w, 0)
	}
}

// begin starts a flow for an accepted connection, or finds the one that its SYN has started.
func (w *Worker) begin(e *entry, fd int32, peer netip.AddrPort) {
	isEarly := e.isEarly()
	var at netip.AddrPort
	if isEarly || e.Mode == config.Transparent {
		var errno unix.Errno
		if at, errno = localAddr(fd); errno != 0 {
			closeFD(fd)
			return
		}
	}
	if isEarly {
		w.readSYNs()
		if w.matchEarly(peer, at, fd) {
			return
		}
	}
	s := w.newFlow(e, peer, at)
	if errno := w.attach(s, flow.Client, fd); errno != 0 {
		closeFD(fd)
		w.release(s)
		return
	}
	if hasProxyHeader(e.Mode) {
		words := proxyheader.New(e.Mode)
		s.request = &request{parser: &words}
		w.startWait(&s.waiter, waitHeader)
		return // its bytes cause an event
	}
	w.startOnward(s)
}

// newFlow creates a flow of an entry; at is the address that the client connected to.
func (w *Worker) newFlow(e *entry, client, at netip.AddrPort) *split {
	s := w.newSplit(e, client)
	w.enter(s, e.tally)
	s.route = e.route
	if len(s.route.via) > 0 {
		_, _ = rand.Read(s.route.id[:]) // never fails
	}
	s.server = e.Destination
	if e.Mode == config.Transparent {
		s.server = at
	}
	return s
}

// Close stops a running worker and waits for it. Remaining flows are reset.
func (w *Worker) Close() {
	_ = w.post(func(w *Worker) { w.inbox.closed = true }) // or Run has failed
	<-w.ended
	w.inbox.close()
}

// close releases everything that the worker's descriptors stand for.
func (w *Worker) close() {
	w.full = false
	for _, e := range w.entries {
		closeFD(e.fd)
	}
	w.entries = nil
	for _, d := range w.trunkListeners {
		closeFD(d.fd)
	}
	w.trunkListeners = nil
	for a := range w.idle {
		w.abortHandshake(a, false)
	}
	for _, p := range w.pools {
		p.close(w)
	}
	for i := range w.slots {
		if t, ok := w.slots[i].source.(*trunk); ok { // being opened
			w.loseTrunk(t, errUnused)
		}
	}
	for s := range w.flows {
		w.drop(s)
	}
	for _, p := range w.pipes.empty {
		closeFD(p.r)
		closeFD(p.w)
	}
}
