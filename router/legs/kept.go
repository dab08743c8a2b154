package legs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	kernel "baton/datapath/router"
)

// With source: keep a leg starts from its client's own address and port, so it is opened for one client and is nobody
// else's. The data path finds it by the number that the client's decision has.

// keptRetry is how often to look whether the end of a leg on the same ports has been handled: its event is on its way.
const keptRetry = 2 * time.Millisecond

// kept is a leg that has been opened for a client, which may not have taken it yet.
type kept struct {
	number uint32
	since  time.Time
}

// ends are the two ends of a leg.
type ends struct{ router, server netip.AddrPort }

// errOldLeg: the last leg on these ports has ended, and is not free yet.
var errOldLeg = errors.New("its last leg is not free yet")

// KeptLeg is a leg from a client's own address and port.
type KeptLeg struct {
	Number    uint32
	Surrogate uint16 // that it was opened for: another one at the same address, if the session came from there
	Waits     bool   // for the client; else its session is on it already
}

// WaitKept waits until the surrogate has a leg from the client's own address and port, opening one if there is none.
func (m *Manager) WaitKept(ctx context.Context, id uint16, classID uint8, client, vip netip.AddrPort) (KeptLeg, error) {
	for {
		k, up, err := m.askKept(id, classID, client, vip)
		switch {
		case errors.Is(err, errOldLeg):
			select {
			case <-time.After(keptRetry):
				continue
			case <-ctx.Done():
			}
			return k, fmt.Errorf("%w: %w", ErrNoLeg, err)
		case err != nil:
			return k, fmt.Errorf("%w: %w", ErrNoLeg, err)
		case up == nil:
			return k, nil
		}
		select {
		case err := <-up:
			return k, err
		case <-ctx.Done():
			m.stopWaitingKept(k.Number, up)
			return k, fmt.Errorf("%w in time", ErrNoLeg)
		}
	}
}

// askKept returns the client's leg to the surrogate. Whether it comes up will be sent to up; nil: it is up.
func (m *Manager) askKept(id uint16, classID uint8, client, vip netip.AddrPort) (k KeptLeg, up chan error, err error) {
	m.ensureRoute(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pools[id]
	switch {
	case p == nil || !p.usable || p.local:
		return k, nil, errors.New("the surrogate is not usable")
	case p.noTS && classID&1 != 0:
		return k, nil, errors.New("the surrogate refuses timestamps")
	case client.Addr() == p.server.Addr():
		return k, nil, errors.New("the surrogate is the client itself")
	}
	number, ok := m.kept[ends{client, p.server}]
	k = KeptLeg{Number: number, Surrogate: id, Waits: true}
	if !ok {
		if err := m.checkRoomLocked(p); err != nil {
			return k, nil, err
		}
		o, err := m.openLegFromLocked(p, kernel.Leg{Class: classID, Router: client, Keep: true}, m.o.Now())
		if err != nil {
			return k, nil, err
		}
		k.Number = o.leg.Number
		return k, o.addWaiter(), nil
	}
	s, err := m.o.Kernel.Splice(number)
	if err != nil {
		return k, nil, err
	}
	switch s.State {
	case kernel.Opening:
		if o := p.opening[number]; o != nil && o.leg.Class == classID {
			return k, o.addWaiter(), nil
		}
		return k, nil, errOldLeg // another client on the same port has gone
	case kernel.Idle:
		if s.Class == classID && m.owner[number] == p {
			return k, nil, nil
		}
		if old := m.owner[number]; old != nil {
			m.retireLegLocked(old, s)
		}
		return k, nil, errOldLeg
	case kernel.Active, kernel.Closing:
		if s.Client == client && s.VIP == vip {
			k.Surrogate, k.Waits = s.Surrogate, false
			return k, nil, nil
		}
		return k, nil, fmt.Errorf("%v has a session with it already, of VIP %v", client, s.VIP)
	}
	return k, nil, errOldLeg
}

// addWaiter adds a request to those that wait for the leg.
func (o *opening) addWaiter() chan error {
	up := make(chan error, 1)
	o.waiters = append(o.waiters, up)
	return up
}

// answerWaiters ends the wait for the leg.
func (o *opening) answerWaiters(err error) {
	for _, w := range o.waiters {
		w <- err
	}
	o.waiters = nil
}

func (m *Manager) stopWaitingKept(number uint32, up chan error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.owner[number]; p != nil {
		if o := p.opening[number]; o != nil {
			o.waiters = slices.DeleteFunc(o.waiters, func(w chan error) bool { return w == up })
		}
	}
}

// noteFailureLocked handles a leg that the surrogate has refused or not answered. Of a leg from a client's address that
// may be the client's own doing, such as an address that the surrogate denies, or reaches by another way.
func (m *Manager) noteFailureLocked(p *pool, keep bool, why string, now time.Time) {
	if keep {
		m.reports.addDoubt(p.name)
		if why == "timeout" && !p.keptKnown {
			p.keptKnown = true
			m.o.Log.Warn("the surrogate does not answer a client's address: "+
				"its route to the clients must lead through this host",
				"surrogate", p.name, "address", p.server)
		}
		return
	}
	p.backOffOpening(now)
	m.reports.addFailure(p.name, why)
}

// noteKeptUpLocked handles a leg for a client that is up.
func (m *Manager) noteKeptUpLocked(p *pool, o *opening, s kernel.Splice) {
	p.kept = append(p.kept, kept{s.Number, m.o.Now()})
	p.keptKnown = true
	if o == nil {
		return
	}
	if s.Class != o.leg.Class {
		o.answerWaiters(fmt.Errorf("%w: the surrogate refuses timestamps", ErrNoLeg))
		return
	}
	o.answerWaiters(nil)
}

// renewKeptLocked retires the legs that their clients have not taken.
func (m *Manager) renewKeptLocked(p *pool, all bool, now time.Time) {
	p.kept = slices.DeleteFunc(p.kept, func(k kept) bool {
		s, err := m.o.Kernel.Splice(k.number)
		if err != nil || s.State != kernel.Idle || !s.Keep || m.owner[k.number] != p {
			return true
		}
		if !all && now.Sub(k.since) < leftIdle {
			return false
		}
		m.retireLegLocked(p, s)
		return true
	})
}

// handleStaleLocked repeats the SYN of a leg that met a connection on the same ports at the surrogate, which the data
// path has reset.
func (m *Manager) handleStaleLocked(e kernel.Event, now time.Time) {
	p := m.owner[e.Splice]
	if p == nil {
		return
	}
	s, err := m.o.Kernel.Splice(e.Splice)
	o := p.opening[e.Splice]
	if err != nil || o == nil || s.State != kernel.Opening || o.tries >= synTries {
		return
	}
	o.tries++
	o.sent = now
	_ = m.o.Wire.SYN(o.leg, m.o.MSS[o.leg.Class>>1])
}
