// Package speaker announces the service's prefixes to routers by BGP (RFC 4271), with GoBGP as a library. It accepts no
// routes from them and installs none: received routes are rejected, so nothing is re-advertised between routers.
//
// Only this end opens sessions: there is no listener, and no privilege is needed; TCP MD5 keys need none either.
package speaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"

	"baton/anycast/config"
	"baton/anycast/level"
)

// Speaker maintains the BGP sessions with the routers. Its methods may be called from any goroutine.
type Speaker struct {
	log    *slog.Logger
	server *server.BgpServer
	cancel context.CancelFunc // of the watch

	mu       sync.Mutex
	bgp      config.BGP
	prefixes []netip.Prefix
	now      level.Announcement // in force
	sessions map[netip.Addr]*session
	closed   bool
}

// session is the state of the session with a router.
type session struct {
	state   string
	since   time.Time
	ups     int
	failure string
}

// Session is the state of a BGP session.
type Session struct {
	Peer  config.Peer
	State string    // RFC 4271, section 8.2.2: "established" and five others
	Since time.Time // of State
	Ups   int       // how often it was established
	Last  string    // reason of the last disconnect, "" without any
}

// Established reports whether routes are exchanged.
func (s *Session) Established() bool { return s.State == established }

const established = "established"

// New opens the sessions without announcing anything. The caller closes the Speaker.
func New(b config.BGP, prefixes []netip.Prefix, log *slog.Logger) (_ *Speaker, err error) {
	s := &Speaker{
		log: log, bgp: b, prefixes: slices.Clone(prefixes), now: level.Announcement{Withdrawn: true}, sessions: make(map[netip.Addr]*session),
	}
	quiet := slog.New(atLeast{log.Handler(), slog.LevelError}).With("of", "gobgp")
	s.server = server.NewBgpServer(server.LoggerOption(quiet, new(slog.LevelVar)))
	go s.server.Serve()
	defer func() {
		if err != nil {
			s.server.Stop()
		}
	}()
	ctx := context.Background()
	if err := s.server.StartBgp(ctx, &api.StartBgpRequest{Global: &api.Global{
		Asn: b.AS, RouterId: b.RouterID.String(), ListenPort: -1, // none
	}}); err != nil {
		return nil, fmt.Errorf("start BGP: %w", err)
	}
	if err := s.refuseRoutes(ctx); err != nil {
		return nil, fmt.Errorf("refuse routes of peers: %w", err)
	}
	watching, cancel := context.WithCancel(ctx)
	s.cancel = cancel
	if err := s.server.WatchEvent(watching, server.WatchEventMessageCallbacks{OnPeerUpdate: s.peerChanged}, server.WatchPeer()); err != nil {
		cancel()
		return nil, fmt.Errorf("watch sessions: %w", err)
	}
	for i := range b.Peers {
		if err := s.add(&b.Peers[i]); err != nil {
			cancel()
			return nil, err
		}
	}
	return s, nil
}

// refuseRoutes rejects the routes of peers: this host is no router. GoBGP applies the import policy to its own paths, too.
func (s *Speaker) refuseRoutes(ctx context.Context) error {
	own := &api.Policy{Name: "own", Statements: []*api.Statement{{
		Name:       "own",
		Conditions: &api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_LOCAL},
		Actions:    &api.Actions{RouteAction: api.RouteAction_ROUTE_ACTION_ACCEPT},
	}}}
	if err := s.server.AddPolicy(ctx, &api.AddPolicyRequest{Policy: own}); err != nil {
		return err
	}
	return s.server.SetPolicyAssignment(ctx, &api.SetPolicyAssignmentRequest{Assignment: &api.PolicyAssignment{
		Name: "global", Direction: api.PolicyDirection_POLICY_DIRECTION_IMPORT, DefaultAction: api.RouteAction_ROUTE_ACTION_REJECT,
		Policies: []*api.Policy{{Name: own.Name}},
	}})
}

func (s *Speaker) add(p *config.Peer) error {
	s.mu.Lock()
	s.sessions[p.Address] = &session{state: "idle", since: time.Now()}
	s.mu.Unlock()
	if err := s.server.AddPeer(context.Background(), &api.AddPeerRequest{Peer: neighbour(p)}); err != nil {
		return fmt.Errorf("open a session with %s: %w", p.Name, err)
	}
	return nil
}

func (s *Speaker) remove(p *config.Peer) error {
	err := s.server.DeletePeer(context.Background(), &api.DeletePeerRequest{Address: p.Address.String()})
	s.mu.Lock()
	delete(s.sessions, p.Address)
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("end the session with %s: %w", p.Name, err)
	}
	return nil
}

// peerChanged is called by GoBGP, one event at a time.
func (s *Speaker) peerChanged(e *apiutil.WatchEventMessage_PeerEvent, at time.Time) {
	if e.Type != apiutil.PEER_EVENT_STATE && e.Type != apiutil.PEER_EVENT_INIT {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.sessions[e.Peer.State.NeighborAddress]
	if is == nil || s.closed {
		return
	}
	state := stateName(e.Peer.State.SessionState)
	if state == is.state {
		return
	}
	was := is.state
	is.state, is.since = state, at
	name := s.name(e.Peer.State.NeighborAddress)
	switch {
	case state == established:
		is.ups++
		s.log.Info("session is up", "peer", name, "as", e.Peer.State.PeerASN)
	case was == established:
		is.failure = e.Peer.State.DisconnectMessage
		s.log.Warn("session is down", "peer", name, "because", is.failure)
	}
}

func (s *Speaker) name(a netip.Addr) string {
	if i := slices.IndexFunc(s.bgp.Peers, func(p config.Peer) bool { return p.Address == a }); i >= 0 {
		return s.bgp.Peers[i].Name
	}
	return a.String()
}

func stateName(state bgp.FSMState) string {
	switch state {
	case bgp.BGP_FSM_CONNECT:
		return "connect"
	case bgp.BGP_FSM_ACTIVE:
		return "active"
	case bgp.BGP_FSM_OPENSENT:
		return "opensent"
	case bgp.BGP_FSM_OPENCONFIRM:
		return "openconfirm"
	case bgp.BGP_FSM_ESTABLISHED:
		return established
	}
	return "idle"
}

// Sessions are in the order of the configuration.
func (s *Speaker) Sessions() []Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Session, 0, len(s.bgp.Peers))
	for _, p := range s.bgp.Peers {
		is := s.sessions[p.Address]
		if is == nil { // a peer that could not be added
			out = append(out, Session{Peer: p, State: "idle"})
			continue
		}
		out = append(out, Session{Peer: p, State: is.state, Since: is.since, Ups: is.ups, Last: is.failure})
	}
	return out
}

// Announce advertises all prefixes to every router, with one UPDATE per change. It does nothing if the announcement is unchanged.
func (s *Speaker) Announce(a level.Announcement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("announce: the speaker is closed")
	}
	if reflect.DeepEqual(a, s.now) {
		return nil
	}
	if err := s.put(a, s.prefixes); err != nil {
		return err
	}
	s.now = a
	return nil
}

// put advertises or withdraws some prefixes. s.mu is held.
func (s *Speaker) put(a level.Announcement, prefixes []netip.Prefix) error {
	if len(prefixes) == 0 {
		return nil
	}
	paths := make([]*apiutil.Path, 0, len(prefixes))
	for _, prefix := range prefixes {
		p, err := path(&s.bgp, prefix, a)
		if err != nil {
			return fmt.Errorf("announce %s: %w", prefix, err)
		}
		paths = append(paths, p)
	}
	if a.Withdrawn {
		if err := s.server.DeletePath(apiutil.DeletePathRequest{Paths: paths}); err != nil {
			return fmt.Errorf("withdraw: %w", err)
		}
		return nil
	}
	if _, err := s.server.AddPath(apiutil.AddPathRequest{Paths: paths}); err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	return nil
}

// Fixed lists the changed keys that need new sessions, and so a restart.
func Fixed(old, next *config.BGP) []string {
	var out []string
	if old.AS != next.AS {
		out = append(out, "site.bgp.as")
	}
	if old.RouterID != next.RouterID {
		out = append(out, "site.bgp.router_id")
	}
	return out
}

// Update activates another configuration: unchanged sessions stay up, and removed prefixes are withdrawn.
func (s *Speaker) Update(b config.BGP, prefixes []netip.Prefix) error {
	s.mu.Lock()
	old, gone := s.bgp, without(s.prefixes, prefixes)
	renew := !reflect.DeepEqual(old.Communities, b.Communities) || old.NextHop4 != b.NextHop4 || old.NextHop6 != b.NextHop6
	fresh := without(prefixes, s.prefixes)
	if renew {
		fresh = prefixes
	}
	err := s.put(level.Announcement{Withdrawn: true}, gone)
	s.bgp, s.prefixes = b, slices.Clone(prefixes)
	if !s.now.Withdrawn {
		err = errors.Join(err, s.put(s.now, fresh))
	}
	s.mu.Unlock()
	for i := range old.Peers {
		if !slices.Contains(b.Peers, old.Peers[i]) {
			err = errors.Join(err, s.remove(&old.Peers[i]))
		}
	}
	for i := range b.Peers {
		if !slices.Contains(old.Peers, b.Peers[i]) {
			err = errors.Join(err, s.add(&b.Peers[i]))
		}
	}
	return err
}

func without(all, some []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(all), func(p netip.Prefix) bool { return slices.Contains(some, p) })
}

// Close withdraws the announcement and closes the sessions with a Cease (RFC 4486), on which routers drop the routes at once, even with
// graceful restart (RFC 4724, section 4.1).
func (s *Speaker) Close() error {
	err := s.Announce(level.Announcement{Withdrawn: true})
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.server.Stop()
	return err
}
