package links

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"baton/balance/config"
)

const (
	// changeBuffer is the receive buffer for notifications, in bytes: enough for about a thousand.
	changeBuffer = 1 << 20
	// round is the interval for resolving gateways without a MAC. The kernel sends three requests, a second apart, before it gives up.
	round = time.Second
	// useEvery is how many rounds pass until the kernel learns that a gateway is in use: it then probes it, if it has not heard of it for
	// about half a minute (base_reachable_time_ms, delay_first_probe_time). Otherwise it would never notice a changed MAC, because the
	// switch sends to the gateway, not the host.
	useEvery = 5
	// lookEvery is how many rounds pass before everything is read again, in case a notification was missed.
	lookEvery = 60
	// The kernel reports carrier changes at most once a second, except the first (linkwatch): for this long after a change they are polled.
	swiftFor   = 1200 * time.Millisecond
	swiftEvery = 40 * time.Millisecond
)

// Options of Open. Log and Report are required.
type Options struct {
	Links []config.Link
	// Report is called with all links, in the configuration's order: before Open returns, and then from one goroutine whenever a link has
	// changed. It must not call Close.
	Report func([]Link)
	// Answered is called when a link's gateway has answered (true) or the kernel has given it up (false), from the goroutine of Report.
	// nil: not needed.
	Answered func(link string, answers bool)
	Log      *slog.Logger
}

// Watcher follows links.
type Watcher struct {
	o         Options
	handle    *netlink.Handle
	changes   *nl.NetlinkSocket
	resolvers *resolvers
	cancel    context.CancelFunc
	ended     sync.WaitGroup
	wake      chan struct{} // capacity 1: hints are waiting

	mu     sync.Mutex
	hints  hints
	follow []config.Link // replaces links; nil: no change
	list   []Link

	// Owned by the goroutine that follows.
	links    []config.Link
	kernel   Kernel
	failed   part                 // parts that could not be read
	reported map[int][]netip.Addr // resolvers reported by the host's services, by interface
}

// hints are notifications that have not been processed yet.
type hints struct {
	parts   part
	indexes []int // interfaces that parts refers to; cleared afterwards
	heard   []heard
	probes  []string // links for Probe
	missed  bool
}

// heard is a change of a neighbour.
type heard struct {
	index           int
	address         netip.Addr
	answers, failed bool // neither: its entry became stale
}

// of reports whether the neighbour is a gateway of the link.
func (h heard) of(l Link) bool {
	return l.Index == h.index && (l.V4.Gateway == h.address || l.V6.Gateway == h.address)
}

// Open follows links in the calling thread's network namespace until ctx ends. The caller owes Close.
func Open(ctx context.Context, o Options) (_ *Watcher, err error) {
	w := &Watcher{o: o, links: o.Links, wake: make(chan struct{}, 1)}
	ctx, w.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if w.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	// Changes from here on are noticed.
	w.changes, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_NEIGH)
	if err != nil {
		return nil, fmt.Errorf("subscribe to changes of interfaces: %w", err)
	}
	_ = w.changes.SetReceiveBufferSize(changeBuffer, true) // a smaller buffer only means that everything is read again more often
	w.resolvers = newResolvers()
	if err := w.read(everything); err != nil {
		return nil, err
	}
	w.reported = w.resolvers.ask(ctx, w.indexes())
	w.resolvers.want(w.indexes())
	w.derive()
	w.o.Report(w.List())
	w.solicit(true)
	context.AfterFunc(ctx, w.changes.Close)
	w.ended.Go(func() { w.listen(ctx) })
	w.ended.Go(func() { w.resolvers.run(ctx) })
	w.ended.Go(func() { w.run(ctx) })
	return w, nil
}

// Close stops following. Later calls do nothing.
func (w *Watcher) Close() {
	w.cancel()
	if w.changes != nil {
		w.changes.Close()
	}
	w.ended.Wait()
	if w.handle != nil {
		w.handle.Close()
	}
}

// List returns the links as last reported.
func (w *Watcher) List() []Link {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.list)
}

// Follow replaces the links to follow; Report is called with the new ones.
func (w *Watcher) Follow(links []config.Link) {
	w.mu.Lock()
	w.follow = slices.Clone(links)
	w.hints.parts |= everything
	w.mu.Unlock()
	w.rouse()
}

func (w *Watcher) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run processes hints until ctx ends.
func (w *Watcher) run(ctx context.Context) {
	ticker, swift := time.NewTicker(round), time.NewTicker(swiftEvery)
	defer ticker.Stop()
	defer swift.Stop()
	until := time.Now().Add(swiftFor)
	for n := 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
			if w.look()&interfaces != 0 {
				until = time.Now().Add(swiftFor)
				swift.Reset(swiftEvery)
			}
		case <-swift.C:
			w.lookAtCarriers()
			if time.Now().After(until) {
				swift.Stop()
			}
		case reported := <-w.resolvers.found:
			w.reported = reported
			w.update()
		case <-ticker.C:
			if n%lookEvery == 0 {
				w.failed = everything
			}
			if w.failed != 0 {
				w.hint(hints{parts: w.failed})
				w.failed = 0
			}
			w.solicit(n%useEvery == 0)
			n++
		}
	}
}

// look reads and reports what has changed, and returns the parts.
func (w *Watcher) look() part {
	w.mu.Lock()
	h, follow := w.hints, w.follow
	w.hints, w.follow = hints{}, nil
	w.mu.Unlock()
	if follow != nil {
		w.links = follow
	}
	if h.missed {
		w.o.Log.Warn("notifications were missed: reading all links again")
	}
	if err := w.read(h.parts); err != nil {
		w.o.Log.Error("cannot read the links; retrying in a second", "error", err)
		w.failed |= h.parts
		return h.parts
	}
	if h.parts&interfaces != 0 {
		w.resolvers.want(w.indexes())
	}
	w.update()
	w.solicit(false)
	for _, name := range h.probes {
		w.probe(name)
	}
	w.answered(h.heard)
	return h.parts
}

// lookAtCarriers checks for a lost carrier that the kernel has not reported yet.
func (w *Watcher) lookAtCarriers() {
	for _, n := range w.kernel.Interfaces {
		link, err := w.handle.LinkByIndex(n.Index)
		if n.Live && (err != nil || !live(link)) {
			w.hint(hints{parts: interfaces, indexes: []int{n.Index}})
			return
		}
	}
}

// answered reports gateways that have answered or failed.
func (w *Watcher) answered(list []heard) {
	if w.o.Answered == nil {
		return
	}
	for _, h := range list {
		for _, l := range w.List() {
			if h.of(l) && (h.answers || h.failed) {
				w.o.Answered(l.Name, h.answers)
			}
		}
	}
}

// update derives the links and reports them if they have changed.
func (w *Watcher) update() {
	if w.derive() {
		w.o.Report(w.List())
	}
}

func (w *Watcher) read(what part) error {
	names := make([]string, len(w.links))
	for i, l := range w.links {
		names[i] = l.Interface
	}
	return read(w.handle, &w.kernel, names, what)
}

// derive computes the list, and reports whether it has changed.
func (w *Watcher) derive() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]Link, len(w.links))
	for i, c := range w.links {
		var last Link
		if j := slices.IndexFunc(w.list, func(l Link) bool { return l.Interface == c.Interface }); j >= 0 {
			last = w.list[j]
		}
		list[i] = Derive(c, w.kernel, w.reported[indexOf(w.kernel, c.Interface)], last)
	}
	if slices.EqualFunc(list, w.list, Link.Equal) {
		return false
	}
	w.list = list
	return true
}

func indexOf(k Kernel, name string) int {
	for _, n := range k.Interfaces {
		if n.Name == name {
			return n.Index
		}
	}
	return 0
}

func (w *Watcher) indexes() []int {
	out := make([]int, len(w.kernel.Interfaces))
	for i, n := range w.kernel.Interfaces {
		out[i] = n.Index
	}
	return out
}
