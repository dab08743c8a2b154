package ports

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"baton/lab"
	of "baton/openflow"
)

const patience = 10 * time.Second

// fixture is a switch with ports and hosts, and what was reported the ports.
type fixture struct {
	t            lab.T
	lab          *lab.Lab
	host, remote *lab.Host
	release      func() // of what is reported, if it is held

	mu       sync.Mutex
	reported []Event
}

func setUp(l *lab.Lab) *fixture {
	return &fixture{t: l.T(), lab: l, host: l.Host("switch"), remote: l.Host("remote")}
}

// cable makes an interface of the switch and one of the remote host, of the same name.
func (f *fixture) cable(name string) *lab.Link {
	f.t.Helper()
	return f.lab.Link(lab.End{Host: f.host, Name: name}, lab.End{Host: f.remote, Name: name}, lab.LinkOptions{})
}

// add makes an interface of the switch that nobody has set up, with the other end up. Index 0: as it comes.
func (f *fixture) add(name string, index int) {
	f.t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Index = name, index
	nl := f.host.Netlink()
	f.must(nl.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: name + "-peer"}))
	f.must(nl.LinkSetUp(device(f.host.Interface(name + "-peer"))))
}

func (f *fixture) report(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reported = append(f.reported, e)
}

func (f *fixture) options(ports ...Port) Options {
	return Options{Ports: ports, Report: f.report, Log: slog.New(slog.DiscardHandler)}
}

// held makes what is reported wait, once a port has changed, until release is called.
func (f *fixture) held(o Options) (_ Options, release func()) {
	wait := make(chan struct{})
	o.Report = func(e Event) {
		f.report(e)
		if e.Reason == of.PortModify {
			<-wait
		}
	}
	f.release = sync.OnceFunc(func() { close(wait) })
	return o, f.release
}

func (f *fixture) tryOpen(ctx context.Context, o Options) (p *Ports, err error) {
	_ = f.host.Do(func() error {
		p, err = Open(ctx, o)
		return nil
	})
	return p, err
}

func (f *fixture) open(o Options) *Ports {
	f.t.Helper()
	p, err := f.tryOpen(context.Background(), o)
	if err != nil {
		f.t.Fatalf("%v", err)
	}
	f.t.Cleanup(func() {
		if f.release != nil {
			f.release() // Close waits for what is being reported
		}
		_ = p.Close() // the test closes it where the error matters
	})
	return p
}

func (f *fixture) events() []Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.reported)
}

// last waits until what was reported last of a port is as wanted, and returns that.
func (f *fixture) last(no of.PortNo, what string, want func(Event) bool) (last Event) {
	f.t.Helper()
	lab.Eventually(f.t, patience, func() error {
		last = Event{}
		for _, e := range f.events() {
			if e.Port.No == no {
				last = e
			}
		}
		if !want(last) {
			return fmt.Errorf("port %v is not %s: %+v", no, what, last)
		}
		return nil
	})
	return last
}

func up(e Event) bool { return e.Up && e.Ifindex != 0 && e.Port.State == of.PortStateLive }
func linkDown(e Event) bool {
	return !e.Up && e.Ifindex != 0 && e.Port.State == of.PortStateLinkDown && e.Port.Config == 0
}
func missing(e Event) bool {
	return !e.Up && e.Ifindex == 0 && e.Port.State == of.PortStateLinkDown && e.Port.Config == 0
}

func (f *fixture) flags(name string) uint32 {
	f.t.Helper()
	link, err := f.host.Netlink().LinkByName(name)
	if err != nil {
		f.t.Fatalf("%v", err)
	}
	return link.Attrs().RawFlags
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatalf("%v", err)
	}
}

func device(n *lab.Interface) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: n.Name, Index: n.Index}}
}

// send sends frames of experimental use, which nobody answers.
func (f *fixture) send(n *lab.Interface, count, size int) {
	f.t.Helper()
	f.must(n.Host.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		b := make([]byte, size)
		copy(b, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5})
		for range count {
			if err := unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: n.Index}); err != nil {
				return err
			}
		}
		return nil
	}))
}
