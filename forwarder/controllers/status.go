package controllers

import (
	"sync/atomic"
	"time"

	"baton/forwarder/config"
	"baton/openflow"
)

// Status is a configured endpoint at a glance.
type Status struct {
	Endpoint config.Endpoint
	Listens  bool // others connect to it
	Channels []ChannelStatus
	// Error is why the last attempt or channel failed, at Failed; "" if none has.
	Error  string
	Failed time.Time
	Counts
}

// ChannelStatus is a channel that is up.
type ChannelStatus struct {
	Peer  string // "" where it has no address
	Since time.Time
	Role  openflow.Role
}

// Counts are those of all channels of an endpoint, since the start.
type Counts struct {
	Opened    uint64 // channels that came up
	Received  uint64 // messages
	Refused   uint64 // of them, those answered with an error
	Sent      uint64 // messages but packet-ins
	PacketIns uint64 // sent
	Dropped   uint64 // packet-ins that there was no room for
	Rejected  uint64 // connections that there was no room for, or no more without a hello
}

// counts are Counts while they change.
type counts struct{ opened, received, refused, sent, packetIns, dropped, rejected atomic.Uint64 }

// failure is the last of an endpoint.
type failure struct {
	err error
	at  time.Time
}

func (o *origin) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = failure{err, time.Now()}
}

// Status tells of each configured endpoint, in the order of the configuration, controllers first.
func (c *Controllers) Status() []Status {
	c.configuring.RLock()
	defer c.configuring.RUnlock()
	out := make([]Status, len(c.origins))
	for i, o := range c.origins {
		n := &o.counts
		out[i] = Status{
			Endpoint: o.endpoint, Listens: o.listens,
			Counts: Counts{
				Opened: n.opened.Load(), Received: n.received.Load(), Refused: n.refused.Load(), Sent: n.sent.Load(),
				PacketIns: n.packetIns.Load(), Dropped: n.dropped.Load(), Rejected: n.rejected.Load(),
			},
		}
		o.mu.Lock()
		if o.failed.err != nil {
			out[i].Error, out[i].Failed = o.failed.err.Error(), o.failed.at
		}
		o.mu.Unlock()
		for _, ch := range *c.channels.Load() {
			if ch.origin == o {
				out[i].Channels = append(out[i].Channels, ChannelStatus{ch.peer, ch.since, ch.Role()})
			}
		}
	}
	return out
}
