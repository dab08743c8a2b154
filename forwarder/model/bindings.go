package model

import (
	"net/netip"
	"time"

	"baton/forwarder/pipeline"
	"baton/openflow"
	"baton/packet"
)

// Idle timeouts of bound flows (docs/openflow-bind.md), and how long a flow is active.
const (
	keepTCP     = 2*time.Hour + 4*time.Minute // RFC 5382, REQ-5, like keepOpening; for SCTP, too
	keepOpening = 240 * time.Second
	keepClosing = 10 * time.Second
	keepICMP    = 60 * time.Second // RFC 5508, REQ-1
	keepOther   = 5 * time.Minute  // RFC 4787, REQ-5
	keepActive  = 2 * time.Second
)

// Flow is a bound flow. Ports are 0 where its protocol has none; for ICMP echo the requester's port is the identifier.
type Flow struct {
	Protocol         uint8
	Internal, Remote netip.AddrPort
	Port             openflow.PortNo
	Used             time.Duration // by the clock of [Bindings]
	Opening          bool          // TCP: SYN sent, no ACK received
	Closing          bool          // TCP: FIN both ways, or RST

	finSent, finReceived, rstReceived bool
	resting                           bool          // not active regardless of Used: no payload since the FIN
	noted                             time.Duration // when its remote address was last recorded for affinity
}

func (f *Flow) keep() time.Duration {
	switch {
	case f.Closing:
		return keepClosing
	case f.Opening:
		return keepOpening
	case f.Protocol == protocolTCP, f.Protocol == protocolSCTP:
		return keepTCP
	case f.Protocol == protocolICMP, f.Protocol == protocolICMPv6:
		return keepICMP
	}
	return keepOther
}

// Active reports whether the flow counts as active.
func (f *Flow) Active(now time.Duration) bool {
	return !f.Closing && !f.resting && now-f.Used <= keepActive
}

func (f *Flow) finned() bool { return f.finSent || f.finReceived }

// use updates the activity of a flow after a packet; finned: there was a FIN before it.
func (f *Flow) use(now time.Duration, e *ends, finned bool) {
	switch {
	case f.Closing:
		f.resting = true
	case !finned:
		f.resting = e.flags.Has(packet.FIN)
	case e.payload:
		f.resting = false
	case now-f.Used > keepActive:
		f.resting = true
	}
	f.Used = now
}

// over reports whether a bare SYN starts a new flow.
func (f *Flow) over(now time.Duration) bool {
	return f.Closing || !f.Opening && now-f.Used > keepActive
}

// Bindings is the binding table.
type Bindings struct {
	// Most is its capacity.
	Most int
	// Now is the current time, of a monotonic clock.
	Now time.Duration
	// Handshakes is the handshake time of each port, for the method fastest. Unmeasured ports are missing.
	Handshakes map[openflow.PortNo]time.Duration

	flows     map[flowKey]*Flow
	answers   map[answerKey]*Flow
	remotes   map[remoteKey]remote
	fragments map[fragmentKey][2]uint16
	earned    map[turnKey]int64
	totals    map[openflow.GroupID]int64 // sum of the weights at the last selection
}

// NewBindings returns an empty table.
func NewBindings(most int) *Bindings {
	return &Bindings{
		Most: most, Handshakes: map[openflow.PortNo]time.Duration{}, flows: map[flowKey]*Flow{}, answers: map[answerKey]*Flow{},
		remotes: map[remoteKey]remote{}, fragments: map[fragmentKey][2]uint16{}, earned: map[turnKey]int64{},
		totals: map[openflow.GroupID]int64{},
	}
}

type flowKey struct {
	protocol         uint8
	internal, remote netip.AddrPort
}

// answerKey identifies the flow of a reply.
type answerKey struct {
	port     openflow.PortNo
	protocol uint8
	remote   netip.AddrPort
	internal uint16
}

// remoteKey is the scope of affinity.
type remoteKey struct {
	group  openflow.GroupID
	remote netip.Addr
}

type remote struct {
	port openflow.PortNo
	used time.Duration
}

type turnKey struct {
	group openflow.GroupID
	port  openflow.PortNo
}

func (f *Flow) key() flowKey { return flowKey{f.Protocol, f.Internal, f.Remote} }

func (f *Flow) answer() answerKey {
	return answerKey{f.Port, f.Protocol, f.Remote, f.Internal.Port()}
}

// Add adds a flow, or replaces it.
func (m *Bindings) Add(f Flow) {
	if old := m.flows[f.key()]; old != nil {
		m.forget(old)
	}
	m.flows[f.key()], m.answers[f.answer()] = &f, &f
}

// All returns all flows, in no particular order.
func (m *Bindings) All() []Flow {
	var list []Flow
	for _, f := range m.flows {
		if m.expire(f) != nil {
			list = append(list, *f)
		}
	}
	return list
}

func (m *Bindings) forget(f *Flow) {
	delete(m.flows, f.key())
	delete(m.answers, f.answer())
}

// expire removes a flow whose timeout is over; then it returns nil.
func (m *Bindings) expire(f *Flow) *Flow {
	if f != nil && m.Now-f.Used > f.keep() {
		m.forget(f)
		return nil
	}
	return f
}

// clashes reports whether a flow of another internal address has the same replies.
func (m *Bindings) clashes(f *Flow) bool {
	other := m.expire(m.answers[f.answer()])
	return other != nil && other.Internal != f.Internal
}

// sent tracks a packet that a flow has sent, by an entry with that action.
func (m *Bindings) sent(f *Flow, e *ends, a openflow.ActionBind) {
	reset, finned := e.flags.Has(packet.RST), f.finned()
	switch {
	case reset:
		f.Closing, f.rstReceived, f.Opening = true, false, false
	case e.flags.Has(packet.FIN):
		f.finSent = true
		f.Closing = f.Closing || f.finReceived
	case f.rstReceived && !e.flags.Has(packet.SYN):
		f.Closing, f.rstReceived = false, false
	}
	f.use(m.Now, e, finned)
	if !reset && m.Now-f.noted > time.Second {
		m.note(f, a)
	}
}

// note records the port of a flow to a remote address, for affinity.
func (m *Bindings) note(f *Flow, a openflow.ActionBind) {
	if a.Affinity == 0 {
		return
	}
	f.noted = m.Now
	m.remotes[remoteKey{a.Group, f.Remote.Addr()}] = remote{f.Port, m.Now}
}

// received tracks a packet that a flow has received.
func (m *Bindings) received(f *Flow, e *ends) {
	finned := f.finned()
	if e.flags.Has(packet.RST) {
		f.rstReceived = f.rstReceived || !f.Closing
		f.Closing, f.Opening = true, false
	} else {
		f.Opening = f.Opening && !e.flags.Has(packet.ACK)
		if e.flags.Has(packet.FIN) {
			f.finReceived = true
			f.Closing = f.Closing || f.finSent
		}
	}
	f.use(m.Now, e, finned)
}

// affinity returns the bucket in list whose port a flow to the same address has used recently enough.
func (m *Bindings) affinity(a openflow.ActionBind, g *pipeline.Group, list []int, to netip.Addr) (bucket int, ok bool) {
	last, ok := m.remotes[remoteKey{g.ID, to}]
	if !ok || m.Now-last.used > time.Duration(a.Affinity)*time.Second || a.Affinity == 0 {
		return 0, false
	}
	for _, i := range list {
		if g.Buckets[i].WatchPort == last.port {
			return i, true
		}
	}
	return 0, false
}

// choose selects one of a group's buckets in list for a new flow.
func (m *Bindings) choose(a openflow.ActionBind, g *pipeline.Group, list []int) int {
	active := map[openflow.PortNo]int64{}
	for _, f := range m.flows {
		if f.Active(m.Now) {
			active[f.Port]++
		}
	}
	cost := func(openflow.PortNo) int64 { return 0 }
	switch a.Method {
	case openflow.BindEven:
		return m.turn(g, list, list, even(g, list, active))
	case openflow.BindLeast:
		cost = func(port openflow.PortNo) int64 { return active[port] + 1 }
	case openflow.BindFastest:
		shortest := m.shortest(g, list)
		cost = func(port openflow.PortNo) int64 {
			time := m.Handshakes[port]
			if time == 0 && active[port] == 0 {
				return 0
			} else if time == 0 {
				time = shortest
			}
			return min(time.Microseconds()+1, longest.Microseconds()) * (active[port] + 1)
		}
	}
	cheap := cheapest(g, list, cost)
	return m.turn(g, list, cheap, cheap)
}

// longest bounds handshake times, so that costs fit into 64 bits.
const longest = (1 << 22) * time.Microsecond

// shortest is the least measured handshake time among the ports of the buckets.
func (m *Bindings) shortest(g *pipeline.Group, list []int) time.Duration {
	least := time.Duration(0)
	for _, i := range list {
		if t := m.Handshakes[g.Buckets[i].WatchPort]; t != 0 && (least == 0 || t < least) {
			least = t
		}
	}
	return least
}

// cheapest returns the buckets with the least cost per weight.
func cheapest(g *pipeline.Group, list []int, cost func(openflow.PortNo) int64) []int {
	var found []int
	var least, weight int64
	for _, i := range list {
		c, w := cost(g.Buckets[i].WatchPort), int64(g.Buckets[i].Weight)
		if len(found) == 0 || c*weight < least*w {
			found, least, weight = nil, c, w
		}
		if c*weight == least*w {
			found = append(found, i)
		}
	}
	return found
}

// evenBound is how many times the flows per weight of the least loaded port another may have.
const evenBound = 2

// even returns the buckets without an active flow; if there are none, those within evenBound.
func even(g *pipeline.Group, list []int, active map[openflow.PortNo]int64) []int {
	cost := func(i int) int64 { return active[g.Buckets[i].WatchPort] + 1 }
	var idle, found []int
	least := list[0]
	for _, i := range list {
		if cost(i) == 1 {
			idle = append(idle, i)
		}
		if cost(i)*int64(g.Buckets[least].Weight) < cost(least)*int64(g.Buckets[i].Weight) {
			least = i
		}
	}
	if len(idle) > 0 {
		return idle
	}
	for _, i := range list {
		if cost(i)*int64(g.Buckets[least].Weight) <= evenBound*cost(least)*int64(g.Buckets[i].Weight) {
			found = append(found, i)
		}
	}
	return found
}

// turn is smooth weighted round-robin: each bucket in earning gets its weight as credit; the one of among with the most credit wins, and pays
// the sum. Credits are limited to the sum of all weights in list, and rescaled when that changes.
func (m *Bindings) turn(g *pipeline.Group, list, earning, among []int) int {
	key := func(i int) turnKey { return turnKey{g.ID, g.Buckets[i].WatchPort} }
	all, pays := int64(0), int64(0)
	for _, i := range list {
		all += int64(g.Buckets[i].Weight)
	}
	if was := m.totals[g.ID]; was != 0 {
		for k, earned := range m.earned {
			if k.group == g.ID {
				m.earned[k] = earned * all / was
			}
		}
	}
	m.totals[g.ID] = all
	for _, i := range earning {
		m.earned[key(i)] = min(max(m.earned[key(i)], -all), all) + int64(g.Buckets[i].Weight)
		pays += int64(g.Buckets[i].Weight)
	}
	richest := among[0]
	for _, i := range among {
		if m.earned[key(i)] > m.earned[key(richest)] {
			richest = i
		}
	}
	m.earned[key(richest)] -= pays
	return richest
}
