package legs

import (
	"errors"
	"math/bits"
	"time"

	kernel "baton/datapath/router"
)

// A leg that has served a client fits clients at the same distance: each band has a queue, created when the kernel
// program first has a leg for it.

// mostQueues bounds the queues made at once, and so how long the legs wait for that: each takes some 60 µs.
const mostQueues = 512

// errNoQueue: the next Tick, or ensureQueues, makes the queue.
var errNoQueue = errors.New("the surrogate's queue of idle legs is not made yet")

// hasQueueLocked reports whether there is a queue of idle legs. If not, it is wanted.
func (m *Manager) hasQueueLocked(p *pool, classID, band uint8) bool {
	has := p.ensureClass(classID).bands&(1<<band) != 0
	if !has {
		m.wanted[kernel.LegQueue{Surrogate: p.id, Class: classID, Band: band}] = true
	}
	return has
}

// hasQueuesLocked reports whether there are the queues that a new leg needs: for itself, and for when it has served.
func (m *Manager) hasQueuesLocked(p *pool, classID uint8) bool {
	fresh := m.hasQueueLocked(p, classID, kernel.BandFresh)
	return m.hasQueueLocked(p, classID, kernel.BandNearest) && fresh
}

// takeWanted takes some of the queues that are wanted.
func (m *Manager) takeWanted() (queues []kernel.LegQueue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for q := range m.wanted {
		if len(queues) == mostQueues {
			break
		}
		delete(m.wanted, q)
		queues = append(queues, q)
	}
	return queues
}

// makeQueues makes queues that are wanted, without the lock: the kernel waits once for all its running programs. False:
// there are no new ones.
func (m *Manager) makeQueues() bool {
	queues := m.takeWanted()
	if len(queues) == 0 {
		return false
	}
	err := m.o.Kernel.MakeQueues(queues)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil { // those that wait for a leg, or the next resting tick, want them again
		m.o.Log.Error("no legs to some surrogates", "queues", len(queues), "err", err)
		return false
	}
	for _, q := range queues {
		if p := m.pools[q.Surrogate]; p != nil {
			p.ensureClass(q.Class).bands |= 1 << q.Band
			p.due = time.Time{}
		}
	}
	return true
}

// ensureQueues makes the queues for a leg that a request waits for.
func (m *Manager) ensureQueues(id uint16, classID uint8) {
	m.mu.Lock()
	p := m.pools[id]
	missing := p != nil && p.mayServe(classID) && !m.hasQueuesLocked(p, classID)
	m.mu.Unlock()
	if missing {
		m.makeQueues()
	}
}

// findQueuesLocked finds the queues of an earlier process.
func (m *Manager) findQueuesLocked(p *pool, classID uint8, c *class) {
	if c.looked {
		return
	}
	c.looked = true
	for band := range kernel.BandFar {
		if m.o.Kernel.HasQueue(p.id, classID, band) {
			c.bands |= 1 << band
		}
	}
}

// listQueues lists the bands with a queue; the fresh legs are last and so retired last.
func (c *class) listQueues() []uint8 {
	var all []uint8
	for rest := c.bands &^ (1 << kernel.BandFresh); rest != 0; rest &= rest - 1 {
		all = append(all, uint8(bits.TrailingZeros32(rest)))
	}
	return append(all, kernel.BandFresh)
}

// popIdleLocked pops the leg that has been idle longest. False: there is none.
func (m *Manager) popIdleLocked(p *pool, classID, band uint8) (kernel.Splice, bool, error) {
	for {
		number, ok, err := m.o.Kernel.PopIdle(p.id, classID, band)
		if err != nil || !ok {
			return kernel.Splice{}, false, err
		}
		s, err := m.o.Kernel.Splice(number)
		if err == nil && s.State == kernel.Idle && s.Surrogate == p.id && s.Class == classID && s.Band == band {
			return s, true, nil
		} // else it has died in the queue
	}
}

// evictIdleLocked retires an idle leg that fits only some clients.
func (m *Manager) evictIdleLocked(p *pool) {
	for id, c := range p.classes {
		for _, band := range c.listQueues() {
			if band == kernel.BandFresh {
				break
			}
			if s, ok, err := m.popIdleLocked(p, id, band); err == nil && ok {
				m.retireLegLocked(p, s)
				return
			}
		}
	}
}
