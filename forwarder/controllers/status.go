package controllers

import (
	"sync/atomic"
	"time"

	"baton/forwarder/config"
	"baton/openflow"
)

// Status is the status of a configured endpoint.
type Status struct {
	Endpoint config.Endpoint
	Listens  bool // accepts connections
	Channels []ChannelStatus
	// Error is the last failure of an attempt or channel, at Failed; "" if none.
	Error  string
	Failed time.Time
	Counts
}

// ChannelStatus is a channel that is up.
type ChannelStatus struct {
	Peer  string // "" if it has no address
	Since time.Time
	Role  openflow.Role
}

// Counts are totals of all channels of an endpoint, since the start.
type Counts struct {
	Opened    uint64 // channels that came up
	Received  uint64 // messages
	Refused   uint64 // messages answered with an error
	Sent      uint64 // messages without packet-ins
	PacketIns uint64 // sent
	Dropped   uint64 // packet-ins that did not fit in the queue
	Rejected  uint64 // connections above the limit, and evicted ones
}

// counts are the live counters behind Counts.
type counts struct{ opened, received, refused, sent, packetIns, dropped, rejected atomic.Uint64 }

// failure is the last failure of an endpoint.
type failure struct {
	err error
	at  time.Time
}

func (o *origin) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = failure{err, time.Now()}
}

// Status returns the status of all endpoints, in the configuration's order, controllers first.
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
