package steer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"baton/anycast/assign"
	"baton/anycast/config"
	"baton/openflow"
	"baton/openflow/channel"
)

// answerTime limits how long a forwarder may take to reply.
const answerTime = 5 * time.Second

// maxForwarders limits connections of switches, including unknown ones.
const maxForwarders = 256

// Steering is the OpenFlow controller of a map. Its methods may be called from any goroutine.
type Steering struct {
	place
	log *slog.Logger

	mu         sync.Mutex
	forwarders map[uint64]*forwarder
	connected  int
}

// forwarder is a connected switch.
type forwarder struct {
	id     uint64
	conn   *channel.Conn
	remote net.Addr

	mu    sync.Mutex // held during a request
	now   map[int]found
	bytes map[int]uint64 // at the last look
	at    time.Time
}

// State is the state of an ingress.
type State struct {
	Known bool    // its forwarder is connected
	Site  int     // assign.Nowhere without a rule for it
	Bytes float64 // per second since the last look; negative when there was none before
}

// New makes the controller of a map.
func New(m *config.Map, sites []config.Served, log *slog.Logger) *Steering {
	return &Steering{place: place{m, sites}, log: log, forwarders: make(map[uint64]*forwarder)}
}

// Serve accepts connections of forwarders on l, which it closes, until ctx is done. The rules stay when it returns.
func (s *Steering) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept forwarders: %w", err)
		}
		s.mu.Lock()
		accepted := s.connected < maxForwarders
		if accepted {
			s.connected++
		}
		s.mu.Unlock()
		if !accepted {
			c.Close()
			continue
		}
		running.Go(func() {
			s.handle(ctx, c)
			s.mu.Lock()
			s.connected--
			s.mu.Unlock()
		})
	}
}

// handle serves a forwarder until it disconnects.
func (s *Steering) handle(ctx context.Context, c net.Conn) {
	f := &forwarder{conn: channel.Start(c, channel.Options{}), remote: c.RemoteAddr(), bytes: make(map[int]uint64)}
	defer f.conn.Close()
	if err := s.identify(ctx, f); err != nil {
		s.log.Warn("switch rejected", "from", f.remote, "err", err)
		return
	}
	s.mu.Lock()
	old := s.forwarders[f.id]
	s.forwarders[f.id] = f
	s.mu.Unlock()
	if old != nil { // it reconnected before its old connection timed out
		old.conn.Close()
	}
	s.log.Info("forwarder connected", "datapath", name(f.id), "from", f.remote)
	var err error
	for err == nil { // unsolicited messages are ignored
		_, err = f.conn.Receive(ctx)
	}
	s.mu.Lock()
	if s.forwarders[f.id] == f {
		delete(s.forwarders, f.id)
	}
	s.mu.Unlock()
	if ctx.Err() == nil {
		s.log.Warn("forwarder disconnected; it keeps the map", "datapath", name(f.id), "err", err)
	}
}

// identify performs the handshake and reads the forwarder's identity and rules.
func (s *Steering) identify(ctx context.Context, f *forwarder) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if err := f.conn.Up(ctx); err != nil {
		return fmt.Errorf("OpenFlow hello: %w", err)
	}
	reply, err := f.conn.Request(ctx, &openflow.FeaturesRequest{})
	if err != nil {
		return fmt.Errorf("request its features: %w", err)
	}
	features, ok := reply.(*openflow.FeaturesReply)
	if !ok || features.Auxiliary != 0 {
		return errors.New("it is not a main connection")
	}
	f.id = features.DatapathID
	if !slices.ContainsFunc(s.m.Ingresses, func(in config.Ingress) bool { return in.Forwarder == f.id }) {
		return fmt.Errorf("no ingress uses its datapath %s", name(f.id))
	}
	return s.adopt(ctx, f)
}

// adopt reads the map that a forwarder has, and deletes stale rules.
func (s *Steering) adopt(ctx context.Context, f *forwarder) error {
	stats, err := s.stats(ctx, f)
	if err != nil {
		return err
	}
	now, stray := s.read(f.id, stats)
	if len(stray) > 0 {
		if err := f.conn.Commit(ctx, stray...); err != nil {
			return fmt.Errorf("delete stale rules: %w", err)
		}
		s.log.Info("deleted stale rules", "datapath", name(f.id), "rules", len(stray))
	}
	f.now, f.at = now, time.Now()
	for i, g := range now {
		f.bytes[i] = g.bytes
	}
	return nil
}

func (s *Steering) stats(ctx context.Context, f *forwarder) ([]openflow.FlowStats, error) {
	parts, err := f.conn.Multipart(ctx, s.query())
	if err != nil {
		return nil, fmt.Errorf("request its rules: %w", err)
	}
	var out []openflow.FlowStats
	for _, p := range parts {
		if reply, ok := p.(openflow.FlowStatsReply); ok {
			out = append(out, reply...)
		}
	}
	return out, nil
}

// Look reads the rules of all forwarders and returns the state of each ingress, not Known if its forwarder does not answer.
func (s *Steering) Look(ctx context.Context) []State {
	out := make([]State, len(s.m.Ingresses))
	for i := range out {
		out[i] = State{Site: assign.Nowhere, Bytes: -1}
	}
	var reads sync.WaitGroup
	for _, f := range s.all() {
		reads.Go(func() {
			if err := s.look(ctx, f, out); err != nil {
				s.log.Warn("cannot read the forwarder's rules", "datapath", name(f.id), "err", err)
			}
		})
	}
	reads.Wait()
	return out
}

// look writes the states of a forwarder's ingresses, which no other goroutine writes.
func (s *Steering) look(ctx context.Context, f *forwarder, out []State) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	stats, err := s.stats(ctx, f)
	if err != nil {
		return err
	}
	at := time.Now()
	passed := at.Sub(f.at).Seconds()
	f.now, _ = s.read(f.id, stats)
	f.at = at
	for i, g := range f.now {
		out[i] = State{Known: true, Site: g.site, Bytes: -1}
		if before, known := f.bytes[i]; known && g.bytes >= before && passed > 0 {
			out[i].Bytes = float64(g.bytes-before) / passed
		}
		f.bytes[i] = g.bytes
	}
	return nil
}

// Apply makes moves, forwarder by forwarder, each followed by a barrier. When it returns nil, all of them are in force.
func (s *Steering) Apply(ctx context.Context, moves []assign.Move) error {
	var errs []error
	for _, f := range s.all() {
		var messages []openflow.Message
		for _, m := range moves {
			if s.m.Ingresses[m.Ingress].Forwarder != f.id {
				continue
			}
			command := openflow.FlowModifyStrict // keeps the counters
			if m.From == assign.Nowhere {
				command = openflow.FlowAdd
			}
			messages = append(messages, s.rules(command, m.Ingress, m.To)...)
		}
		if len(messages) == 0 {
			continue
		}
		if err := s.commit(ctx, f, messages); err != nil {
			errs = append(errs, fmt.Errorf("program forwarder %s: %w", name(f.id), err))
		}
	}
	return errors.Join(errs...)
}

func (s *Steering) commit(ctx context.Context, f *forwarder, messages []openflow.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return f.conn.Commit(ctx, messages...)
}

// all returns the connected forwarders, sorted by datapath id.
func (s *Steering) all() []*forwarder {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*forwarder, 0, len(s.forwarders))
	for _, f := range s.forwarders {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *forwarder) int { return cmp.Compare(a.id, b.id) })
	return out
}

// Forwarders returns the datapath ids of the connected forwarders.
func (s *Steering) Forwarders() []string {
	out := []string{}
	for _, f := range s.all() {
		out = append(out, name(f.id))
	}
	return out
}

func name(datapath uint64) string { return fmt.Sprintf("%016x", datapath) }
