package quic

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"baton/datapath"
	kernel "baton/datapath/quic"
	"baton/packet"
	"baton/packet/hello"
	"baton/packet/quic"
	"baton/router/config"
	"baton/router/flight"
	"baton/router/legs"
)

// Target is the surrogate for a connection.
type Target struct {
	Surrogate string // its name
	Address   netip.AddrPort
	Keep      bool // it sees the client's address
}

// Refusal is why a connection has no surrogate.
type Refusal string

// The refusals. Those of flight.Reason are others.
const (
	NoVIP       Refusal = "no_vip"       // the VIP has been removed
	NoName      Refusal = "no_name"      // the hello has no name, and no route is for such
	NoRoute     Refusal = "no_route"     // no route matches
	NoSurrogate Refusal = "no_surrogate" // none is up
	// UnknownVersion is of QUIC: its hello cannot be read, and no route is for those without a name.
	UnknownVersion Refusal = "unknown_version"

	badHello     Refusal = "bad_hello"     // the hello is malformed
	unknownID    Refusal = "unknown_id"    // no surrogate is known by the connection id
	ambiguousID  Refusal = "ambiguous_id"  // two surrogates have chosen it
	noRoom       Refusal = "sessions_full" // all sessions are in use
	noPort       Refusal = "ports_full"    // all ports towards the surrogate are in use
	busy         Refusal = "busy"          // the client's port is in use, for another surrogate
	taken        Refusal = "source_taken"  // the surrogate sees another session come from that address
	unreachable  Refusal = "unreachable"   // there is no route to the surrogate
	onThisHost   Refusal = "on_this_host"  // the surrogate is on this host, where the program does not see its replies
	kernelFailed Refusal = "kernel_failed"
)

// Options make a Server.
type Options struct {
	Kernel *kernel.QUIC
	Tap    *datapath.Tap
	Routes interface {
		To(surrogate netip.Addr) (legs.Route, error)
	}
	Ports legs.PortRange // of the router, towards surrogates
	// Decide chooses for a hello; nil is the hello of a version that cannot be read.
	// sessions counts those of a surrogate.
	Decide func(vip, client netip.AddrPort, h *hello.Hello, sessions func(surrogate netip.AddrPort) int) (Target, Refusal)
	// Named finds the surrogate that the connection id of a packet names (server_id).
	Named func(vip netip.AddrPort, p *quic.Packet) (Target, bool)
	// Known is the surrogate of that address.
	Known func(vip, surrogate netip.AddrPort) Target

	// Ended is told of each session that has ended, and of the name in its hello, if this process has read that. It must not block.
	Ended func(s *kernel.Session, name string)

	Timeouts func() config.Timeouts
	Log      *slog.Logger
}

// Limits of upcalls for each prefix of clients, an IPv4 /24 or IPv6 /56. A hello takes one to three, and some 50 µs of a processor.
const (
	upcallRate  = 2000 // a second
	upcallBurst = 4000
)

// Server makes the sessions of QUIC clients.
type Server struct {
	o       Options
	started time.Time

	mu       sync.Mutex
	flights  *flight.Gatherer
	sessions sessions
	routes   map[netip.Addr]cachedRoute
	refused  map[Refusal]uint64
	made     uint64              // sessions, of hellos
	moved    uint64              // sessions, of connection ids
	evicted  map[string]uint64   // sessions of connection ids, by reason
	reach    map[netip.Addr]bool // surrogates to be ready for
	out      []byte              // a frame to be replayed
}

// New adopts the kernel's sessions. Nothing is answered before Run.
func New(o Options) (*Server, error) {
	s := &Server{
		o: o, started: time.Now(), flights: flight.New(flight.Defaults),
		routes: make(map[netip.Addr]cachedRoute), refused: make(map[Refusal]uint64), evicted: make(map[string]uint64),
	}
	for _, reason := range evictions {
		s.evicted[reason] = 0
	}
	s.sessions.init(o.Ports, o.Kernel.Sessions())
	err := o.Kernel.Each(func(k kernel.Session) error {
		s.sessions.adopt(&k)
		return nil
	})
	s.sessions.number(o.Kernel.Sessions())
	return s, err
}

// Start has the kernel send upcalls, which wait for Run.
func (s *Server) Start() error {
	if err := s.o.Kernel.AttachReplay(s.o.Tap.Ifindex); err != nil {
		return err
	}
	return s.o.Kernel.SetConfig(kernel.Config{Tap: s.o.Tap.Ifindex, Rate: upcallRate, Burst: upcallBurst})
}

// Run serves until ctx is done. Sessions continue in the kernel afterwards. It closes the tap.
func (s *Server) Run(ctx context.Context) error {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		if err := s.o.Kernel.SetConfig(kernel.Config{}); err != nil {
			s.o.Log.Error("cannot refuse new QUIC connections", "err", err)
		}
		s.o.Tap.Close()
	})
	defer func() {
		if !stop() {
			<-stopped // the owner closes the kernel's side next
		}
	}()
	sweeping, cancel := context.WithCancel(ctx)
	var sweeper sync.WaitGroup
	defer sweeper.Wait()
	defer cancel()
	sweeper.Go(func() { s.sweepUntil(sweeping) })
	b := make([]byte, 65536+datapath.VnetHeader+packet.EthernetSize)
	for {
		n, err := s.o.Tap.Read(b)
		if ctx.Err() != nil || errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if n > datapath.VnetHeader {
			s.handle(b[:n])
		}
	}
}

// upcall is a datagram that the kernel has sent here.
type upcall struct {
	packet.Datagram
	frame packet.Frame
	raw   []byte // with the tap's header
	in    int    // interface
}

func (s *Server) handle(raw []byte) {
	f, err := packet.Parse(raw[datapath.VnetHeader:])
	if err != nil {
		return
	}
	u := upcall{frame: f, raw: raw}
	var ok bool
	if u.Datagram, ok = f.Datagram(); !ok {
		return
	}
	if u.in, ok = kernel.ReadMAC([6]byte(f.Bytes[6:12])); !ok {
		return // broadcasts of neighbours
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	number, has, err := s.o.Kernel.Find(u.Src, u.Dst)
	if err != nil {
		s.refuse(&u, kernelFailed)
		return
	}
	p, _, _ := quic.Parse(u.Payload) // of what cannot be parsed, no flight begins
	server, chosen, _ := s.o.Kernel.Server(u.Dst, p.Destination)
	switch {
	case has && (chosen || p.Kind == quic.Short || p.Kind == quic.Handshake): // it came while the decision was made
		s.replay(u.raw)
	case has:
		s.again(&u, number)
	case p.Kind == quic.Short || p.Kind == quic.Handshake || chosen && !server.Own:
		s.follow(&u, &p)
	default:
		s.begin(&u)
	}
}

// gather holds the datagram, or reads the hello if that is whole.
func (s *Server) gather(u *upcall) (r flight.Result, h *hello.Hello, why Refusal) {
	r = s.flights.Add(flight.Tuple{Client: u.Src, VIP: u.Dst}, u.Payload, time.Since(s.started))
	switch r.Outcome {
	case flight.Hello:
		read, err := hello.ReadMessage(r.Message)
		if err != nil {
			return r, nil, badHello
		}
		return r, &read, ""
	case flight.Refused:
		return r, nil, Refusal(strings.ReplaceAll(r.Reason.String(), " ", "_"))
	}
	return r, nil, ""
}

// begin is for a client without a session.
func (s *Server) begin(u *upcall) {
	r, h, why := s.gather(u)
	held := r.Datagrams
	switch {
	case r.Outcome == flight.More:
		return
	case why == UnknownVersion:
		held = [][]byte{u.Payload}
	case why != "":
		s.refuse(u, why)
		return
	}
	target, why := s.decide(u, h)
	if why == "" {
		why = s.placeSession(u, &target, h, kernel.Session{})
	}
	if why != "" {
		s.refuse(u, why)
		return
	}
	s.made++
	s.forward(u, &target, &r, held)
}

// quiet is how long a client's session must have been idle before a connection from the same port ends it. Without it anybody could end
// a session by an Initial with its client's address.
const quiet = 10 * time.Second

// again is for a client that has a session, and begins another connection from the same port, or repeats what is not
// known any more. A session of a version that cannot be read is for Version Negotiation: what the client sends then is
// routed by its name.
func (s *Server) again(u *upcall, number uint32) {
	r, h, why := s.gather(u)
	switch {
	case r.Outcome == flight.More:
		return
	case why != "":
		s.replay(u.raw) // its surrogate may make sense of it
		return
	}
	target, why := s.decide(u, h)
	old, ok, err := s.o.Kernel.Session(number)
	switch {
	case why != "":
	case err != nil || !ok:
		why = kernelFailed
	case old.Surrogate == target.Address:
		if s.sessions.unread[number] {
			s.sessions.noteHello(number, h)
		}
		s.forward(u, &target, &r, r.Datagrams)
		return
	case old.Idle < quiet && (!s.sessions.unread[number] || old.Confirmed):
		why = busy
	default:
		if err := s.end(&old); err != nil {
			why = kernelFailed
			break
		}
		why = s.placeSession(u, &target, h, kernel.Session{})
	}
	if why != "" {
		s.refuse(u, why)
		return
	}
	s.made++
	s.forward(u, &target, &r, r.Datagrams)
}

func (s *Server) decide(u *upcall, h *hello.Hello) (Target, Refusal) {
	return s.o.Decide(u.Dst, u.Src, h, func(at netip.AddrPort) int { return s.sessions.counts[at] })
}

// forward replays a flight to the surrogate that was chosen.
func (s *Server) forward(u *upcall, t *Target, r *flight.Result, held [][]byte) {
	if r.Outcome == flight.Hello {
		if err := s.o.Kernel.Own(u.Dst, r.Packet.Destination, t.Address); err != nil {
			s.o.Log.Error("cannot add QUIC connection id", "err", err)
		}
	}
	for _, payload := range held {
		s.replay(s.rebuild(u, payload))
	}
}

// follow finds the surrogate of a connection whose client has another address than before.
func (s *Server) follow(u *upcall, p *quic.Packet) {
	target, k, why := s.byID(u, p)
	if why == "" {
		why = s.makeRoomLocked(u.Src, &target, k.Origin)
	}
	if why == "" {
		why = s.placeSession(u, &target, &hello.Hello{}, k)
	}
	if why != "" {
		s.refuse(u, why)
		return
	}
	s.moved++
	s.replay(u.raw)
}

// byID finds the surrogate that has chosen the packet's connection id, or the one that the id names, which anybody can
// make up. The session is for place, with the first one of the connection if that is known.
func (s *Server) byID(u *upcall, p *quic.Packet) (Target, kernel.Session, Refusal) {
	k := kernel.Session{Moved: true}
	ids := [][]byte{p.Destination}
	if p.Kind == quic.Short {
		lengths, err := s.o.Kernel.Lengths(u.Dst)
		if err != nil {
			return Target{}, k, kernelFailed
		}
		ids = ids[:0]
		for _, n := range lengths {
			if id, ok := p.ShortID(n); ok {
				ids = append(ids, id)
			}
		}
	}
	why := unknownID
	for _, id := range ids {
		at, ok, err := s.o.Kernel.Server(u.Dst, id)
		switch {
		case err != nil:
			return Target{}, k, kernelFailed
		case ok && at.Ambiguous:
			why = ambiguousID
		case ok && !at.Own:
			k.ID = id
			if k.Origin, err = s.o.Kernel.FindOrigin(at.Learner); err != nil {
				return Target{}, k, kernelFailed
			}
			return s.o.Known(u.Dst, at.Surrogate), k, ""
		}
	}
	if t, ok := s.o.Named(u.Dst, p); ok {
		return t, k, ""
	}
	return Target{}, k, why
}

func (s *Server) refuse(u *upcall, why Refusal) {
	s.refused[why]++
	s.o.Log.Debug("QUIC connection refused", "client", u.Src, "vip", u.Dst, "reason", string(why))
}

// replay has the kernel translate a frame.
func (s *Server) replay(raw []byte) {
	if err := s.o.Tap.Write(raw); err != nil {
		s.o.Log.Debug("cannot replay datagram", "err", err)
	}
}

// rebuild makes the frame of another datagram of the client.
func (s *Server) rebuild(u *upcall, payload []byte) []byte {
	d := packet.DatagramSpec{Src: u.Src, Dst: u.Dst, TTL: u.frame.TTL(), Payload: payload}
	if u.frame.Family == packet.FamilyIPv4 {
		d.TOS = u.frame.IPv4().TOS()
	} else {
		d.TOS = u.frame.IPv6().TrafficClass()
	}
	s.out = append(append(s.out[:0], make([]byte, datapath.VnetHeader)...), packet.BuildDatagram(d)...)
	return s.out
}
