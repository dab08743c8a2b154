package links

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// listen receives the kernel's notifications until ctx ends and the socket is closed. They are only hints: what has changed is read, so
// that the data is never older than before.
func (w *Watcher) listen(ctx context.Context) {
	for {
		messages, _, err := w.changes.Receive()
		switch {
		case err == nil:
			var all hints
			for _, m := range messages {
				h := heed(m)
				all.parts |= h.parts
				all.heard = append(all.heard, h.heard...)
				all.indexes = append(all.indexes, h.indexes...)
			}
			if all.parts != 0 {
				w.hint(all)
			}
		case ctx.Err() != nil:
			return
		case errors.Is(err, unix.EINTR):
		default: // ENOBUFS: the buffer overflowed
			w.hint(hints{parts: everything, missed: true})
		}
	}
}

func (w *Watcher) hint(h hints) {
	w.mu.Lock()
	if h.parts == neighbours && len(h.heard) > 0 { // large networks have many neighbours, and only gateways matter
		kept := h.heard[:0]
		for _, e := range h.heard {
			if slices.ContainsFunc(w.list, e.of) {
				kept = append(kept, e)
			}
		}
		if h.heard = kept; len(kept) == 0 {
			w.mu.Unlock()
			return
		}
	}
	// When an interface or its address goes, the kernel removes IPv4 routes without notifications.
	if slices.ContainsFunc(w.list, func(l Link) bool { return slices.Contains(h.indexes, l.Index) }) {
		h.parts |= routes
	}
	w.hints.parts |= h.parts
	w.hints.heard = append(w.hints.heard, h.heard...)
	w.hints.probes = append(w.hints.probes, h.probes...)
	w.hints.missed = w.hints.missed || h.missed
	w.mu.Unlock()
	w.rouse()
}

// heed returns what a message hints at.
func heed(m syscall.NetlinkMessage) hints {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if len(m.Data) < unix.SizeofIfInfomsg || nl.DeserializeIfInfomsg(m.Data).Family != unix.AF_UNSPEC {
			return hints{} // bridges send AF_BRIDGE messages about their ports
		}
		return hints{parts: interfaces, indexes: []int{int(binary.NativeEndian.Uint32(m.Data[indexAt:]))}}
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if len(m.Data) < unix.SizeofIfAddrmsg {
			return hints{}
		}
		return hints{parts: interfaces, indexes: []int{int(binary.NativeEndian.Uint32(m.Data[indexAt:]))}}
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if len(m.Data) < unix.SizeofRtMsg || m.Data[1] != 0 { // length of the prefix
			return hints{}
		}
		return hints{parts: routes}
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		return heedNeighbour(m)
	}
	return hints{}
}

// indexAt is the offset of the interface in struct ifinfomsg (linux/rtnetlink.h) and struct ifaddrmsg (linux/if_addr.h).
const indexAt = 4

func heedNeighbour(m syscall.NetlinkMessage) hints {
	if len(m.Data) < unix.SizeofNdMsg || m.Data[0] == unix.AF_BRIDGE {
		return hints{}
	}
	n, err := netlink.NeighDeserialize(m.Data)
	if err != nil {
		return hints{}
	}
	address, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return hints{}
	}
	h := heard{index: n.LinkIndex, address: address.Unmap()}
	if m.Header.Type == unix.RTM_NEWNEIGH {
		h.answers, h.failed = n.State&netlink.NUD_REACHABLE != 0, n.State&netlink.NUD_FAILED != 0
	}
	return hints{parts: neighbours, heard: []heard{h}}
}
