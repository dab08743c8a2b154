package pipeline

import (
	"time"

	"baton/forwarder/match"
	"baton/openflow"
)

// FlowStats answers a flow statistics request, by ascending table and descending priority [7.3.5.2]. counts returns the packets and bytes of
// an entry.
func (p *Pipeline) FlowStats(
	now time.Time, q openflow.FlowQuery, counts func(*Entry) openflow.Counter,
) (openflow.FlowStatsReply, error) {
	reply := openflow.FlowStatsReply{}
	f := p.ask(q, func(e *Entry) {
		n := counts(e)
		reply = append(reply, openflow.FlowStats{
			Table:        e.Table,
			Duration:     since(e.Created, now),
			Priority:     e.Priority,
			Idle:         e.Idle,
			Hard:         e.Hard,
			Flags:        e.Flags,
			Cookie:       e.Cookie,
			Packets:      n.Packets,
			Octets:       n.Octets,
			Match:        e.Fields,
			Instructions: e.Instructions,
		})
	})
	if f != nil {
		return nil, f
	}
	return reply, nil
}

// Aggregate answers an aggregate statistics request [7.3.5.3].
func (p *Pipeline) Aggregate(q openflow.FlowQuery, counts func(*Entry) openflow.Counter) (openflow.AggregateReply, error) {
	var sum openflow.AggregateReply
	f := p.ask(q, func(e *Entry) {
		n := counts(e)
		sum.Packets += n.Packets
		sum.Octets += n.Octets
		sum.Flows++
	})
	if f != nil {
		return openflow.AggregateReply{}, f
	}
	return sum, nil
}

// ask calls f for each entry that a request selects.
func (p *Pipeline) ask(request openflow.FlowQuery, f func(*Entry)) *openflow.Fault {
	if request.Table != openflow.TableAll && !p.has(request.Table) {
		return refuse(openflow.BadRequestBadTableID, "7.3.5.2", "table %v does not exist", request.Table)
	}
	if f := checkFields(request.Match); f != nil {
		return f
	}
	q := query{match.Of(request.Match), request.Cookie, request.CookieMask, request.OutPort, request.OutGroup}
	tables := p.tablesOf(request.Table)
	for i := range tables {
		tables[i].covered(&q.match, func(s *slot) {
			if q.chooses(s.entry) {
				f(s.entry)
			}
		})
	}
	return nil
}

// TableStats answers a table statistics request [7.3.5.4]; counts returns lookups and hits.
func (p *Pipeline) TableStats(counts func(openflow.TableID) (lookups, hits uint64)) openflow.TableStatsReply {
	reply := make(openflow.TableStatsReply, 0, len(p.tables))
	for i := range p.tables {
		if t := &p.tables[i]; !t.left {
			lookups, hits := counts(t.id)
			reply = append(reply, openflow.TableStats{Table: t.id, Active: uint32(t.count), Lookups: lookups, Hits: hits})
		}
	}
	return reply
}

// GroupStats answers a request for the counters of a group or of all; for an unknown group the reply is empty [7.3.5.9]. counts returns those
// of a group and of its buckets.
func (p *Pipeline) GroupStats(
	now time.Time, id openflow.GroupID, counts func(*Group) (openflow.Counter, []openflow.Counter),
) openflow.GroupStatsReply {
	reply := openflow.GroupStatsReply{}
	for _, g := range p.Groups() {
		if id != openflow.GroupAll && id != g.ID {
			continue
		}
		s := p.groups[g.ID]
		n, buckets := counts(g)
		reply = append(reply, openflow.GroupStats{
			Group:      g.ID,
			References: uint32(len(s.flows) + s.chained),
			Packets:    n.Packets,
			Octets:     n.Octets,
			Duration:   since(g.Created, now),
			Buckets:    buckets,
		})
	}
	return reply
}

// GroupDesc answers a group description request [7.3.5.10].
func (p *Pipeline) GroupDesc() openflow.GroupDescReply {
	reply := openflow.GroupDescReply{}
	for _, g := range p.Groups() {
		reply = append(reply, openflow.GroupDesc{Kind: g.Kind, Group: g.ID, Buckets: g.Buckets})
	}
	return reply
}

// MeterStats answers a request for the counters of a meter or of all [7.3.5.12]. counts returns those of a meter and of its bands.
func (p *Pipeline) MeterStats(
	now time.Time, id openflow.MeterID, counts func(*Meter) (openflow.Counter, []openflow.Counter),
) (openflow.MeterStatsReply, error) {
	if f := p.checkMeter(id); f != nil {
		return nil, f
	}
	reply := openflow.MeterStatsReply{}
	for _, m := range p.chosenMeters(id) {
		n, bands := counts(m)
		reply = append(reply, openflow.MeterStats{
			Meter:    m.ID,
			Flows:    uint32(len(p.meters[m.ID].flows)),
			In:       n,
			Duration: since(m.Created, now),
			Bands:    bands,
		})
	}
	return reply, nil
}

// MeterConfig answers a request for the configuration of a meter or of all [7.3.5.13].
func (p *Pipeline) MeterConfig(id openflow.MeterID) (openflow.MeterConfigReply, error) {
	if f := p.checkMeter(id); f != nil {
		return nil, f
	}
	reply := openflow.MeterConfigReply{}
	for _, m := range p.chosenMeters(id) {
		reply = append(reply, openflow.MeterConfig{Flags: m.Flags, Meter: m.ID, Bands: m.Bands})
	}
	return reply, nil
}

// checkMeter refuses a request for a meter that does not exist.
func (p *Pipeline) checkMeter(id openflow.MeterID) *openflow.Fault {
	if id != openflow.MeterAll && p.meters[id] == nil {
		return refuse(openflow.MeterModFailedUnknownMeter, "7.3.5.12", "meter %d does not exist", id)
	}
	return nil
}

// FlowRemoved is the flow-removed message [7.4.2]. count is the entry's final counter.
func (r *Removed) FlowRemoved(now time.Time, count openflow.Counter) *openflow.FlowRemoved {
	e := r.Entry
	return &openflow.FlowRemoved{
		Cookie:   e.Cookie,
		Priority: e.Priority,
		Reason:   r.Reason,
		Table:    e.Table,
		Duration: since(e.Created, now),
		Idle:     e.Idle,
		Hard:     e.Hard,
		Packets:  count.Packets,
		Octets:   count.Octets,
		Match:    e.Fields,
	}
}
