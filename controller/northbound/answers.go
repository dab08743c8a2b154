package northbound

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/coder/websocket"
	"github.com/creachadair/jrpc2"

	"baton/api"
)

// reply is the answer to a message, in parts that are not copied again.
type reply struct {
	parts [][]byte
	bytes int64
}

func (r *reply) add(parts ...[]byte) {
	r.parts = append(r.parts, parts...)
	for _, p := range parts {
		r.bytes += int64(len(p))
	}
}

// refuse answers by an error. An id of null belongs to what was not read as a call.
func (r *reply) refuse(id string, err *jrpc2.Error) {
	text, wrong := json.Marshal(err)
	if wrong != nil {
		text = []byte(`{"code":-32603,"message":"internal error"}`)
	}
	if id == "" {
		id = "null"
	}
	r.add([]byte(`{"jsonrpc":"2.0","id":`+id+`,"error":`), text, []byte(`}`))
}

func (r *reply) result(id string, text []byte) {
	r.add([]byte(`{"jsonrpc":"2.0","id":`+id+`,"result":`), text, []byte(`}`))
}

// parse returns a message's requests, or the answer to what has none.
func (s *Server) parse(message []byte) (requests []*jrpc2.ParsedRequest, refusal *reply) {
	var refused *jrpc2.Error
	if s.tooLong(message) {
		refused = jrpc2.Errorf(jrpc2.InvalidRequest, "a batch has at most %d calls", s.limits.Batch)
	} else if requests, err := jrpc2.ParseRequests(message); err != nil {
		refused = &jrpc2.Error{Code: jrpc2.ParseError, Message: "this is not JSON"}
	} else if len(requests) == 0 {
		refused = &jrpc2.Error{Code: jrpc2.InvalidRequest, Message: "a batch without calls"}
	} else {
		return requests, nil
	}
	s.counts.call("unknown", refused.Code)
	refusal = &reply{}
	refusal.refuse("", refused)
	return nil, refusal
}

// tooLong reports whether a message is a batch of too many calls. They are not parsed: a call is a hundred times as large as the two
// bytes that it may have in a message.
func (s *Server) tooLong(message []byte) bool {
	d := json.NewDecoder(bytes.NewReader(message))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return false
	}
	var skipped json.RawMessage
	n := 0
	for ; n <= s.limits.Batch && d.More(); n++ {
		if d.Decode(&skipped) != nil {
			return false // the parser says so
		}
	}
	return n > s.limits.Batch
}

// lists reports whether a call's answer has lists.
func (s *Server) lists(r *jrpc2.ParsedRequest) bool { return s.methods[r.Method].lists }

// handle returns the answer to requests, which has no bytes if all are notifications. Its bytes are part of what the connection holds.
func (s *Server) handle(ctx context.Context, c *connection, requests []*jrpc2.ParsedRequest) *reply {
	answer, began := &reply{}, time.Now()
	for _, r := range requests {
		before := *answer
		if before.bytes > 0 {
			answer.add([]byte(","))
		}
		lists := s.lists(r)
		full := s.room(ctx, c, lists, answer, began)
		if !s.one(ctx, c, r, answer, full) {
			*answer = before
		}
		s.budget.made(c.holder, lists && full == nil, answer.bytes-before.bytes)
	}
	if answer.bytes > 0 && requests[0].Batch {
		answer.parts = append(slices.Insert(answer.parts, 0, []byte("[")), []byte("]"))
	}
	return answer
}

// room waits until a call's answer may be made, and returns why it may not. Bytes of a batch that is not complete cannot be read: one
// that has many does not take longer than a call.
func (s *Server) room(ctx context.Context, c *connection, lists bool, answer *reply, began time.Time) error {
	many := answer.bytes > reserved
	if many && time.Since(began) > s.limits.Call {
		return api.ControllerErrorf(api.ControllerTooMany, "the calls of this batch before have taken %v: call again", s.limits.Call)
	}
	return s.budget.enter(ctx, c.holder, lists, many)
}

// one carries out one call, unless it is full, and reports whether it has answered. There is no answer to a notification.
func (s *Server) one(ctx context.Context, c *connection, r *jrpc2.ParsedRequest, answer *reply, full error) bool {
	switch {
	case r.Error != nil:
		wrong := *r.Error
		if wrong.Code == jrpc2.ParseError {
			wrong.Code = jrpc2.InvalidRequest // it is JSON, and no request
		}
		s.counts.call("unknown", r.Error.Code)
		answer.refuse(r.ID, &wrong)
		return true
	case r.Method == "":
		s.counts.call("unknown", jrpc2.InvalidRequest)
		answer.refuse(r.ID, &jrpc2.Error{Code: jrpc2.InvalidRequest, Message: "no method"})
		return true
	}
	var result any
	err := full
	if err == nil {
		result, err = s.call(ctx, c, r.Method, r.Params)
	} else if _, known := s.methods[r.Method]; known {
		s.counts.call(r.Method, api.ControllerTooMany)
	}
	if r.ID == "" {
		return false
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(result)
	}
	if err != nil {
		answer.refuse(r.ID, rpcError(err))
		return true
	}
	answer.result(r.ID, text)
	return true
}

// write sends a message. A large one goes in frames of a part each, so that a caller that reads slowly is not taken for one that does
// not read.
func (c *connection) write(parts [][]byte) error {
	c.writes.Lock()
	defer c.writes.Unlock()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	late := time.AfterFunc(c.server.limits.Write, func() {
		c.server.cutUnread(c.caller())
		cancel()
	})
	defer late.Stop()
	c.holder.begins()
	defer c.holder.ends()
	c.holder.writes()
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size <= part {
		return c.socket.Write(ctx, websocket.MessageText, slices.Concat(parts...))
	}
	w, err := c.socket.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for _, p := range parts {
		for piece := range slices.Chunk(p, part) {
			late.Reset(c.server.limits.Write)
			c.holder.writes()
			if _, err := w.Write(piece); err != nil {
				return err
			}
		}
	}
	return w.Close()
}

// cutUnread logs and counts a caller that is cut off.
func (s *Server) cutUnread(who Caller) {
	s.counts.refuse("unread")
	s.log.Warn("a caller was cut off: it does not read what it has called for, or too slowly", "caller", who.Name, "from", who.Remote)
}
