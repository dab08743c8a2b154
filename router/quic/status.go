package quic

import (
	"maps"
	"net/netip"

	"baton/router/flight"
)

// Status is what a Server has done.
type Status struct {
	Sessions, Limit int
	Held            int    // first flights that are not whole
	Made            uint64 // sessions, of hellos
	Moved           uint64 // sessions of connections whose client came from another address
	Refused         map[Refusal]uint64
	Unproven        int               // sessions of moved clients that may be forged
	MovedEvicted    map[string]uint64 // sessions of moved clients that had to go for others, by reason
	Flights         flight.Counts
}

// Status returns the counts.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{
		Sessions: len(s.sessions.open), Limit: s.o.Kernel.Sessions(), Held: s.flights.Len(), Made: s.made, Moved: s.moved,
		Refused: maps.Clone(s.refused), Flights: s.flights.Counts(),
		Unproven: len(s.sessions.moved.unproven), MovedEvicted: maps.Clone(s.evicted),
	}
}

// Of counts the sessions of a surrogate.
func (s *Server) Of(surrogate netip.AddrPort) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions.counts[surrogate]
}
