package legs

import (
	"math/bits"

	kernel "baton/datapath/router"
)

// A leg that has served a client fits clients as far away as that one: each band of them has a queue, made when the kernel
// program first has a leg for it.

// makeQueue makes a queue of idle legs where there is none.
func (m *Manager) makeQueue(p *pool, classID, band uint8) error {
	c := p.class(classID)
	if c.bands&(1<<band) != 0 {
		return nil
	}
	if err := m.o.Kernel.MakeQueue(p.id, classID, band); err != nil {
		return err
	}
	c.bands |= 1 << band
	return nil
}

// look finds the queues that an earlier process has made.
func (m *Manager) look(p *pool, classID uint8, c *class) {
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

// queues are the bands that have one, the fresh legs last: they are the last to be given up.
func (c *class) queues() []uint8 {
	var all []uint8
	for rest := c.bands &^ (1 << kernel.BandFresh); rest != 0; rest &= rest - 1 {
		all = append(all, uint8(bits.TrailingZeros32(rest)))
	}
	return append(all, kernel.BandFresh)
}

// popIdle takes the longest idle leg out of a queue. False: there is none.
func (m *Manager) popIdle(p *pool, classID, band uint8) (kernel.Splice, bool, error) {
	for {
		number, ok, err := m.o.Kernel.PopIdle(p.id, classID, band)
		if err != nil || !ok {
			return kernel.Splice{}, false, err
		}
		s, err := m.o.Kernel.Splice(number)
		if err == nil && s.State == kernel.Idle && s.Surrogate == p.id && s.Class == classID && s.Band == band {
			return s, true, nil
		} // else dead while it lay there
	}
}

// evict retires an idle leg that not every client can use.
func (m *Manager) evict(p *pool) {
	for id, c := range p.classes {
		for _, band := range c.queues() {
			if band == kernel.BandFresh {
				break
			}
			if s, ok, err := m.popIdle(p, id, band); err == nil && ok {
				m.retire(p, s)
				return
			}
		}
	}
}
