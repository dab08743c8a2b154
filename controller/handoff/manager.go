package handoff

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"baton/api"
	"baton/controller/sessions"
	"baton/openflow"
	"baton/packet"
)

// Place is where a host is attached.
type Place struct {
	sessions.Point
	MAC packet.MAC
}

// Network is what the handoff needs of the rest of the controller. Its functions are called concurrently, Locate and Send with the manager's lock
// held: they must not call the manager.
type Network interface {
	// Locate finds a host that has sent nothing to a service yet: by its address, or if that is not known by the MAC address that packets to it have.
	Locate(netip.Addr, packet.MAC) (Place, bool)
	// Path is a shortest path from one host to another, which may be on the same switch.
	Path(from, to Place) ([]Hop, error)
	// Core reports whether a switch has the actions that join sessions.
	Core(sw uint64) bool
	// Ensure has packets from one host reach another.
	Ensure(ctx context.Context, from, to Place) error
	// Commit sends messages and waits for a barrier.
	Commit(ctx context.Context, sw uint64, messages ...openflow.Message) error
	// Send does not wait.
	Send(sw uint64, m openflow.Message) error
}

// Request is a request for which a surrogate is chosen.
type Request struct {
	Client  netip.AddrPort
	Service netip.AddrPort
	Host    string
	Request string   // "GET /path"
	Ready   []string // the surrogates to which the request router has a leg that fits
}

// Options configure a manager. Network and Choose are required; zero fields have defaults.
type Options struct {
	Network Network
	// Choose returns the name of one of the surrogates that are ready.
	Choose func(Request) (string, error)
	// Publish gets what has changed. It must not wait.
	Publish func(topic api.ControllerTopic, value any)
	// Ended gets the end of each attempt at a handoff: the surrogate, "" if none was chosen, and why it failed, "" if it did not: one of the keys
	// of Counts.Failed. It must not call the manager.
	Ended func(surrogate, failure string)
	// Heard gets whether the surrogate of a session has begun to answer its request, which it has acknowledged, within Answer. It must not call the manager.
	Heard func(surrogate string, answered bool)
	// Keep keeps the record of a session that was handed over, for another controller, and Forget removes it at its end. They must neither wait nor
	// call the manager.
	Keep   func(Record)
	Forget func(id uint32)
	Log    *slog.Logger
	// Strip removes timestamps, SACK-permitted and window scale from handshakes, as the paper does.
	Strip bool
	// Pin has every switch on a path get entries for a session: for paths that are spread by source and destination.
	Pin      bool
	Patience time.Duration // for a handoff, from the report of the request on. Default: 3 s
	Idle     time.Duration // of a handed-over session. Default: 2 min
	Answer   time.Duration // until a surrogate's answer begins, from its acknowledgement of the request on. Default: 10 s
	Rules    sessions.Rules
	History  int // handoffs that are remembered. Default: 1,000
}

// Manager has the sessions of the reactive mode.
type Manager struct {
	o   Options
	ctx context.Context
	end context.CancelFunc
	run sync.WaitGroup

	mu       sync.Mutex
	index    *index
	table    *sessions.Table
	handoffs map[uint32]*handoff // that have entries in switches, or are about to
	byLeg    map[*sessions.Session]*handoff
	byClient map[*sessions.Session]*handoff
	history  []*handoff
	next     uint32
	routers  map[uint64]api.ControllerHello // by connection
	opened   chan struct{}                  // closed, and replaced, when a leg is ready
	awaited  []*handoff                     // handed over, and not answered yet, the first to be due first
	leftover map[uint64]map[uint32]bool     // by switch: handoffs whose entries could not be removed
	counts   Counts
}

// Counts are sums since the start.
type Counts struct {
	Sessions         sessions.Counts
	Began, Done      uint64
	Ended            uint64            // handed-over sessions that are over
	Unanswered       map[string]uint64 // handed-over sessions whose surrogate has not answered in time, by surrogate
	Failed           map[string]uint64 // by reason
	Proxied          uint64            // sessions that request routers serve themselves
	Packets, Bytes   uint64            // of handed-over sessions that are over
	Forwarded        uint64            // packets that passed the controller
	Dropped          uint64            // packets that may not pass
	Lost             uint64            // packets for which there was no way
	BySurrogate      map[string]uint64
	Live, Remembered int
}

// New returns a manager; Close ends it.
func New(o Options, a Addresses) *Manager {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Publish == nil {
		o.Publish = func(api.ControllerTopic, any) {}
	}
	if o.Ended == nil {
		o.Ended = func(string, string) {}
	}
	if o.Heard == nil {
		o.Heard = func(string, bool) {}
	}
	if o.Keep == nil {
		o.Keep = func(Record) {}
	}
	if o.Forget == nil {
		o.Forget = func(uint32) {}
	}
	if o.Patience <= 0 {
		o.Patience = 3 * time.Second
	}
	if o.Idle <= 0 {
		o.Idle = 2 * time.Minute
	}
	if o.Answer <= 0 {
		o.Answer = 10 * time.Second
	}
	if o.History <= 0 {
		o.History = 1000
	}
	m := &Manager{o: o, opened: make(chan struct{}), index: newIndex(a), handoffs: map[uint32]*handoff{}, byLeg: map[*sessions.Session]*handoff{},
		byClient: map[*sessions.Session]*handoff{}, routers: map[uint64]api.ControllerHello{}, leftover: map[uint64]map[uint32]bool{}}
	m.counts.Failed, m.counts.BySurrogate, m.counts.Unanswered = map[string]uint64{}, map[string]uint64{}, map[string]uint64{}
	m.next = rand.Uint32() // entries of an earlier controller may still be in the switches
	m.table = sessions.New(o.Rules, func(from, to netip.AddrPort) sessions.Kind { return m.index.kind(from, to) })
	m.ctx, m.end = context.WithCancel(context.Background())
	m.run.Go(m.ticks)
	return m
}

// Close undoes the handoffs that are not complete, and leaves those that are to the switches.
func (m *Manager) Close() {
	m.end()
	m.run.Wait()
}

// Watched are the entries that each switch must have.
func (m *Manager) Watched() []*openflow.FlowMod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.Watched()
}

func (m *Manager) ticks() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case now := <-tick.C:
			m.mu.Lock()
			m.overdue(now)
			for _, e := range m.table.Tick(now) {
				m.gone(e.Session)
			}
			m.mu.Unlock()
		}
	}
}

// gone publishes the end of a session. The lock is held.
func (m *Manager) gone(s *sessions.Session) {
	if s.Kind == sessions.Client {
		s.State = api.ControllerClosed
		m.publish(s)
	}
}

func (m *Manager) publish(s *sessions.Session) {
	if s.Kind == sessions.Client {
		m.o.Publish(api.TopicSessions, m.described(s))
	}
}

// number returns the number of the next handoff. The lock is held.
func (m *Manager) number() uint32 {
	for {
		m.next++
		if m.next != 0 && m.handoffs[m.next] == nil {
			return m.next
		}
	}
}

// Packet takes a packet-in. It returns false for a packet that is not of the sessions that the manager has.
func (m *Manager) Packet(at sessions.Point, data []byte) bool {
	f, err := packet.Parse(data)
	if err != nil || f.Protocol != packet.ProtocolTCP {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.index.kind(f.Src, f.Dst) == sessions.Unknown && m.index.kind(f.Dst, f.Src) == sessions.Unknown {
		return false
	}
	if m.taken(at, f) {
		m.counts.Dropped++
		return true
	}
	now := time.Now()
	seen := m.table.See(now, at, f)
	if seen.Retired != nil {
		m.retire(seen.Retired)
	}
	s := seen.Session
	switch {
	case seen.Fate == sessions.Refuse:
		m.counts.Dropped++
		return true
	case s == nil:
		m.forward(f, nil)
		return true
	}
	m.trail(now, seen, f)
	pass := false
	if s.Kind == sessions.Client {
		pass = m.ofClient(seen, f)
	} else {
		pass = m.ofLeg(seen, f)
	}
	if seen.Changed {
		m.publish(s)
		if s.Kind == sessions.Leg && s.Leg == sessions.Idle {
			close(m.opened)
			m.opened = make(chan struct{})
		}
	}
	if pass && seen.Fate == sessions.Forward {
		m.forward(f, &seen)
	} else {
		m.counts.Dropped++
	}
	return true
}

// taken refuses a leg with the addresses of one that was handed over: the request router's socket has ended, and the session lives. The lock is held.
func (m *Manager) taken(at sessions.Point, f packet.Frame) bool {
	if flags := f.TCP().Flags(); !flags.Has(packet.SYN) || flags.Has(packet.ACK) {
		return false
	}
	h := m.byLeg[m.table.Session(sessions.Way{From: f.Src, To: f.Dst})]
	if h == nil || h.stage != handedOver {
		return false
	}
	ethernet := packet.Ethernet(f.Bytes)
	m.out(at, packet.Build(packet.Spec{SrcMAC: ethernet.Dst(), DstMAC: ethernet.Src(), Src: f.Dst, Dst: f.Src, Ack: f.TCP().Seq() + 1, Flags: packet.RST | packet.ACK}))
	return true
}

// ofClient decides on a packet of a client's session. The lock is held.
func (m *Manager) ofClient(seen sessions.Seen, f packet.Frame) (pass bool) {
	s := seen.Session
	h := m.byClient[s]
	if h == nil {
		return true
	}
	flags := f.TCP().Flags()
	switch {
	case h.stage >= committing:
		if flags&(packet.FIN|packet.RST) != 0 && !seen.Back {
			m.finished(h)
		}
	case !flags.Has(packet.RST):
	case seen.Back:
		m.fail(h, failure{"router-reset", "the request router has reset the session"})
		return true
	default:
		m.fail(h, failure{"client-reset", "the client has reset its session"})
		return true
	}
	return false // the client repeats its packets; the router's belong nowhere
}

// ofLeg decides on a packet of a leg. The lock is held.
func (m *Manager) ofLeg(seen sessions.Seen, f packet.Frame) (pass bool) {
	s := seen.Session
	h := m.byLeg[s]
	if h == nil {
		if s.Leg == sessions.Used && !s.Proxied && !seen.Back { // the request router serves a session with it
			s.Proxied = true
			m.pass(s)
		}
		return true
	}
	flags := f.TCP().Flags()
	ends := flags&(packet.RST|packet.FIN) != 0
	if h.stage >= sent && seen.Back && len(f.Payload()) > 0 {
		m.answered(h)
	}
	if h.stage == sent && s.Opener.Next.LessEq(s.Other.Acked) {
		m.finish(h)
	}
	switch {
	case h.stage == handedOver:
		if seen.Back && flags.Has(packet.RST) {
			m.toClient(h, f)
			m.over(h, "reset by the surrogate")
		}
		return false
	case h.stage == sent:
		if flags.Has(packet.RST) && seen.Back {
			m.fail(h, failure{"surrogate-reset", "the surrogate has refused the request"})
		}
		return false
	case ends:
		m.fail(h, failure{"leg-closed", "the leg was closed"})
		return true
	case seen.Back:
		return true
	}
	if len(f.Payload()) == 0 {
		return true
	}
	m.keep(h, f)
	return false
}

// forward sends a packet to where it goes. The lock is held.
func (m *Manager) forward(f packet.Frame, seen *sessions.Seen) {
	var at sessions.Point
	known := false
	if seen != nil {
		e := &seen.Session.Other
		if seen.Back {
			e = &seen.Session.Opener
		}
		at, known = e.At, e.Seen
	}
	if !known {
		p, ok := m.o.Network.Locate(f.Dst.Addr(), packet.Ethernet(f.Bytes).Dst())
		if !ok {
			m.counts.Lost++
			return
		}
		at = p.Point
	}
	if m.o.Strip && f.TCP().Flags().Has(packet.SYN) {
		strip(f)
	}
	m.counts.Forwarded++
	m.out(at, f.Bytes)
}

func (m *Manager) out(at sessions.Point, frame []byte, actions ...openflow.Action) {
	err := m.o.Network.Send(at.Switch, &openflow.PacketOut{Buffer: openflow.NoBuffer, InPort: openflow.PortController,
		Actions: append(actions, output(at.Port)), Data: frame})
	if err != nil {
		m.counts.Lost++
	}
}

// strip overwrites the options of a SYN that the paper's translation cannot have.
func strip(f packet.Frame) {
	options := f.TCP().Options()
	if options.Check() != nil {
		return
	}
	for at := 0; at < len(options); {
		kind := packet.OptionKind(options[at])
		size := 1
		if kind == packet.OptionEnd {
			break
		}
		if kind != packet.OptionNOP {
			size = int(options[at+1])
		}
		switch kind {
		case packet.OptionTimestamps, packet.OptionSACKPermitted, packet.OptionWindowScale:
			for i := range size {
				options[at+i] = byte(packet.OptionNOP)
			}
		}
		at += size
	}
	f.TCP().SetChecksum(0)
	f.TCP().SetChecksum(f.TransportChecksum())
}
