package ports

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// watch receives the kernel's notifications and reports changed ports, until ctx ends and closes the socket. A notification is a hint only:
// the interface is read again, so that its state is never older than what a port mod has seen.
func (p *Ports) watch(ctx context.Context) {
	defer close(p.watched)
	for {
		messages, _, err := p.changes.Receive()
		switch {
		case err == nil:
			for _, m := range messages {
				p.handleChange(m)
			}
		case ctx.Err() != nil:
			return
		case errors.Is(err, unix.EINTR):
		default: // ENOBUFS: notifications were lost
			p.o.Log.Warn("notifications of interfaces were lost: reading all ports again", "error", err)
			p.update(func(*port) (touched, gone bool) { return true, false })
		}
	}
}

// handleChange handles one message.
func (p *Ports) handleChange(m syscall.NetlinkMessage) {
	gone := m.Header.Type == unix.RTM_DELLINK
	if !gone && m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
		return
	}
	info := nl.DeserializeIfInfomsg(m.Data)
	if info.Family != unix.AF_UNSPEC {
		return // AF_BRIDGE: a bridge port has gone, not the interface
	}
	name := interfaceName(m.Data[unix.SizeofIfInfomsg:])
	p.update(func(pt *port) (bool, bool) {
		ours := pt.index != 0 && pt.index == int(info.Index)
		return ours || name == pt.name || name == pt.host && name != "", ours && gone
	})
}

func interfaceName(attributes []byte) string {
	list, err := nl.ParseRouteAttr(attributes)
	if err != nil {
		return ""
	}
	for _, a := range list {
		if a.Attr.Type == unix.IFLA_IFNAME {
			return strings.TrimRight(string(a.Value), "\x00")
		}
	}
	return ""
}

// update updates the ports that which selects. A port whose interface is gone is first reported without it, since the next interface of its
// name may have the same index.
func (p *Ports) update(which func(*port) (touched, gone bool)) {
	var events []Event
	p.mu.Lock()
	for _, pt := range p.ports {
		touched, gone := which(pt)
		if gone && p.see(pt, nil) {
			events = append(events, pt.seen)
		}
		if !touched {
			continue
		}
		changed, err := p.refresh(pt)
		if err != nil {
			p.o.Log.Error("a port cannot be used", "port", pt.no, "error", err)
		}
		if changed {
			events = append(events, pt.seen)
		}
	}
	p.mu.Unlock()
	for _, e := range events {
		p.o.Report(e)
	}
}
