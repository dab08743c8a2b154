package switches

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"baton/openflow"
	"baton/openflow/channel"
)

// serve is a switch's connection, until it ends.
func (s *Server) serve(ctx context.Context, conn net.Conn) {
	remote := "unix socket"
	if a := conn.RemoteAddr(); a != nil && a.Network() != "unix" {
		remote = a.String()
	}
	log := s.o.Log.With("remote", remote)
	setup, cancel := context.WithTimeout(ctx, s.o.Setup)
	defer cancel()
	if t, ok := conn.(*tls.Conn); ok {
		if err := t.HandshakeContext(setup); err != nil {
			s.refused.Add(1)
			log.Warn("TLS handshake of a switch failed", "err", err)
			conn.Close()
			return
		}
		conn = abrupt{t}
	}
	c := channel.Start(conn, s.o.Channel)
	defer c.Close()
	sw, err := s.introduce(setup, c)
	if err != nil {
		s.refused.Add(1)
		log.Warn("a switch was refused", "err", err)
		return
	}
	sw.Remote = remote
	cancel()
	s.run(ctx, c, sw)
}

// abrupt closes a TLS connection without waiting for a peer that does not read.
type abrupt struct{ *tls.Conn }

func (c abrupt) Close() error { return c.NetConn().Close() }

// introduce asks a switch who it is.
func (s *Server) introduce(ctx context.Context, c *channel.Conn) (Switch, error) {
	sw := Switch{Up: true}
	if err := c.Up(ctx); err != nil {
		return sw, err
	}
	reply, err := c.Request(ctx, &openflow.FeaturesRequest{})
	if err != nil {
		return sw, fmt.Errorf("features: %w", err)
	}
	features, ok := reply.(*openflow.FeaturesReply)
	if !ok {
		return sw, errors.New("features: the answer is another message")
	}
	if features.Auxiliary != 0 {
		return sw, fmt.Errorf("datapath id %016x: auxiliary connections are not used", features.DatapathID)
	}
	sw.ID, sw.Features, sw.Name = features.DatapathID, *features, fmt.Sprintf("%016x", features.DatapathID)
	known, only := s.o.Known()
	k, listed := known[sw.ID]
	if only && !listed {
		return sw, fmt.Errorf("datapath id %016x is not one of the configuration's switches", sw.ID)
	}
	if k.Name != "" {
		sw.Name = k.Name
	}
	parts, err := c.Multipart(ctx, openflow.DescRequest{})
	if err != nil {
		return sw, fmt.Errorf("description: %w", err)
	}
	for _, p := range parts {
		if d, ok := p.(openflow.DescReply); ok {
			sw.Desc = d
		}
	}
	sw.Core = k.Core || sw.Desc.Manufacturer == maker
	if err := s.portsOf(ctx, c, &sw); err != nil {
		return sw, err
	}
	sw.asked = s.rolesSet()
	sw.Role, err = s.takeRole(ctx, c, sw.ID)
	if err != nil {
		return sw, err
	}
	return sw, nil
}

// maker is the manufacturer in the description of Baton's forwarder, which has the actions that join two sessions.
const maker = "Baton"

func (s *Server) portsOf(ctx context.Context, c *channel.Conn, sw *Switch) error {
	parts, err := c.Multipart(ctx, openflow.PortDescRequest{})
	if err != nil {
		return fmt.Errorf("ports: %w", err)
	}
	for _, p := range parts {
		if list, ok := p.(openflow.PortDescReply); ok {
			sw.Ports = append(sw.Ports, list...)
		}
	}
	return nil
}

// run is a switch from its introduction on.
func (s *Server) run(ctx context.Context, c *channel.Conn, sw Switch) {
	log := s.o.Log.With("switch", sw.Name)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sw.Since = time.Now()
	s.join(c, &sw)
	q := newQueue(s.o.Queue, &s.dropped)
	read := make(chan error, 1)
	go func() {
		err := s.read(ctx, c, q)
		q.close()
		cancel()
		read <- err
	}()
	err := s.askAgain(ctx, c, &sw)
	log.Info("switch is connected", "id", fmt.Sprintf("%016x", sw.ID), "remote", sw.Remote, "maker", sw.Desc.Manufacturer,
		"ports", len(sw.Ports), "role", sw.Role.String())
	if err == nil && sw.Role != openflow.RoleSlave {
		err = s.prepare(ctx, sw)
	}
	if err == nil {
		s.tell(Event{Kind: Up, Switch: sw})
		s.dispatch(c, sw.ID, q)
	}
	c.Close()
	if end := <-read; err == nil {
		err = end
	}
	if last, was := s.leave(c, sw.ID); was {
		log.Warn("switch is gone", "err", err)
		s.tell(Event{Kind: Down, Switch: last})
	}
}

// join makes a channel its switch's; that before it ends.
func (s *Server) join(c *channel.Conn, sw *Switch) {
	s.mu.Lock()
	m := s.all[sw.ID]
	if m == nil {
		m = &member{}
		s.all[sw.ID] = m
	}
	old := m.conn
	sw.Connects = m.state.Connects + 1
	m.state, m.conn = *sw, c
	s.mu.Unlock()
	if old != nil {
		s.o.Log.Warn("switch connects again: its old channel is closed", "switch", sw.Name)
		s.tasks.Go(func() { old.Close() }) // waits for the peer
	}
}

// leave notes the end of a channel; it reports whether it was the switch's present one.
func (s *Server) leave(c *channel.Conn, id uint64) (Switch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.all[id]
	if m == nil || m.conn != c {
		return Switch{}, false
	}
	m.conn, m.state.Up, m.state.Since = nil, false, time.Now()
	return m.copy(), true
}

func (s *Server) tell(e Event) {
	for _, w := range s.watchers {
		w(e)
	}
}

// read moves what a switch sends into its queue.
func (s *Server) read(ctx context.Context, c *channel.Conn, q *queue) error {
	for {
		r, err := c.Receive(ctx)
		if err != nil {
			return err
		}
		q.put(r.Message)
	}
}

// dispatch handles a queue until it is closed.
func (s *Server) dispatch(c *channel.Conn, id uint64, q *queue) {
	for {
		m, ok := q.get()
		if !ok {
			return
		}
		switch m := m.(type) {
		case *openflow.PacketIn:
			s.packet(id, m)
		case *openflow.PortStatus:
			s.portStatus(c, id, m)
		case *openflow.FlowRemoved:
			if sw, ok := s.Switch(id); ok {
				s.tell(Event{Kind: FlowGone, Switch: sw, Flow: m})
			}
		case *openflow.Error:
			s.errs.Add(1)
			s.o.Log.Warn("a switch reports an error", "id", fmt.Sprintf("%016x", id), "code", m.Code.String())
			if m.Code == openflow.BadRequestIsSlave {
				s.lostRole(id, c)
			}
		}
	}
}

func (s *Server) packet(id uint64, m *openflow.PacketIn) {
	s.packets.Add(1)
	port, ok := m.Match.Get(openflow.FieldInPort)
	if !ok {
		return
	}
	p := Packet{
		Switch: id, Port: openflow.PortNo(port.Uint()), Reason: m.Reason, Cookie: m.Cookie, Data: m.Data,
		Whole: len(m.Data) >= int(m.TotalLen),
	}
	for _, h := range s.handlers {
		if h(p) {
			return
		}
	}
}

func (s *Server) portStatus(c *channel.Conn, id uint64, m *openflow.PortStatus) {
	s.mu.Lock()
	member := s.all[id]
	if member == nil || member.conn != c {
		s.mu.Unlock()
		return
	}
	ports := slices.DeleteFunc(slices.Clone(member.state.Ports), func(p openflow.Port) bool { return p.No == m.Port.No })
	if m.Reason != openflow.PortDelete {
		ports = append(ports, m.Port)
	}
	member.state.Ports = ports
	sw := member.copy()
	s.mu.Unlock()
	s.tell(Event{Kind: PortState, Switch: sw, Port: *m})
}
