package legs

import (
	"errors"
	"time"
)

// ErrNoPlace is returned when the data path's table is full of sessions and legs.
var ErrNoPlace = errors.New("limits.sessions is reached")

// relief is how long no leg must have lacked a place until the table counts as not full any more. Pools at rest try to
// open what they lack ten times a second.
const relief = 10 * time.Second

// shortage is a lack of places.
type shortage struct {
	is   bool
	last time.Time // that a leg lacked a place
}

// noteNoPlaceLocked handles a leg that has no place.
func (m *Manager) noteNoPlaceLocked() {
	m.short.last = m.o.Now()
	if m.short.is {
		return
	}
	m.short.is = true
	m.o.Log.Warn("the table of sessions is full: clients that find no idle leg are proxied",
		"limits.sessions", m.o.Kernel.Sessions())
}

// endShortageLocked notices that the table has places again.
func (m *Manager) endShortageLocked(now time.Time) {
	if !m.short.is || len(m.free) == 0 || now.Sub(m.short.last) < relief {
		return
	}
	m.short.is = false
	m.o.Log.Info("the table of sessions has places again", "free", len(m.free), "limits.sessions", m.o.Kernel.Sessions())
}

// Places are those of the data path's table of sessions.
type Places struct {
	Used  int // by sessions, idle legs and legs that are being opened
	Limit int
	Full  bool // a leg has lacked a place within the last seconds
}

// Places returns how full the table of sessions is.
func (m *Manager) Places() Places {
	m.mu.Lock()
	defer m.mu.Unlock()
	limit := m.o.Kernel.Sessions()
	return Places{Used: limit - len(m.free), Limit: limit, Full: m.short.is}
}
