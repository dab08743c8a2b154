// Package ports manages the interfaces behind the ports of an OpenFlow switch: it follows them by name while they appear, disappear and
// change, describes them in OpenFlow's terms, and applies port mods.
//
// A port exists as long as it is configured. While its interface is missing its link is down; any interface of that name takes its place.
package ports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"baton/openflow"
	"baton/packet"
)

// Port is a port and the name of its interface. For [openflow.PortLocal], Open makes the interface: the name is that of the host's end.
type Port struct {
	Number openflow.PortNo
	Name   string
}

// Event is the new state of a port. Ports are never removed before Close.
type Event struct {
	// Serial orders the events of a port: higher is later. A reported event may be older than the one that PortMod returned meanwhile.
	Serial uint64
	Reason openflow.PortReason
	Port   openflow.Port
	// Ifindex is 0 without an interface. A different index means a different interface, even if no removal was seen.
	Ifindex int
	// Up: the interface exists, is up, and has a carrier.
	Up bool
}

// Options of Open. All but Own are required.
type Options struct {
	Ports []Port
	// Own: only packets for the host itself matter, so interfaces are not made promiscuous.
	Own bool
	// Report is called with every port before Open returns (openflow.PortAdd) and then, from one goroutine, with every changed port
	// (openflow.PortModify). No lock is held: it may wait for a goroutine that calls PortMod. It must not call Close.
	Report func(Event)
	Log    *slog.Logger
}

// Ports are the ports of a switch.
type Ports struct {
	o       Options
	handle  *netlink.Handle
	changes *nl.NetlinkSocket
	ethtool int // socket for ethtool requests
	local   string
	cancel  context.CancelFunc
	watched chan struct{} // closed when watch has ended
	once    sync.Once
	closed  error

	mu     sync.Mutex
	serial uint64
	ports  []*port // ordered by number
}

// port is guarded by Ports.mu.
type port struct {
	no    openflow.PortNo
	name  string // of the interface that frames pass
	host  string // of a local port's other end, whose name and MAC the port has
	since time.Time
	index int // 0: no interface
	found uint32
	down  bool // set down by a port mod
	flags openflow.PortConfig
	seen  Event // as last reported or returned
}

// changeBuffer is the socket buffer for notifications of changes in bytes: about a thousand changes.
const changeBuffer = 1 << 20

// Open takes over interfaces of the calling thread's network namespace: it sets them up and makes them promiscuous (see Options.Own), but
// leaves their addresses alone. It follows them until ctx ends. The caller must call Close or Leave.
func Open(ctx context.Context, o Options) (_ *Ports, err error) {
	p := &Ports{o: o, ethtool: -1, watched: make(chan struct{})}
	ctx, p.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			close(p.watched)
			_ = p.Close()
		}
	}()
	if p.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	// Changes are seen from here on.
	if p.changes, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK); err != nil {
		return nil, fmt.Errorf("subscribe to changes of interfaces: %w", err)
	}
	_ = p.changes.SetReceiveBufferSize(changeBuffer, true) // with a smaller one, all ports are read again more often
	if p.ethtool, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open a socket for ethtool: %w", err)
	}
	for _, c := range o.Ports {
		if err := p.add(c); err != nil {
			return nil, fmt.Errorf("port %v: %w", c.Number, err)
		}
	}
	slices.SortFunc(p.ports, func(a, b *port) int { return cmp.Compare(a.no, b.no) })
	for _, pt := range p.ports {
		e := pt.seen
		e.Reason = openflow.PortAdd
		o.Report(e)
	}
	context.AfterFunc(ctx, p.changes.Close)
	go p.watch(ctx)
	return p, nil
}

func (p *Ports) add(c Port) error {
	for _, pt := range p.ports {
		if pt.no == c.Number {
			return errors.New("duplicate number")
		}
		if c.Name == pt.name || c.Name == pt.host {
			return fmt.Errorf("%s is port %v already", c.Name, pt.no)
		}
	}
	if len(c.Name) == 0 || len(c.Name) >= unix.IFNAMSIZ {
		return fmt.Errorf("an interface's name has 1 to %d bytes: %q", unix.IFNAMSIZ-1, c.Name)
	}
	pt := &port{no: c.Number, name: c.Name, since: time.Now()}
	if c.Number == openflow.PortLocal {
		pt.host, pt.name = c.Name, portEnd(c.Name)
		if err := p.makeLocal(pt.host, pt.name); err != nil {
			return err
		}
		p.local = pt.host
	}
	p.ports = append(p.ports, pt)
	if _, err := p.refresh(pt); err != nil {
		return err
	}
	if pt.index == 0 {
		p.o.Log.Warn("a port has no interface yet", "port", pt.no, "interface", pt.name)
	}
	return nil
}

// Close releases the interfaces and restores their original flags. A local interface is removed. It must not be called by a goroutine that
// Report waits for. Further calls return the same result.
func (p *Ports) Close() error {
	p.once.Do(func() { p.closed = p.end(true) })
	return p.closed
}

// Leave is Close, but leaves the interfaces as they are, for flow entries that keep working. The next Open takes over a local interface, and
// [RemoveLocal] removes it.
func (p *Ports) Leave() error {
	p.once.Do(func() { p.closed = p.end(false) })
	return p.closed
}

func (p *Ports) end(restore bool) error {
	p.cancel()
	if p.changes != nil {
		p.changes.Close()
	}
	<-p.watched
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	if restore {
		for _, pt := range p.ports {
			if pt.host == "" {
				errs = append(errs, p.restore(pt))
			}
		}
		errs = append(errs, p.removeLocal())
	}
	if p.ethtool >= 0 {
		unix.Close(p.ethtool)
	}
	if p.handle != nil {
		p.handle.Close()
	}
	return errors.Join(errs...)
}

// List describes all ports, ordered by number.
func (p *Ports) List() []openflow.Port {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]openflow.Port, len(p.ports))
	for i, pt := range p.ports {
		list[i] = pt.seen.Port
	}
	return list
}

func (p *Ports) find(no openflow.PortNo) *port {
	i := slices.IndexFunc(p.ports, func(pt *port) bool { return pt.no == no })
	if i < 0 {
		return nil
	}
	return p.ports[i]
}

// describe describes the port with its interface; nil: without one, the last description is kept.
func (pt *port) describe(link netlink.Link, mac packet.MAC, f features) Event {
	e := pt.seen
	e.Reason = openflow.PortModify
	e.Ifindex, e.Up = 0, false
	e.Port = openflow.Port{
		No: pt.no, Name: pt.name, MAC: e.Port.MAC, Config: pt.flags, State: openflow.PortStateLinkDown,
	}
	if pt.host != "" {
		e.Port.Name = pt.host
	}
	if link == nil {
		if pt.down {
			e.Port.Config |= openflow.PortConfigPortDown
		}
		return e
	}
	a := link.Attrs()
	e.Ifindex, e.Port.MAC = a.Index, mac
	if a.RawFlags&unix.IFF_UP == 0 {
		e.Port.Config |= openflow.PortConfigPortDown
	} else if a.RawFlags&unix.IFF_LOWER_UP != 0 {
		e.Up, e.Port.State = true, openflow.PortStateLive
	}
	e.Port.Current, e.Port.Advertised, e.Port.Supported, e.Port.Peer = f.current, f.advertised, f.supported, f.peer
	e.Port.Speed, e.Port.MaxSpeed = f.speed, f.most
	return e
}
