package quic

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	kernel "baton/datapath/quic"
	"baton/packet/hello"
	"baton/router/config"
	"baton/router/legs"
)

// pair is a local address and a surrogate, between which a port is used once.
type pair struct {
	local     netip.Addr
	surrogate netip.AddrPort
}

// sessions are the numbers, ports and surrogates in use.
type sessions struct {
	free   []uint32 // numbers; the last one is next
	ended  []uint32 // datagrams may still be using them
	open   map[uint32]struct{}
	fixed  legs.PortRange
	ports  map[pair]*portSet
	moved  moved
	counts map[netip.AddrPort]int // by surrogate
	unread map[uint32]bool        // of a version that could not be read
	names  map[uint32]string      // in the hellos
}

func (x *sessions) init(ports legs.PortRange, size int) {
	*x = sessions{
		fixed: ports, open: make(map[uint32]struct{}), ports: make(map[pair]*portSet), counts: make(map[netip.AddrPort]int),
		unread: make(map[uint32]bool), names: make(map[uint32]string),
	}
	x.moved.setBounds(size, ports.Size())
}

// number makes all numbers free that no adopted session has.
func (x *sessions) number(size int) {
	for n := size - 1; n >= 0; n-- {
		if _, open := x.open[uint32(n)]; !open {
			x.free = append(x.free, uint32(n))
		}
	}
}

// portSet are the ports of a pair. Those that are free are taken in turn, so it stays for a while when none is in use.
type portSet struct {
	*legs.Ports
	emptied time.Time
}

func (x *sessions) portsOf(p pair) *portSet {
	if x.ports[p] == nil {
		x.ports[p] = &portSet{Ports: legs.NewPorts(x.fixed)}
	}
	return x.ports[p]
}

// freePort gives a port back.
func (x *sessions) freePort(p pair, port uint16, now time.Time) {
	set := x.portsOf(p)
	set.Free(port)
	if set.IsUnused() {
		set.emptied = now
	}
}

// removePorts forgets the sets that have been unused for so long: surrogates come and go.
func (x *sessions) removePorts(wait time.Duration, now time.Time) {
	for p, set := range x.ports {
		if set.IsUnused() && now.Sub(set.emptied) >= wait {
			delete(x.ports, p)
		}
	}
}

// opened counts a session.
func (x *sessions) opened(s *kernel.Session) {
	x.open[s.Number] = struct{}{}
	x.counts[s.Surrogate]++
	if s.Moved {
		x.moved.addSession(s)
	}
}

// adopt takes over a session of an earlier process.
func (x *sessions) adopt(s *kernel.Session) {
	if s.Source != s.Client {
		x.portsOf(pair{s.Source.Addr(), s.Surrogate}).Claim(s.Source.Port())
	}
	x.opened(s)
}

// close gives back what a session has, but its number only later.
func (x *sessions) close(s *kernel.Session) {
	delete(x.open, s.Number)
	delete(x.unread, s.Number)
	delete(x.names, s.Number)
	if s.Moved {
		x.moved.removeSession(s)
	}
	x.ended = append(x.ended, s.Number)
	if x.counts[s.Surrogate]--; x.counts[s.Surrogate] == 0 {
		delete(x.counts, s.Surrogate)
	}
	if s.Source != s.Client {
		x.freePort(pair{s.Source.Addr(), s.Surrogate}, s.Source.Port(), time.Now())
	}
}

// noteHello keeps what a session's hello says; nil: it cannot be read.
func (x *sessions) noteHello(number uint32, h *hello.Hello) {
	delete(x.unread, number)
	if h == nil {
		x.unread[number] = true
	} else if h.ServerName != "" {
		x.names[number] = h.ServerName
	}
}

// isCrowded tells whether there is little room for others: more than half of the table is in use, or of the ports to a
// surrogate.
func (x *sessions) isCrowded(s *kernel.Session, size int) bool {
	return len(x.open) > size/2 || s.Source != s.Client && x.counts[s.Surrogate] > x.fixed.Size()/2
}

// routeLife is how long a route to a surrogate is not looked up again.
const routeLife = time.Second

type cachedRoute struct {
	legs.Route
	until time.Time
}

// route looks up the route to a surrogate, and attaches the program to its interfaces.
func (s *Server) route(to netip.Addr) (legs.Route, error) {
	now := time.Now()
	if r, ok := s.routes[to]; ok && now.Before(r.until) {
		return r.Route, nil
	}
	r, err := s.o.Routes.To(to)
	if err != nil {
		return r, err
	}
	for _, ifindex := range r.Paths {
		if err := s.o.Kernel.Attach(ifindex); err != nil {
			return r, err
		}
	}
	if old, ok := s.routes[to]; !r.Local && (!ok || !slices.Equal(old.Paths, r.Paths)) {
		if err := s.o.Kernel.SetPaths(to, r.Paths); err != nil {
			return r, err
		}
	}
	s.routes[to] = cachedRoute{r, now.Add(routeLife)}
	return r, nil
}

// refreshRoutes looks up the routes to surrogates with sessions again, and forgets those to others, but for the ones to
// be ready for.
func (s *Server) refreshRoutes() {
	s.mu.Lock()
	used := make(map[netip.Addr]bool)
	for at := range s.sessions.counts {
		used[at.Addr()] = true
	}
	for to := range s.reach {
		used[to] = true
	}
	for to := range s.routes {
		if !used[to] {
			delete(s.routes, to)
		}
	}
	if err := s.o.Kernel.ForgetPaths(used); err != nil {
		s.o.Log.Error("cannot forget the routes to surrogates of QUIC", "err", err)
	}
	s.mu.Unlock()
	for to := range used {
		s.mu.Lock()
		if _, err := s.route(to); err != nil {
			s.o.Log.Debug("no route to a surrogate of QUIC", "surrogate", to, "err", err)
		}
		s.mu.Unlock()
	}
}

// Reach attaches the program to the interfaces towards surrogates. Those that cannot be reached are left out until they are chosen.
func (s *Server) Reach(surrogates []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reach = make(map[netip.Addr]bool)
	for _, to := range surrogates {
		s.reach[to] = true
		if _, err := s.route(to); err != nil {
			s.o.Log.Warn("no route to a surrogate of QUIC", "surrogate", to, "err", err)
		}
	}
}

// placeSession makes the session of a client. h is nil if its version cannot be read; k says whether the client has
// moved. Called with the lock.
func (s *Server) placeSession(u *upcall, t *Target, h *hello.Hello, k kernel.Session) Refusal {
	r, err := s.route(t.Address.Addr())
	switch {
	case err != nil:
		s.o.Log.Debug("no route to a surrogate", "surrogate", t.Surrogate, "err", err)
		return unreachable
	case r.Local:
		return onThisHost
	case len(s.sessions.free) == 0:
		return noRoom
	}
	k.Number = s.sessions.free[len(s.sessions.free)-1]
	k.Client, k.VIP, k.Source, k.Surrogate = u.Src, u.Dst, u.Src, t.Address
	k.In, k.Out = u.in, r.Ifindex
	if !t.Keep {
		port, ok := s.sessions.portsOf(pair{r.Source, t.Address}).Alloc()
		if !ok {
			return noPort
		}
		k.Source = netip.AddrPortFrom(r.Source, port)
	}
	if err := s.o.Kernel.Add(k); err != nil {
		if !t.Keep {
			s.sessions.freePort(pair{r.Source, t.Address}, k.Source.Port(), time.Now())
		}
		if errors.Is(err, kernel.ErrTaken) {
			return taken
		}
		s.o.Log.Error("cannot add QUIC session", "err", err)
		return kernelFailed
	}
	s.sessions.free = s.sessions.free[:len(s.sessions.free)-1]
	s.sessions.opened(&k)
	s.sessions.noteHello(k.Number, h)
	return ""
}

// sweepEvery is longer than a datagram is in the program.
const sweepEvery = time.Second

// routesEvery is how often routes are looked up without need: a change moves what a surrogate's datagrams may come in
// by.
const routesEvery = 10 * time.Second

// sweepUntil ends sessions that have timed out.
func (s *Server) sweepUntil(ctx context.Context) {
	tick, routes := time.NewTicker(sweepEvery), time.NewTicker(routesEvery)
	defer tick.Stop()
	defer routes.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-routes.C:
			s.refreshRoutes()
		case <-tick.C:
			if err := s.sweep(); err != nil {
				s.o.Log.Error("cannot sweep QUIC sessions", "err", err)
			}
		}
	}
}

// sweepRun is how many sessions are looked at while upcalls wait: a tenth of a millisecond.
const sweepRun = 128

func (s *Server) sweep() error {
	s.mu.Lock()
	s.flights.Expire(time.Since(s.started))
	s.sessions.removePorts(s.o.Timeouts().QUICIdle, time.Now())
	s.sessions.free, s.sessions.ended = append(s.sessions.free, s.sessions.ended...), nil
	numbers := make([]uint32, 0, len(s.sessions.open))
	for n := range s.sessions.open {
		numbers = append(numbers, n)
	}
	s.mu.Unlock()
	for len(numbers) > 0 {
		run := numbers[:min(len(numbers), sweepRun)]
		numbers = numbers[len(run):]
		if err := s.sweepSome(run); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) sweepSome(numbers []uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	timeouts := s.o.Timeouts()
	for _, n := range numbers {
		k, ok, err := s.o.Kernel.Session(n)
		if err != nil {
			return err
		}
		if _, open := s.sessions.open[n]; !ok || !open {
			continue
		}
		if k.Moved && isProven(&k) {
			s.sessions.moved.settleSession(n)
		}
		if !isOver(&k, &timeouts, s.sessions.isCrowded(&k, s.o.Kernel.Sessions())) {
			continue
		}
		if err := s.end(&k); err != nil {
			return err
		}
	}
	return nil
}

// isOver tells whether a session has timed out. One that may be forged ends after the handshake's time; one of a moved
// client that has sent nothing after an answer ends even if datagrams arrive: a few from anybody would keep it.
func isOver(k *kernel.Session, t *config.Timeouts, crowded bool) bool {
	switch {
	case k.Confirmed || k.Followed && !crowded:
		return k.Idle >= t.QUICIdle
	case k.Moved && !k.Followed:
		return k.Age >= min(t.Handshake, t.QUICIdle)
	}
	return k.Idle >= min(t.Handshake, t.QUICIdle)
}

// end ends a session. Called with the lock.
func (s *Server) end(k *kernel.Session) error {
	if err := s.o.Kernel.End(k); err != nil {
		return err
	}
	if s.o.Ended != nil {
		s.o.Ended(k, s.sessions.names[k.Number])
	}
	s.sessions.close(k)
	return nil
}
