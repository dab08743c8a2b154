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

// defaultMissSendLen is the initial miss_send_len, in bytes [7.3.2].
const defaultMissSendLen = 128

// Channel is a controller's channel that is up.
type Channel struct {
	all    *Controllers
	origin *origin
	conn   *channel.Conn
	peer   string // address of the peer, "" if it has none
	since  time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup

	// Accessed in the turn only.
	refused int
	parts   parts

	mu          sync.Mutex
	role        openflow.Role
	async       openflow.Async
	missSendLen uint16
	id          uint16    // packets for a controller with another id are not sent here; 0 accepts all
	later       []message // waiting for space in conn
	notices     int       // number of notices in later
	idle        chan struct{}
	ended       bool
}

// message is queued for sending.
type message struct {
	xid    uint32
	m      openflow.Message
	notice bool // unsolicited
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

// close waits for the channel's goroutines. conn is closed by its owner.
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

// Reply sends a reply to the request with that xid; m must not be changed afterwards. A multipart reply longer than a message is split. It
// never waits, and does nothing if the channel has ended.
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

// ErrBehind ends the channel of a controller that reads notifications too slowly.
var ErrBehind = errors.New("the controller reads too slowly")

// send queues a message, waiting in later if the queue is full.
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
	// enough for a notification of the removal of every flow entry
	if most := c.all.cfg.Limits.Entries + 1024; c.notices > most {
		c.cancel(fmt.Errorf("%w: %d messages queued", ErrBehind, most))
		return
	}
	c.later = append(c.later, w)
}

// sent counts a message by conn's result. The caller holds mu.
func (c *Channel) sent(err error) {
	switch {
	case err == nil:
		c.origin.counts.sent.Add(1)
	case c.conn.Err() == nil: // the message cannot be sent: end the channel, so that nobody waits for it forever
		c.cancel(err)
	}
}

// flush is the goroutine that sends the messages in later. It ends when there are none.
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
		c.later[0] = message{} // release the memory
		c.later = c.later[1:]
		if w.notice {
			c.notices--
		}
	}
	c.later = nil
	close(c.idle)
	c.idle = nil
}

// drained waits until nothing is queued. It fails if the channel ends.
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

// why returns what ended the channel; err is conn's error.
func (c *Channel) why(err error) error {
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	return err
}
