package links

import (
	"net/netip"

	"github.com/vishvananda/netlink"
)

// ask is how the kernel is asked for a neighbour.
type ask int

const (
	leave ask = iota // it needs no asking
	use              // as somebody who sends to it: asked for now if nothing is known, and in a while if what is known is old
	probe            // what is known is asked for again now
)

// asking is how to ask for a neighbour so that it stays known, or to see whether it answers now.
func asking(state Reach, now bool) ask {
	switch {
	case state == Fixed: // using it would make an ordinary entry of what an administrator has fixed
		return leave
	case state == Known && now:
		return probe
	}
	return use
}

// Probe asks the gateways of a link whether they are there, now: Answered tells what they say.
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
				w.o.Answered(name, true) // whoever fixed it knows that it is there
			}
			return asking(state, true)
		})
	}
}

// solicit asks for the gateways whose MACs are not known, or for all of them.
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
			w.o.Log.Debug("a gateway could not be asked for", "link", l.Name, "gateway", f.Gateway, "error", err)
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

// askFor makes the kernel ask. The entry is an ordinary one, which ends by itself.
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
		entry.State = 0 // it has just gone, and with it what could be asked for again
	}
	entry.Flags = netlink.NTF_USE
	return w.handle.NeighSet(entry)
}
