package controller

import (
	"context"
	"fmt"
	"net"
	"sync"

	"baton/openflow"
	"baton/openflow/channel"
)

// session is a connection to a switch.
type session struct {
	conn      *channel.Conn
	peer      string
	datapath  uint64
	queue     *queue
	sent      sent
	closing   sync.Once
	receiving sync.WaitGroup // receive
}

func newSession(conn net.Conn, o Options) *session {
	peer := ""
	if a := conn.RemoteAddr(); a != nil {
		peer = a.String()
	}
	return &session{conn: channel.Start(conn, o.Channel), peer: peer, queue: newQueue(o.Queue)}
}

func (s *session) close() {
	s.closing.Do(func() { s.conn.Close() })
	s.queue.end()
}

// receive reads messages from the channel, so that replies never wait behind packet-ins that nobody reads.
func (s *session) receive(ctx context.Context) {
	defer s.queue.end()
	for {
		m, err := s.conn.Receive(ctx)
		if err != nil {
			return
		}
		s.queue.push(m)
	}
}

// read requests all of the switch's tables.
func (s *session) read(ctx context.Context) ([]openflow.FlowStats, []openflow.GroupDesc, error) {
	var entries []openflow.FlowStats
	parts, err := s.conn.Multipart(ctx, openflow.FlowStatsRequest{FlowQuery: openflow.NewFlowQuery()})
	if err != nil {
		return nil, nil, fmt.Errorf("request the switch's flow entries: %w", err)
	}
	for _, p := range parts {
		if list, ok := p.(openflow.FlowStatsReply); ok {
			entries = append(entries, list...)
		}
	}
	var groups []openflow.GroupDesc
	if parts, err = s.conn.Multipart(ctx, openflow.GroupDescRequest{}); err != nil {
		return nil, nil, fmt.Errorf("request the switch's groups: %w", err)
	}
	for _, p := range parts {
		if list, ok := p.(openflow.GroupDescReply); ok {
			groups = append(groups, list...)
		}
	}
	return entries, groups, nil
}

// send sends messages as long as the channel accepts them.
func (s *session) send(list []openflow.Message) error {
	for _, m := range list {
		xid := s.conn.NextXID()
		if err := s.conn.Send(xid, m); err != nil {
			return err
		}
		s.sent.note(xid, m)
	}
	return nil
}

// sent are the last messages, to report them with an error that they caused.
type sent struct {
	last [1024]struct {
		xid     uint32
		message openflow.Message
	}
	next int
}

func (s *sent) note(xid uint32, m openflow.Message) {
	if p, ok := m.(*openflow.PacketOut); ok { // it contains a packet
		m = &openflow.PacketOut{InPort: p.InPort, Actions: p.Actions}
	}
	s.last[s.next].xid, s.last[s.next].message = xid, m
	s.next = (s.next + 1) % len(s.last)
}

func (s *sent) message(xid uint32) openflow.Message {
	for _, l := range s.last {
		if l.xid == xid {
			return l.message
		}
	}
	return nil
}

// queue holds messages of the switch. It drops packet-ins beyond its limit; other messages are bounded by the switch's size.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond
	limit   int
	list    []channel.Received
	packets int
	drops   uint64
	ended   bool
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit}
	q.changed.L = &q.mu
	return q
}

func isPacket(m channel.Received) bool {
	_, ok := m.Message.(*openflow.PacketIn)
	return ok
}

func (q *queue) push(m channel.Received) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !isPacket(m):
	case q.packets >= q.limit:
		q.drops++
		return
	default:
		q.packets++
	}
	q.list = append(q.list, m)
	q.changed.Signal()
}

// pop waits for the next message. It returns false when there are no more.
func (q *queue) pop() (channel.Received, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.list) == 0 && !q.ended {
		q.changed.Wait()
	}
	if q.ended {
		return channel.Received{}, false
	}
	m := q.list[0]
	q.list[0] = channel.Received{} // for the garbage collector
	q.list = q.list[1:]
	if isPacket(m) {
		q.packets--
	}
	return m, true
}

func (q *queue) dropped() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.drops
}

func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.changed.Broadcast()
}
