package legs

import (
	"math/bits"

	kernel "baton/datapath/router"
)

// A leg that has served a client fits clients at the same distance: each band has a queue, created when the kernel
// program first has a leg for it.

// makeQueueLocked creates a queue of idle legs if there is none.
func (m *Manager) makeQueueLocked(p *pool, classID, band uint8) error {
	c := p.ensureClass(classID)
	if c.bands&(1<<band) != 0 {
		return nil
	}
	if err := m.o.Kernel.MakeQueue(p.id, classID, band); err != nil {
		return err
	}
	c.bands |= 1 << band
	return nil
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
