package worker

import "net/netip"

// Anyone can open a trunk and leave it idle: an opener authenticates itself by its header only when a flow needs the trunk (TLS trunks do
// so earlier). So when the limit is reached, each source prefix gets a fair share of it.

// sourcePrefix is the unit of the limit: an IPv4 address, or an IPv6 /64, of which one host can use every address.
func sourcePrefix(a netip.Addr) netip.Prefix {
	bits := 32
	if a = a.Unmap(); a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // never fails
	return p
}

// admitTrunk reports whether a trunk from an address is admitted. At the limit it evicts the oldest one of the prefix with the most trunks,
// unless the newcomer's prefix would then have more.
func (w *Worker) admitTrunk(from netip.Addr) bool {
	if len(w.idle) < max(1, w.cfg.Trunks.Waiting/w.o.Of) {
		return true
	}
	w.count.Full.Add(1)
	own := w.idlePerPrefix[sourcePrefix(from)]
	if 2*own >= len(w.idle) { // no prefix has more
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

// addIdle counts one more idle trunk.
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
