// Package measure estimates the capacity and round-trip times of a host's links from the host's own traffic: byte counters of the links,
// and the kernel's measurements of each TCP connection (struct tcp_info). It sends nothing. It is pure: samples carry their time, see
// [Measure]; [Reader] takes them.
//
// The capacity of a direction is estimated like the bottleneck bandwidth in BBR (Cardwell et al., ACM Queue 14(5), 2016): the highest rate
// in a time window. A rate is the capacity only while the link is the bottleneck; otherwise it is a lower bound. The link is the bottleneck
// if there are queues (round trips above the minimum), or losses of several busy flows, while the link was never idle. This distinguishes a
// slower link from one that is used less.
package measure

import (
	"time"

	"baton/sockdiag"
)

// Sample is one observation. Counters are useful five times a second, flows about once.
type Sample struct {
	At     time.Duration // monotonic, such as CLOCK_MONOTONIC
	Links  []Counters    // by place in the configuration
	Listed bool          // Flows is complete; otherwise flows were not listed
	Flows  []Flow
}

// Counters are a link's traffic.
type Counters struct {
	Sent, Received   uint64        // bytes, in total; a decrease means that they restarted from 0
	SYNs, SYNRepeats uint64        // TCP connections that were opened, and retransmitted SYNs
	RTT              time.Duration // current value from other sources, handshakes or probes; 0: unknown
}

// Flow is a TCP connection with its link's place.
type Flow struct {
	Link int
	sockdiag.TCP
}

// Figures are the estimates for a link.
type Figures struct {
	RTT, MinRTT            time.Duration // of its connections, smoothed, and the minimum of the last minutes; 0: unknown
	Loss                   float64       // share of retransmitted segments in the last minute
	SentRate, ReceivedRate float64       // bits per second, over the last two seconds
	Up, Down               Capacity
	Heard                  time.Duration // when new data last arrived over the link, on the clock of Sample.At; 0: never
}

// Capacity is the capacity of a link's direction.
type Capacity struct {
	Rate  float64 // bits per second; 0: unknown
	Bound bool    // a lower bound: the link has never been the bottleneck
}

// Known reports whether Rate is an estimate.
func (c Capacity) Known() bool { return c.Rate > 0 && !c.Bound }

// Measure keeps the state of links. It is for one goroutine at a time.
type Measure struct {
	links  []link
	last   time.Duration // time of the previous sample
	listed bool          // flows have been listed
	at     time.Duration // when that was
	flows  map[uint64]seen
	spare  map[uint64]seen // memory of the previous listing, for reuse
}

// link is the state of a link.
type link struct {
	begun    bool
	counters Counters
	up, down direction
	others   least // RTTs from other sources
	trips    trips
	loss     loss
	heard    time.Duration
}

// New returns a Measure for some links, without measurements.
func New(links int) *Measure {
	return &Measure{links: make([]link, links), flows: map[uint64]seen{}, spare: map[uint64]seen{}}
}

// Forget resets a link that leads elsewhere now.
func (m *Measure) Forget(place int) { m.links[place] = link{} }

// Take copies a link's state from another Measure, where it had the place old, after a change of the configuration. Only one of both may
// use it afterwards.
func (m *Measure) Take(place int, from *Measure, old int) { m.links[place] = from.links[old] }

// Figures returns the estimates by place.
func (m *Measure) Figures() []Figures {
	out := make([]Figures, len(m.links))
	for i := range m.links {
		l := &m.links[i]
		out[i] = Figures{
			RTT: l.trips.smooth, MinRTT: l.trips.floor(), Loss: l.loss.share(),
			SentRate: l.up.recent.rate(), ReceivedRate: l.down.recent.rate(),
			Up: l.up.capacity(), Down: l.down.capacity(), Heard: l.heard,
		}
	}
	return out
}

// Add adds a sample. It ignores one that is not later than the previous one.
func (m *Measure) Add(s Sample) {
	if s.At <= m.last {
		return
	}
	m.last = s.At
	for i := range min(len(m.links), len(s.Links)) {
		m.links[i].count(s.At, s.Links[i])
	}
	if !s.Listed {
		return
	}
	shown := m.listing(s)
	for i := range m.links {
		l := &m.links[i]
		if m.listed {
			l.up.judge(s.At, shown[i].up.evidence(l))
			l.down.judge(s.At, shown[i].down.evidence(l))
			l.trips.add(s.At, shown[i].trips)
			l.loss.add(s.At, shown[i].segments, shown[i].repeats)
			l.heard = max(l.heard, shown[i].heard)
		} else {
			l.up.judge(s.At, evidence{})
			l.down.judge(s.At, evidence{})
		}
	}
	m.listed, m.at = true, s.At
}

// count adds counters.
func (l *link) count(at time.Duration, c Counters) {
	if !l.begun {
		l.begun, l.counters = true, c
		l.up.begin(at)
		l.down.begin(at)
		return
	}
	before := l.counters
	l.counters = c
	l.up.carried(at, grown(before.Sent, c.Sent))
	l.down.carried(at, grown(before.Received, c.Received))
	l.loss.add(at, grown(before.SYNs, c.SYNs), grown(before.SYNRepeats, c.SYNRepeats))
	if l.others.latest = 0; c.RTT > 0 {
		l.others.add(at, c.RTT)
	}
}

// grown returns a counter's increase. A decrease means that the time between is unknown.
func grown(before, now uint64) uint64 {
	if now < before {
		return 0
	}
	return now - before
}
