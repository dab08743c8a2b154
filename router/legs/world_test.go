package legs

import (
	"errors"
	"fmt"
	"net/netip"

	kernel "baton/datapath/router"
)

// The fake kernel, wire and routes.

func (w *world) Sessions() int { return 8 }

func (w *world) EachSplice(f func(kernel.Splice) error) error {
	for n := range uint32(w.Sessions()) {
		if s := w.splices[n]; s != nil {
			if err := f(*s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) Splice(number uint32) (kernel.Splice, error) {
	if s := w.splices[number]; s != nil {
		return *s, nil
	}
	return kernel.Splice{}, errors.New("free")
}

func (w *world) Surrogate(uint16) (kernel.Surrogate, error) { return w.counted, nil }

func (w *world) OpenLeg(l kernel.Leg) error {
	for _, s := range w.splices {
		if s.Router == l.Router && s.Server == l.Server {
			return fmt.Errorf("%v is in use", l.Router)
		}
	}
	w.note("open class %d", l.Class)
	if l.Late > 0 {
		w.late[l.Number] = true
	}
	w.splices[l.Number] = &kernel.Splice{
		Number: l.Number, State: kernel.Opening, Class: l.Class, Surrogate: l.Surrogate,
		Server: l.Server, Router: l.Router, Keep: l.Keep,
	}
	return nil
}

func (w *world) FreeLeg(number uint32, _, _ netip.AddrPort) error {
	delete(w.splices, number)
	delete(w.late, number)
	w.note("free")
	return nil
}

func (w *world) FreeLegs(legs []kernel.Leg) error {
	for _, l := range legs {
		_ = w.FreeLeg(l.Number, l.Server, l.Router)
	}
	return nil
}

func (w *world) CompleteLegs(_ uint16, legs []kernel.Leg) ([]kernel.Splice, error) {
	done := make([]kernel.Splice, len(legs))
	for i, l := range legs {
		if s := w.splices[l.Number]; s != nil && s.State == kernel.Answered {
			w.idle(s, kernel.BandFresh)
			done[i] = *s
		}
	}
	return done, nil
}

func (w *world) Retire(number uint32, _ uint16) (bool, error) {
	s := w.splices[number]
	if s.State != kernel.Idle {
		return false, nil
	}
	w.leavesIdle(s)
	s.State = kernel.Dead
	return true, nil
}

func (w *world) LimitRequests(_ uint16, requests uint32) error {
	w.note("limit %d", requests)
	return nil
}

func (w *world) MakeQueues(queues []kernel.LegQueue) error {
	if w.m.mu.TryLock() {
		w.m.mu.Unlock()
	} else {
		w.t.Error("queues are made with the lock held")
	}
	w.made = append(w.made, len(queues))
	for _, made := range queues {
		if q := queueName(made.Class, made.Band); w.queues[q] == nil {
			w.queues[q] = nil
		}
	}
	return nil
}

func (w *world) HasQueue(_ uint16, class, band uint8) bool {
	_, ok := w.queues[queueName(class, band)]
	return ok
}

func (w *world) PopIdle(_ uint16, class, band uint8) (uint32, bool, error) {
	q := queueName(class, band)
	if len(w.queues[q]) == 0 {
		return 0, false, nil
	}
	first := w.queues[q][0]
	w.queues[q] = w.queues[q][1:]
	return first, true, nil
}

func (w *world) PushIdle(_ uint16, class, band uint8, number uint32) error {
	q := queueName(class, band)
	w.queues[q] = append(w.queues[q], number)
	return nil
}

func (w *world) Attach(ifindex int) error {
	w.note("attach %d", ifindex)
	return nil
}

func (w *world) SetPaths(_ uint16, ifindexes []int) error {
	w.note("paths %v", ifindexes)
	return nil
}

func (w *world) To(netip.Addr) (Route, error) {
	w.lookedUp()
	return w.route, w.unrouted
}

func (w *world) SYN(kernel.Leg, uint16) error { w.note("SYN"); return nil }

func (w *world) ACK(kernel.Splice, uint32) error { w.note("ACK"); return nil }

func (w *world) Flush() error { return nil }

func (w *world) Refuse(kernel.Splice) error { w.note("400"); return nil }

func (w *world) Reset(netip.AddrPort, netip.AddrPort, uint32) error {
	w.note("RST to client")
	return nil
}

func (w *world) TooBig(b kernel.TooBig) error { w.note("MTU %d", b.MTU); return nil }

func (w *world) End(kernel.Splice) error { w.note("RST"); return nil }
