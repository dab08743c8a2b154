package pipeline

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"baton/openflow"
)

// Meter is a meter [5.7].
type Meter struct {
	ID      openflow.MeterID
	Flags   openflow.MeterFlags
	Bands   []openflow.Band
	Created time.Time
}

// meterSlot holds a meter and the entries that use it.
type meterSlot struct {
	meter *Meter
	flows map[*slot]struct{}
}

// MeterMod adds, modifies or deletes meters [6.6]. A refusal changes nothing; the error is the [*openflow.Fault] to answer with. The optional
// meters for a controller's packets and the slow path are not supported.
func (p *Pipeline) MeterMod(now time.Time, m *openflow.MeterMod) (Change, error) {
	if m.Command == openflow.MeterDelete {
		return p.deleteMeters(m.Meter), nil
	}
	if f := p.checkMeterMod(m); f != nil {
		return result(Change{}, f)
	}
	own := &Meter{ID: m.Meter, Flags: m.Flags, Bands: slices.Clone(m.Bands), Created: now}
	for i := range own.Bands {
		own.Bands[i].Data = bytes.Clone(own.Bands[i].Data)
	}
	old := p.Meter(m.Meter)
	if old != nil {
		own.Created = old.Created // the meter keeps its counters and duration, the bands start anew [6.6]
		p.meters[m.Meter].meter = own
	} else {
		p.meters[m.Meter] = &meterSlot{own, map[*slot]struct{}{}}
	}
	return Change{SetMeters: []*Meter{own}, before: before{meter: old}}, nil
}

// deleteMeters removes meters and the flow entries that use them [6.6]. 1.3 has no removal reason for these.
func (p *Pipeline) deleteMeters(id openflow.MeterID) Change {
	var c Change
	for _, m := range p.chosenMeters(id) {
		p.removeUsers(&c, p.meters[m.ID].flows, openflow.RemovedDelete)
		delete(p.meters, m.ID)
		c.RemovedMeters = append(c.RemovedMeters, m)
	}
	return c
}

// Meters returns the meters, ordered by number.
func (p *Pipeline) Meters() []*Meter { return p.chosenMeters(openflow.MeterAll) }

// chosenMeters returns the meter with that number, or all ordered by number, or none.
func (p *Pipeline) chosenMeters(id openflow.MeterID) []*Meter {
	if id != openflow.MeterAll {
		if s := p.meters[id]; s != nil {
			return []*Meter{s.meter}
		}
		return nil
	}
	list := make([]*Meter, 0, len(p.meters))
	for _, s := range p.meters {
		list = append(list, s.meter)
	}
	slices.SortFunc(list, func(a, b *Meter) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func (p *Pipeline) checkMeterMod(m *openflow.MeterMod) *openflow.Fault {
	there := p.meters[m.Meter] != nil
	switch {
	case m.Meter > openflow.MeterMax:
		return refuse(openflow.MeterModFailedInvalidMeter, "7.3.4.4", "meter %#x", uint32(m.Meter))
	case m.Command == openflow.MeterAdd && there:
		return refuse(openflow.MeterModFailedMeterExists, "6.6", "meter %d exists", m.Meter)
	case m.Command == openflow.MeterModify && !there:
		return refuse(openflow.MeterModFailedUnknownMeter, "6.6", "meter %d does not exist", m.Meter)
	case !there && len(p.meters) >= p.limits.Meters:
		return refuse(openflow.MeterModFailedOutOfMeters, "6.6", "%d meters", len(p.meters))
	case len(m.Bands) > p.limits.Bands:
		return refuse(openflow.MeterModFailedOutOfBands, "6.6", "%d bands, at most %d", len(m.Bands), p.limits.Bands)
	}
	return nil
}
