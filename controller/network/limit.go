package network

import (
	"time"

	"baton/controller/switches"
	"baton/controller/topology"
	"baton/packet"
)

// bucket is a token bucket.
type bucket struct {
	rate, size float64 // tokens a second, and at most
	tokens     float64
	at         time.Time
}

func (b *bucket) take(now time.Time) bool {
	if !b.at.IsZero() {
		b.tokens = min(b.size, b.tokens+b.rate*now.Sub(b.at).Seconds())
	}
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// limits are those of a port, so that no host has the controller work for others' loss.
type limits struct{ neighbour, flood, log bucket }

func (n *Network) limit(at topology.Point) *limits {
	l := n.limits[at]
	if l == nil {
		l = &limits{bucket{200, 400, 400, time.Time{}}, bucket{50, 100, 100, time.Time{}}, bucket{1, 5, 5, time.Time{}}}
		n.limits[at] = l
	}
	return l
}

// Bounds of packets whose destination is not known: for one, for all, and for how long.
const (
	mostForOne = 8
	mostForAll = 1024
	waitTime   = time.Second
)

// waiting keeps packets whose destination is asked for.
type waiting struct {
	packets map[packet.MAC][]held
	count   int
}

type held struct {
	switches.Packet
	until time.Time
}

func newWaiting() *waiting { return &waiting{packets: map[packet.MAC][]held{}} }

// add keeps a packet; first tells that no other one waits for its destination.
func (w *waiting) add(now time.Time, p switches.Packet) (first, kept bool) {
	dst := packet.Ethernet(p.Data).Dst()
	list := w.packets[dst]
	if len(list) >= mostForOne || w.count >= mostForAll {
		return false, false
	}
	w.packets[dst] = append(list, held{p, now.Add(waitTime)})
	w.count++
	return len(list) == 0, true
}

// take returns the packets for a destination.
func (w *waiting) take(dst packet.MAC) []switches.Packet {
	var all []switches.Packet
	for _, h := range w.packets[dst] {
		all = append(all, h.Packet)
	}
	w.count -= len(all)
	delete(w.packets, dst)
	return all
}

// expire drops packets that have waited too long, and counts them.
func (w *waiting) expire(now time.Time) int {
	dropped := 0
	for dst, list := range w.packets {
		n := 0
		for n < len(list) && !now.Before(list[n].until) {
			n++
		}
		if dropped += n; n == len(list) {
			delete(w.packets, dst)
		} else {
			w.packets[dst] = list[n:]
		}
	}
	w.count -= dropped
	return dropped
}
