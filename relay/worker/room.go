package worker

import "net/netip"

// Trunks that wait say nothing, and nobody but a relay has to say who it is before it wants one: strangers look like relays. So when the
// places are taken they are shared out among those who came for them.

// network is who has a place: an address, or of IPv6 the 64 bits behind which one host has all addresses it likes.
func network(a netip.Addr) netip.Prefix {
	bits := 32
	if a = a.Unmap(); a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // never fails
	return p
}

// room finds a place for a trunk that comes from an address. If there is none the oldest one of the network that has the most makes room,
// unless the newcomer's would then have more.
func (w *Worker) room(from netip.Addr) bool {
	if len(w.guests) < max(1, w.cfg.Trunks.Waiting/w.o.Of) {
		return true
	}
	w.count.Full.Add(1)
	own := w.crowds[network(from)]
	if 2*own >= len(w.guests) { // nobody has more
		return false
	}
	var largest netip.Prefix
	for n, size := range w.crowds {
		if size > w.crowds[largest] {
			largest = n
		}
	}
	if w.crowds[largest] <= own+1 {
		return false
	}
	var oldest *arrival
	for a := range w.guests {
		if network(a.from.Addr()) == largest && (oldest == nil || a.born < oldest.born) {
			oldest = a
		}
	}
	w.sendAway(oldest, false)
	return true
}

// enlist counts one more that waits.
func (w *Worker) enlist(a *arrival) {
	w.guests[a] = struct{}{}
	w.crowds[network(a.from.Addr())]++
	w.count.Waiting.Add(1)
}

// strike counts one less.
func (w *Worker) strike(a *arrival) {
	delete(w.guests, a)
	n := network(a.from.Addr())
	if w.crowds[n]--; w.crowds[n] == 0 {
		delete(w.crowds, n)
	}
	w.count.Waiting.Add(-1)
}
