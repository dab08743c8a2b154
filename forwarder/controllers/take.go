package controllers

import (
	"errors"
	"fmt"

	"baton/openflow"
)

// take handles a message. Called in the turn.
func (c *Channel) take(xid uint32, m openflow.Message, raw []byte) {
	c.origin.counts.received.Add(1)
	err := c.answer(xid, m, raw)
	var f *openflow.Fault
	if errors.As(err, &f) {
		c.Refuse(xid, raw, f)
	}
}

// fault makes a Fault of ours.
func fault(code openflow.Code, section, format string, args ...any) error {
	return &openflow.Fault{Code: code, Section: section, Text: fmt.Sprintf(format, args...)}
}

// answer answers a message, or returns the [*openflow.Fault] to refuse it with.
func (c *Channel) answer(xid uint32, m openflow.Message, raw []byte) error {
	if c.Role() == openflow.RoleSlave && writes(m) {
		return fault(openflow.BadRequestIsSlave, "6.3.6", "%v of a slave", m.Type())
	}
	if err := openflow.Check(m); err != nil {
		return err
	}
	switch m := m.(type) {
	case *openflow.Error:
		c.all.log.Debug("controller refuses a message", "channel", c.String(), "xid", xid, "code", m.Code.String())
	case *openflow.FeaturesRequest:
		features := c.all.h.Features()
		c.Reply(xid, &features)
	case *openflow.BarrierRequest:
		c.Reply(xid, &openflow.BarrierReply{}) // all earlier messages are done
	case *openflow.GetConfigRequest:
		c.mu.Lock()
		length := c.missSendLen
		c.mu.Unlock()
		c.Reply(xid, &openflow.GetConfigReply{Config: openflow.Config{Flags: c.all.frag, MissSendLen: length}})
	case *openflow.SetConfig:
		return c.setConfig(xid, m, raw)
	case *openflow.QueueGetConfigRequest:
		c.Reply(xid, &openflow.QueueGetConfigReply{Port: m.Port}) // ports have no queues
	case *openflow.RoleRequest:
		return c.roleRequest(xid, m)
	case *openflow.GetAsyncRequest:
		c.mu.Lock()
		async := c.async
		c.mu.Unlock()
		c.Reply(xid, &openflow.GetAsyncReply{Async: async})
	case *openflow.SetAsync:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.async = m.Async
	case *openflow.SetPacketInFormat:
		if m.Format != 0 {
			return fault(openflow.BadRequestBadExpType, "7.5.4", "packet-ins of format %d", m.Format)
		}
	case *openflow.SetControllerID:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.id = m.Controller
	case *openflow.MultipartRequest:
		whole, err := c.parts.add(xid, m, len(raw))
		if err != nil || whole == nil {
			return err
		}
		c.all.h.Handle(c, xid, whole, raw)
	default:
		c.all.h.Handle(c, xid, m, raw)
	}
	return nil
}

// setConfig stores a controller's packet-in options, and passes on the handling of fragments.
func (c *Channel) setConfig(xid uint32, m *openflow.SetConfig, raw []byte) error {
	if m.Flags != c.all.frag {
		if c.Role() == openflow.RoleSlave {
			return fault(openflow.BadRequestIsSlave, "6.3.6", "fragments changed by a slave")
		}
		before := c.refused
		c.all.h.Handle(c, xid, m, raw)
		if c.refused != before {
			return nil
		}
		c.all.frag = m.Flags
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missSendLen = m.MissSendLen
	return nil
}

// maxParts limits the total size of incomplete requests of a channel, in bytes.
const maxParts = 1 << 20

// parts are incomplete multipart requests [7.3.5]: only table features requests may be split.
type parts struct {
	open  map[uint32]openflow.TableFeaturesBody // by xid
	bytes int
}

// add returns the complete request if m is its last part, nil otherwise.
func (p *parts) add(xid uint32, m *openflow.MultipartRequest, length int) (*openflow.MultipartRequest, error) {
	body, ok := m.Body.(openflow.TableFeaturesBody)
	before := p.open[xid]
	more := m.Flags&openflow.MultipartMore != 0
	if !more && before == nil {
		return m, nil
	}
	if !ok || p.bytes+length > maxParts {
		delete(p.open, xid)
		if len(p.open) == 0 {
			p.bytes = 0
		}
		return nil, fault(openflow.BadRequestMultipartBufferOverflow, "7.3.5", "%v in parts", m.Body.Multipart())
	}
	body = append(before, body...)
	if more {
		if p.open == nil {
			p.open = map[uint32]openflow.TableFeaturesBody{}
		}
		p.open[xid] = body
		p.bytes += length
		return nil, nil
	}
	delete(p.open, xid)
	if len(p.open) == 0 {
		p.bytes = 0
	}
	return &openflow.MultipartRequest{Body: body}, nil
}
