package model

import (
	"slices"

	"baton/forwarder/pipeline"
	"baton/openflow"
	"baton/packet"
)

// BindLoss is why bind drops a packet.
type BindLoss int

// The reasons.
const (
	BindNone     BindLoss = iota // no live bucket
	BindGone                     // the flow's port is not live, or a later fragment's first fragment was not seen
	BindClash                    // on every live port, a flow of another internal address has the same replies
	BindingsFull                 // the binding table is full
)

// memory is the switch's binding table, or an empty one.
func (r *run) memory() *Bindings {
	if r.Bindings != nil {
		return r.Bindings
	}
	return NewBindings(1)
}

// bind sends the packet to the bucket that its flow is bound to (docs/openflow-bind.md).
func (r *run) bind(p *state, a openflow.ActionBind) {
	g, m := r.Pipeline.Group(a.Group), r.memory()
	if g == nil {
		r.report(p, Step{Kind: StepDead})
		return
	}
	e, ok := m.ends(p.frame)
	switch {
	case !ok:
		r.report(p, Step{Kind: StepEnded, Action: a})
		return
	case e.lost:
		r.report(p, Step{Kind: StepBindLost, Loss: BindGone})
		return
	}
	bare := e.protocol == protocolTCP && e.flags&(packet.SYN|packet.ACK|packet.RST|packet.FIN) == packet.SYN
	if f := m.expire(m.flows[flowKey{e.protocol, e.src, e.dst}]); f != nil {
		i := r.bucketOf(g, f.Port)
		switch {
		case bare && f.over(m.Now), i < 0 && (bare || e.protocol != protocolTCP):
			m.forget(f)
		case i < 0:
			r.report(p, Step{Kind: StepBindLost, Loss: BindGone, Flow: f})
			return
		default:
			m.sent(f, &e, a)
			r.report(p, Step{Kind: StepKnown, Group: g, Flow: f, Port: f.Port})
			r.bucket(p, g, i, 1)
			return
		}
	}
	f := &Flow{Protocol: e.protocol, Internal: e.src, Remote: e.dst, Used: m.Now, Opening: bare}
	r.begin(p, a, g, f, e.flags)
}

// begin binds a new flow to a bucket.
func (r *run) begin(p *state, a openflow.ActionBind, g *pipeline.Group, f *Flow, flags packet.Flags) {
	m := r.memory()
	f.finSent = flags.Has(packet.FIN)
	f.resting = f.finSent
	clashes := func(i int) bool {
		f.Port = g.Buckets[i].WatchPort
		return m.clashes(f)
	}
	all, free := r.candidates(g, nil), r.candidates(g, clashes)
	lost := func(why BindLoss) { r.report(p, Step{Kind: StepBindLost, Loss: why}) }
	switch {
	case len(all) == 0:
		lost(BindNone)
	case r.EveryBucket && len(free) == 0:
		lost(BindClash)
	case r.EveryBucket && r.Bindings != nil && len(m.All()) >= m.Most:
		lost(BindingsFull)
	case r.EveryBucket:
		r.report(p, Step{Kind: StepNew, Action: a, Group: g, Of: len(free), Flow: f})
		for _, i := range free {
			r.bucket(p, g, i, len(free))
		}
	default:
		i := r.choose(a, g, all, f)
		for passed := map[int]bool{}; clashes(i); i = r.choose(a, g, all, f) { // it has used its turn
			passed[i] = true
			if all = r.candidates(g, func(i int) bool { return passed[i] }); len(all) == 0 {
				lost(BindClash)
				return
			}
		}
		if len(m.All()) >= m.Most {
			lost(BindingsFull)
			return
		}
		f.Port = g.Buckets[i].WatchPort
		m.Add(*f)
		m.note(m.flows[f.key()], a)
		r.report(p, Step{Kind: StepNew, Action: a, Group: g, Of: 1, Flow: f})
		r.bucket(p, g, i, 1)
	}
}

func (r *run) choose(a openflow.ActionBind, g *pipeline.Group, list []int, f *Flow) int {
	if g.Buckets[list[0]].Weight == 0 { // a standby
		return list[0]
	}
	m := r.memory()
	if i, ok := m.affinity(a, g, list, f.Remote.Addr()); ok {
		return i
	}
	if a.Method == openflow.BindHash && r.Choose != nil {
		if i := r.Choose(g, list); slices.Contains(list, i) {
			return i
		}
	}
	return m.choose(a, g, list)
}

// bound reports whether the port that a bucket watches is live.
func (r *run) bound(b *openflow.Bucket) bool {
	port := r.port(b.WatchPort)
	return port != nil && port.There && port.Live
}

// bucketOf is the bucket that watches a port, -1 if there is none or the port is not live.
func (r *run) bucketOf(g *pipeline.Group, port openflow.PortNo) int {
	return slices.IndexFunc(g.Buckets, func(b openflow.Bucket) bool { return b.WatchPort == port && r.bound(&b) })
}

// candidates are the live buckets with a weight, except those that without excludes; if there are none, the first such standby.
func (r *run) candidates(g *pipeline.Group, without func(int) bool) []int {
	var list, standby []int
	for i := range g.Buckets {
		b := &g.Buckets[i]
		switch {
		case !r.bound(b), without != nil && without(i):
		case b.Weight > 0:
			list = append(list, i)
		case standby == nil:
			standby = []int{i}
		}
	}
	if len(list) == 0 {
		return standby
	}
	return list
}

// bucket executes a bucket's actions, which is one of so many candidates.
func (r *run) bucket(p *state, g *pipeline.Group, i, of int) {
	c := p.clone()
	c.set = nil
	r.report(c, Step{Kind: StepBucket, Group: g, Bucket: i, Of: of})
	r.list(c, inOrder(g.Buckets[i].Actions))
}

// unbind sends a reply to a flow to the group, and reports whether the packet was one.
func (r *run) unbind(p *state, a openflow.ActionUnbind) (answered bool) {
	g, m := r.Pipeline.Group(a.Group), r.memory()
	e, ok := m.ends(p.frame)
	if !ok {
		r.report(p, Step{Kind: StepNoAnswer})
		return false
	}
	k, ok := e.answer()
	k.port = p.in
	f := m.expire(m.answers[k])
	if !ok || f == nil {
		r.report(p, Step{Kind: StepNoAnswer})
		return false
	}
	if e.quote == nil {
		m.received(f, &e)
	}
	r.report(p, Step{Kind: StepAnswer, Flow: f})
	if !p.restore(&e, f.Internal.Addr()) {
		r.report(p, Step{Kind: StepEnded, Action: a})
		return true
	}
	if g == nil {
		r.report(p, Step{Kind: StepDead})
		return true
	}
	for i := range g.Buckets { // exactly one
		r.bucket(p, g, i, 1)
	}
	return true
}
