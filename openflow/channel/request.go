package channel

import (
	"context"
	"errors"
	"fmt"

	"baton/openflow"
)

// Refused is the peer's error reply to a request.
type Refused struct {
	Request openflow.Message
	Answer  *openflow.Error
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%v refused: %v", r.Request.Type(), r.Answer.Code)
}

// ErrAnswer reports a multipart reply longer than Options.Answer.
var ErrAnswer = errors.New("the answer is too long")

// waiter collects the replies to a request.
type waiter struct {
	request openflow.Message
	parts   []openflow.Message
	bytes   int
	refused *openflow.Error
	done    bool
}

// replies maps requests to the type of their reply.
var replies = map[openflow.Type]openflow.Type{
	openflow.TypeFeaturesRequest:       openflow.TypeFeaturesReply,
	openflow.TypeGetConfigRequest:      openflow.TypeGetConfigReply,
	openflow.TypeMultipartRequest:      openflow.TypeMultipartReply,
	openflow.TypeBarrierRequest:        openflow.TypeBarrierReply,
	openflow.TypeQueueGetConfigRequest: openflow.TypeQueueGetConfigReply,
	openflow.TypeRoleRequest:           openflow.TypeRoleReply,
	openflow.TypeGetAsyncRequest:       openflow.TypeGetAsyncReply,
	openflow.TypeExperimenter:          openflow.TypeExperimenter,
}

// answers passes a message to the request that it answers, if any. It compares xid and type, because the peer's own transaction ids may
// coincide with ours. The caller holds mu.
func (c *Conn) answers(m openflow.Message, raw []byte) bool {
	h, err := openflow.ParseHeader(raw)
	w := c.waiters[h.XID]
	if err != nil || w == nil || w.done {
		return false
	}
	if refusal, ok := m.(*openflow.Error); ok {
		w.refused, w.done = refusal, true
		c.changed.Broadcast()
		return true
	}
	if reply, ok := replies[w.request.Type()]; !ok || m.Type() != reply {
		return false
	}
	w.parts, w.bytes, w.done = append(w.parts, m), w.bytes+len(raw), true
	if part, ok := m.(*openflow.MultipartReply); ok {
		w.done = part.Flags&openflow.MultipartMore == 0 || w.bytes > c.o.Answer
	}
	c.changed.Broadcast()
	return true
}

// ask sends a request and returns its waiter. The caller calls forget.
func (c *Conn) ask(ctx context.Context, m openflow.Message) (uint32, *waiter, error) {
	c.mu.Lock()
	xid, w := c.m.nextXID(), &waiter{request: m}
	c.waiters[xid] = w
	c.mu.Unlock()
	return xid, w, c.SendWait(ctx, xid, m)
}

func (c *Conn) forget(xid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiters, xid)
}

// answer sends a request and waits for the complete reply.
func (c *Conn) answer(ctx context.Context, m openflow.Message) (*waiter, error) {
	xid, w, err := c.ask(ctx, m)
	defer c.forget(xid)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.wait(ctx, func() bool { return w.done }); err != nil {
		return nil, err
	}
	if w.refused != nil {
		return nil, &Refused{m, w.refused}
	}
	return w, nil
}

// Request sends a request and waits for its reply, a single message. An error of the peer is a [*Refused].
func (c *Conn) Request(ctx context.Context, m openflow.Message) (openflow.Message, error) {
	w, err := c.answer(ctx, m)
	if err != nil {
		return nil, err
	}
	return w.parts[0], nil
}

// Multipart sends a multipart request and waits for all parts of the reply. An error of the peer is a [*Refused]; a reply longer than
// Options.Answer is [ErrAnswer], and its rest goes to Receive.
func (c *Conn) Multipart(ctx context.Context, body openflow.MultipartBody) ([]openflow.MultipartBody, error) {
	w, err := c.answer(ctx, &openflow.MultipartRequest{Body: body})
	if err != nil {
		return nil, err
	}
	if w.bytes > c.o.Answer {
		return nil, ErrAnswer
	}
	var parts []openflow.MultipartBody
	for _, p := range w.parts {
		if reply, ok := p.(*openflow.MultipartReply); ok {
			parts = append(parts, reply.Body)
		}
	}
	return parts, nil
}

// Commit sends messages that have no reply, such as flow mods, followed by a barrier, and waits for the barrier's reply: each message is then
// in force, or refused. It returns the peer's errors, each a [*Refused], joined.
func (c *Conn) Commit(ctx context.Context, messages ...openflow.Message) error {
	waiting := make([]*waiter, len(messages))
	for i, m := range messages {
		xid, w, err := c.ask(ctx, m)
		defer c.forget(xid)
		if err != nil {
			return err
		}
		waiting[i] = w
	}
	if _, err := c.answer(ctx, &openflow.BarrierRequest{}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var refused []error
	for i, w := range waiting {
		if w.refused != nil {
			refused = append(refused, &Refused{messages[i], w.refused})
		}
	}
	return errors.Join(refused...)
}
