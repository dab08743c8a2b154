package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"baton/openflow"
	"baton/openflow/channel"
)

// defaultMissSendLen is how much of a packet a controller gets that has not said it, in bytes [7.3.2].
const defaultMissSendLen = 128

// Channel is a controller's channel, while it is up.
type Channel struct {
	all    *Controllers
	origin *origin
	conn   *channel.Conn
	peer   string // the address of the other end, "" where it has none
	since  time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup

	// Of the turn alone.
	refused int
	parts   parts

	mu          sync.Mutex
	role        openflow.Role
	async       openflow.Async
	missSendLen uint16
	id          uint16    // packets for controllers of another do not go here; they are all for 0
	later       []message // that wait for room in conn
	notices     int       // of later
	idle        chan struct{}
	ended       bool
}

// message waits to be sent.
type message struct {
	xid    uint32
	m      openflow.Message
	notice bool // nobody has asked for it
}

func newChannel(ctx context.Context, all *Controllers, o *origin, conn *channel.Conn, peer string) *Channel {
	c := &Channel{
		all: all, origin: o, conn: conn, peer: peer, since: time.Now(),
		role: openflow.RoleEqual, async: defaultAsync, missSendLen: defaultMissSendLen,
	}
	if o.peers.ReadOnly {
		c.role = openflow.RoleSlave
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c
}

// close waits until nothing of the channel is left but conn, whose owner closes it.
func (c *Channel) close() {
	c.cancel(context.Canceled)
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.tasks.Wait()
}

// String names the channel in messages.
func (c *Channel) String() string {
	if c.peer == "" {
		return c.origin.endpoint.String()
	}
	return c.origin.endpoint.String() + " " + c.peer
}

// Role returns the controller's role.
func (c *Channel) Role() openflow.Role {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.role
}

// Reply answers the request with that xid; m is not changed after. A multipart reply is divided where it is longer than a message
// can be. It never waits, and does nothing when the channel has ended.
func (c *Channel) Reply(xid uint32, m openflow.Message) {
	if reply, ok := m.(*openflow.MultipartReply); ok && reply.Flags == 0 {
		for _, part := range openflow.Split(reply.Body) {
			c.send(message{xid: xid, m: part})
		}
		return
	}
	c.send(message{xid: xid, m: m})
}

// Refuse answers a request, whose bytes are raw, with an error.
func (c *Channel) Refuse(xid uint32, raw []byte, f *openflow.Fault) {
	c.refused++
	c.origin.counts.refused.Add(1)
	c.all.log.Debug("message refused", "channel", c.String(), "xid", xid, "error", f)
	c.send(message{xid: xid, m: f.Answer(raw)})
}

// ErrBehind ends the channel of a controller that reads too slowly for what it must be told.
var ErrBehind = errors.New("the controller reads too slowly")

// send queues a message, if need be until there is room.
func (c *Channel) send(w message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if c.idle == nil {
		err := c.conn.Send(w.xid, w.m)
		if !errors.Is(err, channel.ErrFull) {
			c.sent(err)
			return
		}
		c.idle = make(chan struct{})
		c.tasks.Go(c.flush)
	}
	if w.notice {
		c.notices++
	}
	// A controller can be told that every flow entry is gone, and then some.
	if most := c.all.cfg.Limits.Entries + 1024; c.notices > most {
		c.cancel(fmt.Errorf("%w: %d messages wait", ErrBehind, most))
		return
	}
	c.later = append(c.later, w)
}

// sent counts what conn says of a message. The caller holds mu.
func (c *Channel) sent(err error) {
	switch {
	case err == nil:
		c.origin.counts.sent.Add(1)
	case c.conn.Err() == nil: // the message cannot be sent, and whoever waits for it must not wait for ever
		c.cancel(err)
	}
}

// flush is the task that sends what waits. It ends when nothing does.
func (c *Channel) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.later) > 0 {
		w := c.later[0]
		c.mu.Unlock()
		err := c.conn.SendWait(c.ctx, w.xid, w.m)
		c.mu.Lock()
		c.sent(err)
		if err != nil {
			c.ended, c.later = true, nil
			break
		}
		c.later[0] = message{} // or the array would hold it
		c.later = c.later[1:]
		if w.notice {
			c.notices--
		}
	}
	c.later = nil
	close(c.idle)
	c.idle = nil
}

// drained waits until nothing waits to be sent. It fails when the channel ends.
func (c *Channel) drained() error {
	c.mu.Lock()
	idle := c.idle
	c.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-c.ctx.Done():
		}
	}
	if c.ctx.Err() != nil {
		return c.why(c.ctx.Err())
	}
	return nil
}

// why returns what ended the channel, where err is what conn said.
func (c *Channel) why(err error) error {
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	return err
}
