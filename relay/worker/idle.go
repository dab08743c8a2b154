package worker

import "net/netip"

// Trunks that wait say nothing, and nobody but a relay has to say who it is before it wants one: strangers look like relays. So when the
// places are taken they are shared out among those who came for them.

// sourcePrefix is who has a place: an address, or of IPv6 the 64 bits behind which one host has all addresses it likes.
func sourcePrefix(a netip.Addr) netip.Prefix {
	bits := 32
	if a = a.Unmap(); a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // never fails
	return p
}

// admitTrunk finds a place for a trunk that comes from an address. If there is none the oldest one of the network that has the most makes room,
// unless the newcomer's would then have more.
func (w *Worker) admitTrunk(from netip.Addr) bool {
	if len(w.idle) < max(1, w.cfg.Trunks.Waiting/w.o.Of) {
		return true
	}
	w.count.Full.Add(1)
	own := w.idlePerPrefix[sourcePrefix(from)]
	if 2*own >= len(w.idle) { // nobody has more
		return false
	}
	var largest netip.Prefix
	for n, size := range w.idlePerPrefix {
		if size > w.idlePerPrefix[largest] {
			largest = n
		}
	}
	if w.idlePerPrefix[largest] <= own+1 {
		return false
	}
	var oldest *handshake
	for a := range w.idle {
		if sourcePrefix(a.from.Addr()) == largest && (oldest == nil || a.born < oldest.born) {
			oldest = a
		}
	}
	w.abortHandshake(oldest, false)
	return true
}

// addIdle counts one more that waits.
func (w *Worker) addIdle(a *handshake) {
	w.idle[a] = struct{}{}
	w.idlePerPrefix[sourcePrefix(a.from.Addr())]++
	w.count.Waiting.Add(1)
}

// removeIdle counts one less.
func (w *Worker) removeIdle(a *handshake) {
	delete(w.idle, a)
	n := sourcePrefix(a.from.Addr())
	if w.idlePerPrefix[n]--; w.idlePerPrefix[n] == 0 {
		delete(w.idlePerPrefix, n)
	}
	w.count.Waiting.Add(-1)
}
