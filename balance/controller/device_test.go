package controller

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"baton/balance/tables"
	"baton/openflow"
	"baton/openflow/channel"
)

// device is as much of a switch as the controller asks for, at the other end of a connection in memory.
type device struct {
	t *testing.T

	mu           sync.Mutex
	entries      map[string]*openflow.FlowMod
	groups       map[openflow.GroupID]*openflow.GroupMod
	log          []string // the messages that change something
	out          []*openflow.PacketOut
	refuse       func(openflow.Message) bool
	unresponsive bool // answers no barrier
	conn         *channel.Conn
}

func newDevice(t *testing.T) *device {
	return &device{t: t, entries: map[string]*openflow.FlowMod{}, groups: map[openflow.GroupID]*openflow.GroupMod{}}
}

// join connects the switch to a controller, and returns what Serve does.
func (d *device) join(c *Controller) <-chan error {
	ours, theirs := net.Pipe()
	conn := channel.Start(theirs, channel.Options{})
	d.mu.Lock()
	d.conn = conn
	d.mu.Unlock()
	d.t.Cleanup(func() { conn.Close() })
	go func() {
		for {
			m, err := conn.Receive(context.Background())
			if err != nil {
				return
			}
			for _, answer := range d.take(m) {
				if err := conn.Send(m.XID, answer); err != nil {
					return
				}
			}
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Serve(ctx, ours) }()
	d.t.Cleanup(cancel)
	return ended
}

func key(m *openflow.FlowMod) string {
	return fmt.Sprintf("%03d %05d %s", m.Table, m.Priority, m.Match)
}

// take does as a message says, and returns the answers.
func (d *device) take(r channel.Received) []openflow.Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	raw := bytes.Clone(r.Raw)
	_, message, err := openflow.Decode(raw)
	if err != nil {
		d.t.Error(err)
		return nil
	}
	if d.refuse != nil && d.refuse(message) {
		return []openflow.Message{&openflow.Error{Code: openflow.FlowModFailedTableFull, Data: raw[:min(len(raw), 64)]}}
	}
	switch m := message.(type) {
	case *openflow.FeaturesRequest:
		return []openflow.Message{&openflow.FeaturesReply{DatapathID: 0x42}}
	case *openflow.BarrierRequest:
		if d.unresponsive {
			return nil
		}
		return []openflow.Message{&openflow.BarrierReply{}}
	case *openflow.FlowMod:
		d.log = append(d.log, tables.Text(m))
		d.flowMod(m)
	case *openflow.GroupMod:
		d.log = append(d.log, tables.Text(m))
		d.groups[m.Group] = m
		if m.Command == openflow.GroupDelete {
			delete(d.groups, m.Group)
		}
	case *openflow.PacketOut:
		d.out = append(d.out, m)
	case *openflow.MultipartRequest:
		return d.report(m)
	}
	return nil
}

func (d *device) flowMod(m *openflow.FlowMod) {
	switch m.Command {
	case openflow.FlowDelete:
		for k, e := range d.entries {
			if e.Cookie&m.CookieMask == m.Cookie&m.CookieMask {
				delete(d.entries, k)
			}
		}
	case openflow.FlowDeleteStrict:
		delete(d.entries, key(m))
	default:
		d.entries[key(m)] = m
	}
}

func (d *device) report(m *openflow.MultipartRequest) []openflow.Message {
	var body openflow.MultipartBody
	switch m.Body.(type) {
	case openflow.FlowStatsRequest:
		var list openflow.FlowStatsReply
		for _, e := range d.entries {
			list = append(list, openflow.FlowStats{Table: e.Table, Priority: e.Priority, Cookie: e.Cookie, Idle: e.Idle, Match: e.Match,
				Instructions: e.Instructions})
		}
		body = list
	case openflow.GroupDescRequest:
		var list openflow.GroupDescReply
		for _, g := range d.groups {
			list = append(list, openflow.GroupDesc{Kind: g.Kind, Group: g.Group, Buckets: g.Buckets})
		}
		body = list
	}
	var answers []openflow.Message
	for _, p := range openflow.Split(body) {
		answers = append(answers, p)
	}
	return answers
}
