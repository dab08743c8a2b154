package quic

import (
	"container/list"
	"net/netip"

	kernel "baton/datapath/quic"
	"baton/router/flight"
)

// Anybody can have sessions of moved clients made who knows a connection id, with any source address. So they have
// bounds, and what is not proven to be a client's goes first.
const (
	// movedOfConnection is how many sessions a connection has beside that of its hello: the path it uses, one that it is
	// validating (RFC 9000, 9.3), and as many that their client has left.
	movedOfConnection = 4
	// A part of the table, and of the ports to one surrogate, that unproven sessions of moved clients have altogether, and
	// a prefix of clients of that.
	unprovenPart = 8
	prefixPart   = 8
	leastShare   = 16
	// movedReserve is the part of the table, and of the ports, that only hellos get.
	movedReserve = 4
)

// Why a session of a moved client had to go for another one.
const (
	evictedOfConnection = "connection" // its connection had movedOfConnection
	evictedOfPrefix     = "prefix"     // the share of its prefix was in use
	evictedOfAll        = "total"      // that of all prefixes was
)

var evictions = []string{evictedOfConnection, evictedOfPrefix, evictedOfAll}

// unproven is a session whose client may be forged.
type unproven struct {
	number  uint32
	prefix  netip.Prefix
	inAll   *list.Element
	inShare *list.Element
}

// moved are the sessions of clients that came from another address than before.
type moved struct {
	total, share int                          // bounds of unproven ones
	of           map[kernel.Identity][]uint32 // of each known origin
	unproven     map[uint32]*unproven
	all          list.List // *unproven, oldest first
	shares       map[netip.Prefix]*list.List
}

func (m *moved) setBounds(sessions, ports int) {
	total := max(min(sessions, ports)/unprovenPart, 1)
	*m = moved{
		total: total, share: max(total/prefixPart, min(total, leastShare)), of: make(map[kernel.Identity][]uint32),
		unproven: make(map[uint32]*unproven), shares: make(map[netip.Prefix]*list.List),
	}
}

// isProven tells whether a session is not one of many that its maker could have. Of an unknown origin it needs a
// confirmed client; otherwise it is enough that its client has sent more after the answer, as there are
// movedOfConnection.
func isProven(s *kernel.Session) bool {
	return s.Confirmed || s.Followed && s.Origin != (kernel.Identity{})
}

// addSession counts a session that has just been made, or adopted.
func (m *moved) addSession(s *kernel.Session) {
	if s.Origin != (kernel.Identity{}) {
		m.of[s.Origin] = append(m.of[s.Origin], s.Number)
	}
	if isProven(s) {
		return
	}
	u := &unproven{number: s.Number, prefix: flight.PrefixOf(s.Client.Addr())}
	if m.shares[u.prefix] == nil {
		m.shares[u.prefix] = new(list.List)
	}
	u.inAll, u.inShare = m.all.PushBack(u), m.shares[u.prefix].PushBack(u)
	m.unproven[s.Number] = u
}

// settleSession takes a session out of the shares, if it is in them.
func (m *moved) settleSession(number uint32) {
	u := m.unproven[number]
	if u == nil {
		return
	}
	delete(m.unproven, number)
	m.all.Remove(u.inAll)
	share := m.shares[u.prefix]
	if share.Remove(u.inShare); share.Len() == 0 {
		delete(m.shares, u.prefix)
	}
}

// removeSession forgets a session that has ended.
func (m *moved) removeSession(s *kernel.Session) {
	m.settleSession(s.Number)
	numbers := m.of[s.Origin]
	for i, n := range numbers {
		if n == s.Number {
			numbers = append(numbers[:i:i], numbers[i+1:]...)
			break
		}
	}
	if len(numbers) == 0 {
		delete(m.of, s.Origin)
	} else {
		m.of[s.Origin] = numbers
	}
}

// findVictim is the oldest unproven session that one of a prefix takes the place of, and why; "" if there is room.
func (m *moved) findVictim(prefix netip.Prefix) (number uint32, why string) {
	share := m.shares[prefix]
	switch {
	case share != nil && share.Len() >= m.share:
		return share.Front().Value.(*unproven).number, evictedOfPrefix
	case m.all.Len() >= m.total:
		return m.all.Front().Value.(*unproven).number, evictedOfAll
	}
	return 0, ""
}

// rankSession orders the sessions of one connection: the lowest goes first.
func rankSession(s *kernel.Session) int {
	switch {
	case s.Confirmed:
		return 2
	case s.Followed:
		return 1
	}
	return 0
}

// isWorse tells whether a session rather goes than another one of its connection: one whose client is less sure, else
// the one that has been idle longer.
func isWorse(a, b *kernel.Session) bool {
	if rankSession(a) != rankSession(b) {
		return rankSession(a) < rankSession(b)
	}
	return a.Idle > b.Idle
}

// makeRoomLocked ends the sessions that a moved client's takes the place of.
func (s *Server) makeRoomLocked(client netip.AddrPort, t *Target, origin kernel.Identity) Refusal {
	x := &s.sessions
	switch {
	case len(x.free) < s.o.Kernel.Sessions()/movedReserve:
		return noRoom
	case !t.Keep && x.counts[t.Address] > x.fixed.Size()-x.fixed.Size()/movedReserve:
		return noPort
	}
	if origin != (kernel.Identity{}) {
		if why := s.evictOfConnectionLocked(origin); why != "" {
			return why
		}
	}
	for {
		number, reason := x.moved.findVictim(flight.PrefixOf(client.Addr()))
		if reason == "" {
			return ""
		}
		k, ok, err := s.o.Kernel.Session(number)
		switch {
		case err != nil:
			return kernelFailed
		case !ok || isProven(&k):
			x.moved.settleSession(number)
			continue
		}
		if why := s.evictSessionLocked(&k, reason); why != "" {
			return why
		}
	}
}

// evictOfConnectionLocked ends the worst session of a connection that has as many as it may have.
func (s *Server) evictOfConnectionLocked(origin kernel.Identity) Refusal {
	numbers := s.sessions.moved.of[origin]
	if len(numbers) < movedOfConnection {
		return ""
	}
	var worst *kernel.Session
	for _, n := range numbers {
		k, ok, err := s.o.Kernel.Session(n)
		if err != nil || !ok {
			return kernelFailed
		}
		if worst == nil || isWorse(&k, worst) {
			worst = &k
		}
	}
	return s.evictSessionLocked(worst, evictedOfConnection)
}

func (s *Server) evictSessionLocked(k *kernel.Session, reason string) Refusal {
	if err := s.end(k); err != nil {
		s.o.Log.Error("cannot end QUIC session", "err", err)
		return kernelFailed
	}
	s.evicted[reason]++
	return ""
}
