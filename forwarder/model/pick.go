package model

import (
	"slices"

	"baton/forwarder/pipeline"
	"baton/openflow"
	"baton/packet"
)

// PickLoss is why a packet ends at a pick.
type PickLoss int

// The reasons.
const (
	PickNone  PickLoss = iota // no bucket lives
	PickGone                  // the flow's port does not live, or it is not known which flow a fragment is of
	PickClash                 // by every port that lives, another inside address has a flow with the same answers
	PicksFull                 // no more flows can be remembered
)

// memory is that of the switch; one that forgets at once if it has none.
func (r *run) memory() *Picks {
	if r.Picks != nil {
		return r.Picks
	}
	return NewPicks(1)
}

// pick gives the packet to the bucket of its flow (docs/openflow-pick.md).
func (r *run) pick(p *state, a openflow.ActionPick) {
	g, m := r.Pipeline.Group(a.Group), r.memory()
	if g == nil {
		r.tell(p, Step{Kind: StepDead})
		return
	}
	e, ok := m.ends(p.frame)
	switch {
	case !ok:
		r.tell(p, Step{Kind: StepEnded, Action: a})
		return
	case e.lost:
		r.tell(p, Step{Kind: StepPickLost, Loss: PickGone})
		return
	}
	bare := e.protocol == protocolTCP && e.flags&(packet.SYN|packet.ACK|packet.RST|packet.FIN) == packet.SYN
	if f := m.expire(m.flows[flowKey{e.protocol, e.src, e.dst}]); f != nil {
		i := r.bucketOf(g, f.Port)
		switch {
		case bare && f.over(m.Now), i < 0 && (bare || e.protocol != protocolTCP):
			m.forget(f)
		case i < 0:
			r.tell(p, Step{Kind: StepPickLost, Loss: PickGone, Flow: f})
			return
		default:
			m.sent(f, e.flags, g.ID)
			r.tell(p, Step{Kind: StepKnown, Group: g, Flow: f, Port: f.Port})
			r.bucket(p, g, i, 1)
			return
		}
	}
	f := &Flow{Protocol: e.protocol, Inside: e.src, Remote: e.dst, Used: m.Now, Opening: bare}
	r.begin(p, a, g, f, e.flags)
}

// begin picks a bucket for a new flow.
func (r *run) begin(p *state, a openflow.ActionPick, g *pipeline.Group, f *Flow, flags packet.Flags) {
	m := r.memory()
	live, clash := r.candidates(g), false
	list := slices.DeleteFunc(slices.Clone(live), func(i int) bool {
		f.Port = g.Buckets[i].WatchPort
		clash = clash || m.clashes(f)
		return m.clashes(f)
	})
	// A standby has a turn when none with a weight may be taken, whatever the reason.
	if standby := r.standby(g); len(list) == 0 && standby >= 0 {
		if f.Port = g.Buckets[standby].WatchPort; m.clashes(f) {
			clash = true
		} else {
			list = []int{standby}
		}
	}
	switch {
	case len(list) == 0 && clash:
		r.tell(p, Step{Kind: StepPickLost, Loss: PickClash})
		return
	case len(list) == 0:
		r.tell(p, Step{Kind: StepPickLost, Loss: PickNone})
		return
	case r.Picks != nil && m.Flows() >= m.Most:
		r.tell(p, Step{Kind: StepPickLost, Loss: PicksFull})
		return
	}
	r.tell(p, Step{Kind: StepNew, Action: a, Group: g, Of: len(list), Flow: f})
	if r.EveryBucket {
		for _, i := range list {
			r.bucket(p, g, i, len(list))
		}
		return
	}
	i := r.choose(a, g, list, f)
	f.Port = g.Buckets[i].WatchPort
	m.Add(*f)
	m.sent(m.flows[f.key()], flags, g.ID)
	r.bucket(p, g, i, 1)
}

func (r *run) choose(a openflow.ActionPick, g *pipeline.Group, list []int, f *Flow) int {
	m := r.memory()
	if i, ok := m.together(a, g, list, f.Remote.Addr()); ok {
		return i
	}
	if a.Method == openflow.PickHash && r.Choose != nil {
		if i := r.Choose(g, list); slices.Contains(list, i) {
			return i
		}
	}
	if g.Buckets[list[0]].Weight == 0 { // a standby
		return list[0]
	}
	return m.choose(a, g, list)
}

// picked reports whether a bucket's port lives.
func (r *run) picked(b *openflow.Bucket) bool {
	port := r.port(b.WatchPort)
	return port != nil && port.There && port.Live
}

// bucketOf is the bucket of a port, -1 if there is none or the port does not live.
func (r *run) bucketOf(g *pipeline.Group, port openflow.PortNo) int {
	return slices.IndexFunc(g.Buckets, func(b openflow.Bucket) bool { return b.WatchPort == port && r.picked(&b) })
}

// candidates are the live buckets that have a weight.
func (r *run) candidates(g *pipeline.Group) []int {
	var list []int
	for i := range g.Buckets {
		if b := &g.Buckets[i]; b.Weight > 0 && r.picked(b) {
			list = append(list, i)
		}
	}
	return list
}

// standby is the first live bucket without a weight; -1: there is none.
func (r *run) standby(g *pipeline.Group) int {
	return slices.IndexFunc(g.Buckets, func(b openflow.Bucket) bool { return b.Weight == 0 && r.picked(&b) })
}

// bucket carries out what a bucket does with the packet, which one of so many others would do.
func (r *run) bucket(p *state, g *pipeline.Group, i, of int) {
	c := p.clone()
	c.set = nil
	r.tell(c, Step{Kind: StepBucket, Group: g, Bucket: i, Of: of})
	r.list(c, inOrder(g.Buckets[i].Actions))
}

// unpick gives a packet that answers a flow to the group, and reports whether it was one.
func (r *run) unpick(p *state, a openflow.ActionUnpick) (answered bool) {
	g, m := r.Pipeline.Group(a.Group), r.memory()
	e, ok := m.ends(p.frame)
	if !ok {
		r.tell(p, Step{Kind: StepNoAnswer})
		return false
	}
	k, ok := e.answer()
	k.port = p.in
	f := m.expire(m.answers[k])
	if !ok || f == nil {
		r.tell(p, Step{Kind: StepNoAnswer})
		return false
	}
	if e.quote == nil {
		m.received(f, e.flags)
	}
	r.tell(p, Step{Kind: StepAnswer, Flow: f})
	if !p.restore(&e, f.Inside.Addr()) {
		r.tell(p, Step{Kind: StepEnded, Action: a})
		return true
	}
	if g == nil {
		r.tell(p, Step{Kind: StepDead})
		return true
	}
	for i := range g.Buckets { // one
		r.bucket(p, g, i, 1)
	}
	return true
}
