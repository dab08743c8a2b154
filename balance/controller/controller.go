package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"baton/balance/tables"
	"baton/openflow"
	"baton/openflow/channel"
)

// ErrNoSwitch says that no switch is connected: one that connects later gets the state.
var ErrNoSwitch = errors.New("no switch is connected")

// Options of a controller. The zero value is valid.
type Options struct {
	Channel channel.Options
	// Flows is the most flows that the controller keeps a link for, and Queue how many of the switch's packets may wait. Defaults: 131,072
	// and 1,024.
	Flows, Queue int
	Log          *slog.Logger // nil: none
}

// Controller drives one switch at a time. Its methods may be called from several goroutines at once.
type Controller struct {
	o     Options
	log   *slog.Logger
	began time.Time

	// mu is also held while a switch is brought to a state, so packets are handled before or after that.
	mu      sync.Mutex
	machine *machine
	have    bool          // a state was set
	tables  tables.Tables // of the switch
	unsure  bool          // the switch may have others
	session *session      // nil: none
	ready   chan struct{} // closed when the session's switch has its tables

	status   sync.Mutex // is held only briefly: the status is available while a switch does not answer
	reported Status
	queue    *queue // of the session
}

// Status is the status of a controller.
type Status struct {
	Connected  bool // and the switch has its tables
	Since      time.Time
	Peer       string
	DatapathID uint64
	Groups     int
	Entries    int // without those of single flows
	Flows      int // with a link chosen by the controller
	Given      []uint64
	Packets    map[Verdict]uint64 // packet-ins, by verdict
	Refused    uint64             // messages refused by a switch
	LastError  string             // why one was refused, or the last connection ended
}

// New returns a controller without a switch.
func New(o Options) *Controller {
	if o.Flows <= 0 {
		o.Flows = 131072
	}
	if o.Queue <= 0 {
		o.Queue = 1024
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Controller{o: o, log: o.Log, began: time.Now(), machine: newMachine(o.Flows), ready: make(chan struct{}),
		reported: Status{Packets: map[Verdict]uint64{}}}
}

// Serve drives the switch at the other end of a connection until the connection or ctx ends, and returns why. It closes the connection. A
// switch that connects meanwhile takes over.
func (c *Controller) Serve(ctx context.Context, conn net.Conn) error {
	s := newSession(conn, c.o)
	defer s.receiving.Wait()
	defer s.close()
	defer context.AfterFunc(ctx, s.close)()
	err := c.serve(ctx, s)
	c.leave(s)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.note(func(t *Status) { t.LastError = err.Error() })
	return err
}

func (c *Controller) serve(ctx context.Context, s *session) error {
	if err := s.conn.Up(ctx); err != nil {
		return fmt.Errorf("handshake with the switch: %w", err)
	}
	s.receiving.Go(func() { s.receive(ctx) })
	features, err := s.conn.Request(ctx, &openflow.FeaturesRequest{})
	if err != nil {
		return fmt.Errorf("request the switch's features: %w", err)
	}
	whole := &openflow.SetConfig{Config: openflow.Config{Flags: openflow.FragNormal, MissSendLen: openflow.MaxLenNoBuffer}}
	if err := s.conn.SendWait(ctx, s.conn.NextXID(), whole); err != nil {
		return fmt.Errorf("configure the switch: %w", err)
	}
	if f, ok := features.(*openflow.FeaturesReply); ok {
		s.datapath = f.DatapathID
	}
	if err := c.join(ctx, s); err != nil {
		return err
	}
	for {
		m, ok := s.queue.pop()
		if !ok {
			return cmp.Or(s.conn.Err(), errReplaced)
		}
		c.handle(s, m)
	}
}

// errReplaced ends a session whose switch has connected again, or whose place another switch has taken.
var errReplaced = errors.New("another connection has taken over")

// join makes a session the current one. The Serve of the one before ends, and closes its connection.
func (c *Controller) join(ctx context.Context, s *session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != nil {
		c.session.queue.end()
		c.forget()
	}
	c.session, c.unsure = s, true
	c.note(func(*Status) { c.queue = s.queue })
	if !c.have {
		return nil // Set will do it
	}
	if err := c.bring(ctx); len(refusals(err)) == 0 {
		return err
	}
	return nil // continue without the refused messages
}

// leave ends a session, unless another one has taken over.
func (c *Controller) leave(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == s {
		c.forget()
	}
}

// forget ends the session. The caller holds mu.
func (c *Controller) forget() {
	drops := c.session.queue.dropped()
	c.session = nil
	select {
	case <-c.ready:
		c.ready = make(chan struct{})
	default:
	}
	c.note(func(t *Status) { t.Connected = false; t.Packets[DropQueue] += drops; c.queue = nil })
}

// Ready waits until a switch has the tables for the state.
func (c *Controller) Ready(ctx context.Context) error {
	c.mu.Lock()
	ready := c.ready
	c.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the switch: %w", ctx.Err())
	}
}

// Set applies a state to the switch, and returns when new flows follow it. Without a switch it returns [ErrNoSwitch], and the next switch
// gets the state. Each message that the switch refuses is a [*channel.Refused] in the error, and does not stop the others.
func (c *Controller) Set(ctx context.Context, s tables.State) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Links, s.Rules = slices.Clone(s.Links), slices.Clone(s.Rules) // the caller may change its slices
	gone := c.machine.set(s)
	c.have = true
	if c.session == nil {
		return ErrNoSwitch
	}
	if c.unsure {
		return c.bring(ctx)
	}
	wanted := tables.Make(s)
	messages := append(tables.Change(c.tables, wanted), gone...)
	return c.commit(ctx, wanted, messages)
}

// bring gives the switch the state's tables, whatever it has. The caller holds mu, and there is a session.
func (c *Controller) bring(ctx context.Context) error {
	entries, groups, err := c.session.read(ctx)
	if err != nil {
		return err
	}
	has, flows := tables.Read(entries, groups)
	stale := c.machine.adopt(flows)
	wanted := tables.Make(c.machine.state)
	return c.commit(ctx, wanted, append(tables.Change(has, wanted), stale...))
}

// commit sends messages that change the switch's tables, and waits until they are in force. The caller holds mu, and there is a session.
func (c *Controller) commit(ctx context.Context, wanted tables.Tables, messages []openflow.Message) error {
	began := time.Now()
	err := c.session.conn.Commit(ctx, messages...)
	refused := refusals(err)
	if err != nil && len(refused) == 0 {
		c.unsure = true // it is unknown how many were applied
		return fmt.Errorf("change the tables of the switch: %w", err)
	}
	c.tables, c.unsure = wanted, false
	for _, r := range refused {
		c.refused(r.Request, r.Answer)
		c.unsure = c.unsure || !optional(r.Request)
	}
	peer, datapath := c.session.peer, c.session.datapath
	c.note(func(t *Status) {
		if !t.Connected {
			t.Since = time.Now()
		}
		t.Connected, t.Peer, t.DatapathID, t.Groups, t.Entries = true, peer, datapath, len(wanted.Groups), len(wanted.Entries)
	})
	c.noteFlows()
	select {
	case <-c.ready:
	default:
		close(c.ready) // after the status says so
	}
	c.log.Debug("the switch has its tables", "messages", len(messages), "took", time.Since(began))
	if err != nil {
		return fmt.Errorf("change the tables of the switch: %w", err)
	}
	return nil
}

// optional reports whether a switch can do without a message: without TCP flags its flows end by the idle timeout.
func optional(m openflow.Message) bool {
	e, ok := m.(*openflow.FlowMod)
	return ok && tables.Cookie(e.Cookie).Ours() && tables.Cookie(e.Cookie).Kind() == tables.EndOf
}

// refusals returns the switch's errors within an error.
func refusals(err error) []*channel.Refused {
	var list []*channel.Refused
	switch e := err.(type) {
	case *channel.Refused:
		return append(list, e)
	case interface{ Unwrap() error }:
		return refusals(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			list = append(list, refusals(one)...)
		}
	}
	return list
}

func (c *Controller) refused(request openflow.Message, answer *openflow.Error) {
	what := fmt.Sprintf("%v", answer.Code)
	if request != nil {
		what += ": " + tables.Text(request)
	}
	c.log.Warn("the switch refuses a message", "error", answer.Code.String(), "message", what)
	c.note(func(t *Status) { t.Refused++; t.LastError = "refused: " + what })
}

// handle handles a message of the switch.
func (c *Controller) handle(s *session, m channel.Received) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != s || !c.have {
		return
	}
	switch what := m.Message.(type) {
	case *openflow.PacketIn:
		r := c.machine.packetIn(time.Since(c.began), what)
		if err := s.send(r.send); err != nil {
			if r.verdict == Given {
				delete(c.machine.flows, r.flow)
			}
			r.verdict = DropSwitch
		}
		c.note(func(t *Status) { t.Packets[r.verdict]++ })
		c.noteFlows()
	case *openflow.FlowRemoved:
		_ = s.send(c.machine.removed(what)) // a blocked switch is disconnected soon, and its flows are read again then
		c.noteFlows()
	case *openflow.Error:
		c.refused(s.sent.message(m.XID), what)
	}
}

func (c *Controller) note(f func(*Status)) {
	c.status.Lock()
	defer c.status.Unlock()
	f(&c.reported)
}

// noteFlows updates the status of flows. The caller holds mu.
func (c *Controller) noteFlows() {
	c.note(func(t *Status) { t.Flows, t.Given = len(c.machine.flows), append(t.Given[:0], c.machine.given...) })
}

// Status returns the current status.
func (c *Controller) Status() Status {
	c.status.Lock()
	defer c.status.Unlock()
	t := c.reported
	t.Packets, t.Given = maps.Clone(t.Packets), slices.Clone(t.Given)
	if c.queue != nil {
		t.Packets[DropQueue] += c.queue.dropped()
	}
	return t
}
