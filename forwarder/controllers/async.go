package controllers

import (
	"errors"

	"baton/openflow"
	"baton/openflow/channel"
)

// defaultAsync is a controller's initial asynchronous configuration: as master or equal everything but packets with an invalid TTL, as slave
// port status only [7.3.10].
var defaultAsync = openflow.Async{
	PacketIn:    [2]uint32{1<<openflow.ReasonNoMatch | 1<<openflow.ReasonAction, 0},
	PortStatus:  [2]uint32{allPortReasons, allPortReasons},
	FlowRemoved: [2]uint32{allRemovedReasons, 0},
}

const (
	allPortReasons    = 1<<openflow.PortAdd | 1<<openflow.PortDelete | 1<<openflow.PortModify
	allRemovedReasons = 1<<openflow.RemovedIdleTimeout | 1<<openflow.RemovedHardTimeout | 1<<openflow.RemovedDelete |
		1<<openflow.RemovedGroupDelete
)

// wants reports whether a mask contains a reason, for a role.
func wants(mask [2]uint32, role openflow.Role, reason uint8) bool {
	if role == openflow.RoleSlave {
		return mask[1]>>reason&1 != 0
	}
	return mask[0]>>reason&1 != 0
}

// PacketIn sends a packet to the controllers that want it, with at most maxLen bytes of its data, or all with MaxLenNoBuffer; of a packet with
// an invalid TTL, as much as each controller has configured [7.3.2]. If a controller reads too slowly, the packet is dropped and counted.
// PacketIn may change m until it returns, and does not keep it.
func (c *Controllers) PacketIn(m *openflow.PacketIn, maxLen uint16) {
	data := m.Data
	defer func() { m.Data = data }()
	for _, ch := range *c.channels.Load() {
		ch.packetIn(m, data, maxLen)
	}
}

func (c *Channel) packetIn(m *openflow.PacketIn, data []byte, maxLen uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.id != 0 || !wants(c.async.PacketIn, c.role, uint8(m.Reason)) {
		return
	}
	if m.Reason == openflow.ReasonInvalidTTL {
		maxLen = c.missSendLen
	}
	m.Data = data
	if maxLen != openflow.MaxLenNoBuffer {
		m.Data = data[:min(len(data), int(maxLen))]
	}
	err := channel.ErrFull
	if c.idle == nil { // queued messages go first
		err = c.conn.Send(0, m)
	}
	switch {
	case err == nil:
		c.origin.counts.packetIns.Add(1)
	case errors.Is(err, channel.ErrFull):
		c.origin.counts.dropped.Add(1)
	}
}

// FlowRemoved notifies the controllers that want it of a removed flow entry. m must not be changed afterwards.
func (c *Controllers) FlowRemoved(m *openflow.FlowRemoved) {
	for _, ch := range *c.channels.Load() {
		ch.notify(m, func(a openflow.Async) [2]uint32 { return a.FlowRemoved }, uint8(m.Reason))
	}
}

// PortStatus notifies the controllers that want it of a port. m must not be changed afterwards.
func (c *Controllers) PortStatus(m *openflow.PortStatus) {
	for _, ch := range *c.channels.Load() {
		ch.notify(m, func(a openflow.Async) [2]uint32 { return a.PortStatus }, uint8(m.Reason))
	}
}

func (c *Channel) notify(m openflow.Message, mask func(openflow.Async) [2]uint32, reason uint8) {
	c.mu.Lock()
	wanted := wants(mask(c.async), c.role, reason)
	c.mu.Unlock()
	if wanted {
		c.send(message{m: m, notice: true})
	}
}
