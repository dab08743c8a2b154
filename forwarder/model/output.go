package model

import (
	"slices"

	"baton/forwarder/pipeline"
	"baton/openflow"
)

// output sends the packet out of a port [7.2.5].
func (r *run) output(p *state, a openflow.ActionOutput) {
	switch a.Port {
	case openflow.PortInPort:
		r.send(p, p.in)
	case openflow.PortAll, openflow.PortFlood:
		for _, port := range r.Ports {
			if port.No != p.in && port.No != openflow.PortLocal && (a.Port == openflow.PortAll || !port.NoFlood) {
				r.send(p, port.No)
			}
		}
	case openflow.PortController:
		reason := openflow.ReasonAction
		if p.miss {
			reason = openflow.ReasonNoMatch
		}
		r.upcall(p, reason, a.MaxLen)
	case openflow.PortTable:
		c := p.clone()
		c.set = nil
		r.tables(c)
	case openflow.PortNormal:
		r.normal(p)
	default:
		if a.Port != p.in {
			r.send(p, a.Port)
		} else {
			r.report(p, Step{Kind: StepUnsent, Port: a.Port})
		}
	}
}

// normal passes the packet to the host's stack. A learning bridge is not modelled.
func (r *run) normal(p *state) {
	if !r.NormalStack {
		r.send(p, openflow.PortNormal)
		return
	}
	r.Stack = slices.Clone(p.frame)
	r.report(p, Step{Kind: StepStack})
}

func (r *run) send(p *state, no openflow.PortNo) {
	port := r.port(no)
	if port != nil && port.There && port.Config&(openflow.PortConfigPortDown|openflow.PortConfigNoFwd) == 0 {
		r.Sent = append(r.Sent, Sent{no, slices.Clone(p.frame)})
		r.report(p, Step{Kind: StepSent, Port: no})
	} else {
		r.report(p, Step{Kind: StepUnsent, Port: no})
	}
}

func (r *run) upcall(p *state, why openflow.PacketInReason, most uint16) {
	if in := r.port(p.in); in != nil && in.Config&openflow.PortConfigNoPacketIn != 0 {
		return
	}
	r.Upcalls = append(r.Upcalls, Upcall{
		Reason: why, Table: p.table, Cookie: p.cookie, Metadata: p.metadata, Tunnel: p.tunnel, InPort: p.in, MaxLen: most,
		Frame: slices.Clone(p.frame),
	})
	r.report(p, Step{Kind: StepUpcall})
}

// group sends copies of the packet to buckets [5.6.1], whose changes do not affect the packet itself.
func (r *run) group(p *state, g *pipeline.Group) {
	if g == nil {
		r.report(p, Step{Kind: StepDead})
		return
	}
	var live []int
	for i := range g.Buckets {
		if r.lives(&g.Buckets[i], g.Kind, 0) {
			live = append(live, i)
		}
	}
	switch g.Kind {
	case openflow.GroupTypeSelect:
		if len(live) > 0 && !r.EveryBucket {
			chosen := live[0]
			if r.Choose != nil {
				chosen = r.Choose(g, live)
			}
			live = []int{chosen}
		}
	case openflow.GroupTypeFF:
		live = live[:min(len(live), 1)]
	}
	if len(live) == 0 {
		r.report(p, Step{Kind: StepDead, Group: g})
	}
	for _, i := range live {
		c := p.clone()
		c.set = nil
		r.report(c, Step{Kind: StepBucket, Group: g, Bucket: i, Of: len(live)})
		r.list(c, inOrder(g.Buckets[i].Actions))
	}
}

// lives reports whether a bucket is live: it watches nothing, or something live. Buckets of all and indirect groups watch nothing.
func (r *run) lives(b *openflow.Bucket, kind openflow.GroupType, depth int) bool {
	if kind == openflow.GroupTypeAll || kind == openflow.GroupTypeIndirect || b.WatchPort == openflow.PortAny && b.WatchGroup == openflow.GroupAny {
		return true
	}
	if port := r.port(b.WatchPort); port != nil && port.There && port.Live {
		return true
	}
	g := r.Pipeline.Group(b.WatchGroup)
	return g != nil && depth < 32 && slices.ContainsFunc(g.Buckets, func(b openflow.Bucket) bool { return r.lives(&b, g.Kind, depth+1) })
}
