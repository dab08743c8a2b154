package links

import (
	"net/netip"

	"github.com/vishvananda/netlink"
)

// ask is a way to have the kernel resolve a neighbour.
type ask int

const (
	leave ask = iota // do nothing
	use              // as a sender: resolved now if unknown, and soon if stale
	probe            // resolved again now
)

// asking returns how to keep a neighbour resolved or, with now, how to check whether it answers.
func asking(state Reach, now bool) ask {
	switch {
	case state == Fixed: // sending to it would turn an administrator's entry into a dynamic one
		return leave
	case state == Known && now:
		return probe
	}
	return use
}

// Probe probes the gateways of a link now. Answered is called with the result.
func (w *Watcher) Probe(link string) {
	w.mu.Lock()
	w.hints.probes = append(w.hints.probes, link)
	w.mu.Unlock()
	w.rouse()
}

func (w *Watcher) probe(name string) {
	for _, l := range w.List() {
		if l.Name != name {
			continue
		}
		w.askGateways(l, func(state Reach) ask {
			if state == Fixed && w.o.Answered != nil {
				w.o.Answered(name, true) // whoever set the entry vouches for it
			}
			return asking(state, true)
		})
	}
}

// solicit resolves the gateways whose MACs are unknown, or all of them.
func (w *Watcher) solicit(all bool) {
	for _, l := range w.List() {
		w.askGateways(l, func(state Reach) ask {
			if !all && state == Known {
				return leave
			}
			return asking(state, false)
		})
	}
}

func (w *Watcher) askGateways(l Link, how func(Reach) ask) {
	if !l.Carrier || l.MAC == (MAC{}) {
		return
	}
	for _, f := range []Family{l.V4, l.V6} {
		if !f.Gateway.IsValid() || !f.Address.IsValid() {
			continue
		}
		if err := w.askFor(l.Index, f.Gateway, how(reachOf(w.kernel, l.Index, f.Gateway))); err != nil {
			w.o.Log.Debug("cannot probe a gateway", "link", l.Name, "gateway", f.Gateway, "error", err)
		}
	}
}

func reachOf(k Kernel, index int, gateway netip.Addr) Reach {
	for _, n := range k.Neighbours {
		if n.Index == index && n.Address == gateway {
			return n.State
		}
	}
	return Unresolved
}

// askFor makes the kernel resolve a neighbour. The entry is a dynamic one, which expires.
func (w *Watcher) askFor(index int, gateway netip.Addr, how ask) error {
	entry := &netlink.Neigh{LinkIndex: index, IP: gateway.AsSlice()}
	switch how {
	case leave:
		return nil
	case probe:
		entry.State = netlink.NUD_PROBE
		if w.handle.NeighSet(entry) == nil {
			return nil
		}
		entry.State = 0 // the entry has just expired
	}
	entry.Flags = netlink.NTF_USE
	return w.handle.NeighSet(entry)
}
