// Package switches is the OpenFlow 1.3 side of a controller: it accepts the channels of any number of switches, takes the role of master, and
// sends and receives for the controller's modules.
//
// A switch is identified by its datapath id. When it connects again, its new channel replaces the old one. What it sends is handled by one
// goroutine for each switch, in order: packet-ins by the handlers, everything else as events. Packet-ins wait in a bounded queue; while that is
// full new ones are dropped and counted, so that a flood of packets delays neither the channel's echoes nor the events.
package switches

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"baton/openflow"
	"baton/openflow/channel"
)

// Packet is a packet-in.
type Packet struct {
	Switch uint64
	Port   openflow.PortNo // where it came in
	Reason openflow.PacketInReason
	Cookie uint64 // of the flow entry, all ones if there is none
	Data   []byte
	Whole  bool // Data is the whole packet
}

// Handler takes a packet, or returns false to leave it to the next handler. It is called by one goroutine for each switch and must not wait.
type Handler func(Packet) bool

// EventKind says what happened.
type EventKind int

// The kinds.
const (
	Up        EventKind = iota // a switch has connected and is ready
	Down                       // its channel has ended
	PortState                  // Event.Port was added, removed or changed
	FlowGone                   // Event.Flow: an entry has expired or was removed
	RoleState                  // Switch.Role has changed
)

// Event is something that happened at a switch.
type Event struct {
	Kind   EventKind
	Switch Switch
	Port   openflow.PortStatus
	Flow   *openflow.FlowRemoved
}

// Switch is a switch that is, or was, connected.
type Switch struct {
	ID       uint64
	Name     string // from the configuration, else the id
	Features openflow.FeaturesReply
	Desc     openflow.DescReply
	Ports    []openflow.Port
	Core     bool // has the actions that join two sessions
	Role     openflow.Role
	Up       bool
	Since    time.Time // of Up
	Remote   string
	Connects int // how often it has connected

	asked uint64 // Server.roles when it was asked for the role
}

// Known is what the configuration says of a switch.
type Known struct {
	Name string
	Core bool // although it does not say so itself
}

// Options configure a server. Zero fields have defaults.
type Options struct {
	Log *slog.Logger
	// TLS returns the settings for listeners of TLS; it is called for each connection, so that certificates may be renewed.
	TLS func() *tls.Config
	// Known are the switches of the configuration, by datapath id. With Only, others are refused.
	Known func() (known map[uint64]Known, only bool)
	// Queue is how many packet-ins of a switch may wait. Default: 1,024.
	Queue int
	// Setup is how long a switch may take to introduce itself. Default: 10 s.
	Setup time.Duration
	// Stale is called when a switch has refused the role of master because of a greater generation, of SetRole only. It may be nil.
	Stale   func(id, seen uint64)
	Channel channel.Options
}

// ErrNotConnected: a switch has no channel.
var ErrNotConnected = errors.New("the switch is not connected")

// Counts are sums over all switches.
type Counts struct {
	Packets, Dropped          uint64 // packet-ins that were handled, and dropped as the queue was full
	Refused                   uint64 // connections that were refused or failed to introduce themselves
	Stale                     uint64 // requests for the role of master that a switch has refused as older than another's
	Errors                    uint64 // errors of switches that answer no request that waits
	FlowMods, PacketOuts, All uint64 // messages sent
}

// Server has the channels of all switches.
type Server struct {
	o        Options
	handlers []Handler
	watchers []func(Event)
	ready    []func(ctx context.Context, sw Switch) error

	mu       sync.Mutex
	all      map[uint64]*member
	roles    uint64 // calls of SetRole
	role     openflow.Role
	fixed    bool   // the generation is the election's; else it follows the switches'
	election uint64 // generation id
	tasks    sync.WaitGroup

	packets, dropped, refused, stale, errs, flowMods, packetOuts, sent atomic.Uint64
}

// member is a switch and its present channel.
type member struct {
	state Switch
	conn  *channel.Conn // nil: not connected
}

// New returns a server that becomes master of its switches.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Queue <= 0 {
		o.Queue = 1024
	}
	if o.Setup <= 0 {
		o.Setup = 10 * time.Second
	}
	if o.Known == nil {
		o.Known = func() (map[uint64]Known, bool) { return nil, false }
	}
	return &Server{o: o, all: map[uint64]*member{}, role: openflow.RoleMaster}
}

// Handle adds handlers of packet-ins, behind those that are there. It must not be called after Serve.
func (s *Server) Handle(h ...Handler) { s.handlers = append(s.handlers, h...) }

// Watch adds a function that is called with the events of all switches: those of one switch in order, those of several at the same time. It
// must not wait. It must not be called after Serve.
func (s *Server) Watch(f func(Event)) { s.watchers = append(s.watchers, f) }

// Ready adds a function that is called when a switch has connected, or this controller has become its master, before its event and before its
// packets are handled: it brings the flow tables to what is wanted. Requests to the switch work in it. If it fails the channel is closed. It must
// not be called after Serve.
func (s *Server) Ready(f func(ctx context.Context, sw Switch) error) { s.ready = append(s.ready, f) }

// prepare has whole packets come in, as the parts read what hosts say, and calls the functions of Ready.
func (s *Server) prepare(ctx context.Context, sw Switch) error {
	c, err := s.conn(sw.ID)
	if err != nil {
		return err
	}
	whole := &openflow.SetConfig{Config: openflow.Config{MissSendLen: openflow.MaxLenNoBuffer}}
	if err := c.Commit(ctx, whole); err != nil {
		return fmt.Errorf("prepare the switch: %w", err)
	}
	for _, f := range s.ready {
		if err := f(ctx, sw); err != nil {
			return fmt.Errorf("prepare the switch: %w", err)
		}
	}
	return nil
}

// Counts returns the sums.
func (s *Server) Counts() Counts {
	return Counts{
		Packets: s.packets.Load(), Dropped: s.dropped.Load(), Refused: s.refused.Load(), Stale: s.stale.Load(), Errors: s.errs.Load(),
		FlowMods: s.flowMods.Load(), PacketOuts: s.packetOuts.Load(), All: s.sent.Load(),
	}
}

// Serve accepts switches until ctx ends, closes their channels and waits for them. It closes the listeners.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		defer context.AfterFunc(ctx, func() { l.Close() })()
		s.tasks.Go(func() { failed <- s.accept(ctx, l) })
	}
	var err error
	for range listeners {
		if e := <-failed; e != nil && ctx.Err() == nil {
			err = errors.Join(err, e)
			cancel()
		}
	}
	s.tasks.Wait()
	return err
}

func (s *Server) accept(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		var temporary interface{ Temporary() bool }
		switch {
		case err == nil:
			s.tasks.Go(func() { s.serve(ctx, conn) })
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &temporary) && temporary.Temporary(): // too many files
			s.o.Log.Warn("cannot accept a switch", "err", err)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		default:
			return fmt.Errorf("accept switches at %v: %w", l.Addr(), err)
		}
	}
}

// Listen listens at an endpoint: tcp:HOST:PORT, tls:HOST:PORT or unix:PATH.
func (s *Server) Listen(ctx context.Context, method, address string) (net.Listener, error) {
	var c net.ListenConfig
	network := method
	if method == "tls" {
		network = "tcp"
	}
	l, err := c.Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if method == "tls" {
		if s.o.TLS == nil {
			l.Close()
			return nil, errors.New("tls: without a certificate")
		}
		return &secure{l, s.o.TLS}, nil
	}
	return l, nil
}

// secure wraps connections with the settings of their time. The handshake is done by the connection's own goroutine.
type secure struct {
	net.Listener
	config func() *tls.Config
}

func (l *secure) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tls.Server(conn, l.config()), nil
}

// conn returns the channel of a switch.
func (s *Server) conn(id uint64) (*channel.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.all[id]; m != nil && m.conn != nil {
		return m.conn, nil
	}
	return nil, fmt.Errorf("%016x: %w", id, ErrNotConnected)
}

func (s *Server) count(messages ...openflow.Message) {
	s.sent.Add(uint64(len(messages)))
	for _, m := range messages {
		switch m.Type() {
		case openflow.TypeFlowMod:
			s.flowMods.Add(1)
		case openflow.TypePacketOut:
			s.packetOuts.Add(1)
		}
	}
}

// Commit sends messages to a switch and waits for a barrier: each is then in force or refused. Errors of the switch are [*channel.Refused],
// which name their message, joined.
func (s *Server) Commit(ctx context.Context, id uint64, messages ...openflow.Message) error {
	c, err := s.conn(id)
	if err != nil {
		return err
	}
	s.count(messages...)
	err = c.Commit(ctx, messages...)
	if isSlave(err) {
		s.lostRole(id, c)
	}
	if err != nil {
		return fmt.Errorf("switch %016x: %w", id, err)
	}
	return nil
}

// Send sends a message to a switch without waiting. It fails if the switch reads too slowly.
func (s *Server) Send(id uint64, m openflow.Message) error {
	c, err := s.conn(id)
	if err != nil {
		return err
	}
	s.count(m)
	return c.Send(c.NextXID(), m)
}

// Multipart sends a multipart request to a switch and returns the parts of the reply.
func (s *Server) Multipart(ctx context.Context, id uint64, body openflow.MultipartBody) ([]openflow.MultipartBody, error) {
	c, err := s.conn(id)
	if err != nil {
		return nil, err
	}
	return c.Multipart(ctx, body)
}

// Flows returns the flow entries of a switch whose cookie has certain bits.
func (s *Server) Flows(ctx context.Context, id, cookie, mask uint64) ([]openflow.FlowStats, error) {
	q := openflow.NewFlowQuery()
	q.Cookie, q.CookieMask = cookie, mask
	parts, err := s.Multipart(ctx, id, openflow.FlowStatsRequest{FlowQuery: q})
	if err != nil {
		return nil, err
	}
	var all []openflow.FlowStats
	for _, p := range parts {
		if reply, ok := p.(openflow.FlowStatsReply); ok {
			all = append(all, reply...)
		}
	}
	return all, nil
}

// Switch returns the state of a switch.
func (s *Server) Switch(id uint64) (Switch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.all[id]
	if m == nil {
		return Switch{}, false
	}
	return m.copy(), true
}

// Switches returns the state of all switches that have connected, in order.
func (s *Server) Switches() []Switch {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Switch, 0, len(s.all))
	for _, m := range s.all {
		all = append(all, m.copy())
	}
	slices.SortFunc(all, func(a, b Switch) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return all
}

func (m *member) copy() Switch {
	s := m.state
	s.Ports = slices.Clone(s.Ports)
	return s
}
