package forwarder

import (
	"errors"
	"fmt"
	"time"

	kernel "baton/datapath/forwarder"
	"baton/forwarder/controllers"
	"baton/forwarder/install"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

// handle handles a controller's message. It is called in the controllers' turn.
func (f *Forwarder) handle(c *controllers.Channel, xid uint32, m openflow.Message, raw []byte) {
	<-f.ready
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	err := f.carryOut(c, xid, m, raw)
	f.tally.message(m.Type(), err)
	if err == nil {
		return
	}
	var fault *openflow.Fault
	if !errors.As(err, &fault) {
		f.log.Error("message failed", "channel", c.String(), "type", m.Type().String(), "error", err)
		fault = &openflow.Fault{Code: failure(m, err), Text: err.Error()}
	}
	c.Refuse(xid, raw, fault)
}

// failure is the error code for a failure of the kernel.
func failure(m openflow.Message, err error) openflow.Code {
	full := errors.Is(err, install.ErrFull)
	switch m.Type() {
	case openflow.TypeFlowMod:
		if full {
			return openflow.FlowModFailedTableFull
		}
		return openflow.FlowModFailedUnknown
	case openflow.TypeGroupMod:
		return openflow.GroupModFailedOutOfGroups
	case openflow.TypeMeterMod:
		return openflow.MeterModFailedOutOfMeters
	}
	return openflow.BadRequestEperm
}

func (f *Forwarder) carryOut(c *controllers.Channel, xid uint32, m openflow.Message, raw []byte) error {
	now := time.Now()
	switch m := m.(type) {
	case *openflow.FlowMod:
		deletes := m.Command == openflow.FlowDelete || m.Command == openflow.FlowDeleteStrict
		if m.Buffer != openflow.NoBuffer && !deletes {
			return noBuffer("7.3.4.1", m.Buffer)
		}
		return f.change(now, m, raw)
	case *openflow.GroupMod, *openflow.MeterMod:
		return f.change(now, m, raw)
	case *openflow.PacketOut:
		return f.packetOut(m)
	case *openflow.PortMod:
		e, fault := f.ports.PortMod(m)
		if fault != nil {
			return fault
		}
		f.setPort(e)
		f.controllers.PortStatus(&openflow.PortStatus{Reason: openflow.PortModify, Port: e.Port})
		return nil
	case *openflow.TableMod:
		if int(m.Table) >= f.cfg.Limits.Tables && m.Table != openflow.TableAll {
			return &openflow.Fault{Code: openflow.TableModFailedBadTable, Section: "7.3.3", Text: fmt.Sprintf("table %d", m.Table)}
		}
		return nil
	case *openflow.SetConfig:
		if m.Flags == openflow.FragReasm {
			return &openflow.Fault{Code: openflow.SwitchConfigFailedBadFlags, Section: "7.3.2", Text: "fragments are not reassembled"}
		}
		f.dropFragments = m.Flags == openflow.FragDrop
		f.kernel.SetFragments(f.dropFragments)
		return nil
	case *openflow.BundleControl, *openflow.BundleAdd:
		return &openflow.Fault{Code: openflow.BadRequestBadExperimenter, Section: "7.5.4", Text: "bundles"}
	case *openflow.MultipartRequest:
		return f.answer(now, c, xid, m, raw)
	}
	return &openflow.Fault{Code: openflow.BadRequestBadType, Section: "7.1.1", Text: m.Type().String()}
}

// noBuffer refuses a message that names a buffered packet: packets are never buffered.
func noBuffer(section string, id uint32) error {
	return &openflow.Fault{Code: openflow.BadRequestBufferUnknown, Section: section, Text: fmt.Sprintf("buffer %#x", id)}
}

// change applies a message to the pipeline and the kernel. If it does not fit in the kernel, it is undone.
func (f *Forwarder) change(now time.Time, m openflow.Message, raw []byte) error {
	c, err := f.pipeline.Apply(now, m)
	if err != nil {
		return err
	}
	if err := f.apply(now, c); err != nil {
		// Reverts what was installed before the failure.
		if undone := f.installed.Apply(f.pipeline.Undo(c), func(*pipeline.Removed, openflow.Counter) {}); undone != nil {
			f.log.Error("a change that did not fit was not undone completely", "error", undone)
		}
		return err
	}
	f.record(now, m, raw)
	return nil
}

// packetOut sends a controller's packet [7.3.7].
func (f *Forwarder) packetOut(m *openflow.PacketOut) error {
	if m.Buffer != openflow.NoBuffer {
		return noBuffer("7.3.7", m.Buffer)
	}
	if err := f.pipeline.CheckActions(m.Actions); err != nil {
		return err
	}
	ops, err := f.installed.Actions(m.Actions)
	if err != nil {
		return err
	}
	if len(ops) > kernel.OutOps {
		return &openflow.Fault{Code: openflow.BadActionTooMany, Section: "7.3.7", Text: fmt.Sprintf("%d actions", len(ops))}
	}
	return f.kernel.Send(m.Data, swap(uint32(m.InPort)), ops)
}

// answer replies to a multipart request.
func (f *Forwarder) answer(now time.Time, c *controllers.Channel, xid uint32, m *openflow.MultipartRequest, raw []byte) error {
	var body openflow.MultipartBody
	var err error
	p, k := f.pipeline, f.installed
	entry := func(e *pipeline.Entry) openflow.Counter { return k.Entry(e.ID) }
	switch q := m.Body.(type) {
	case openflow.DescRequest:
		body = openflow.DescReply{
			Manufacturer: "Baton", Hardware: "Linux, eBPF", Software: f.version, Serial: "none", Datapath: f.cfg.Name,
		}
	case openflow.FlowStatsRequest:
		body, err = p.FlowStats(now, q.FlowQuery, entry)
	case openflow.AggregateRequest:
		body, err = p.Aggregate(q.FlowQuery, entry)
	case openflow.TableStatsRequest:
		body = p.TableStats(k.Table)
	case openflow.TableFeaturesBody:
		if len(q) > 0 {
			if err := f.change(now, m, raw); err != nil {
				return err
			}
		}
		body = p.TableFeatures()
	case openflow.PortStatsRequest:
		stats, fault := f.ports.Stats(q.Port)
		if fault != nil {
			return fault
		}
		body = openflow.PortStatsReply(stats)
	case openflow.PortDescRequest:
		body = openflow.PortDescReply(f.ports.List())
	case openflow.QueueStatsRequest:
		body = openflow.QueueStatsReply{}
	case openflow.GroupStatsRequest:
		body = p.GroupStats(now, q.Group, func(g *pipeline.Group) (openflow.Counter, []openflow.Counter) { return k.Group(g.ID) })
	case openflow.GroupDescRequest:
		body = p.GroupDesc()
	case openflow.GroupFeaturesRequest:
		body = p.GroupFeatures()
	case openflow.MeterStatsRequest:
		body, err = p.MeterStats(now, q.Meter, func(m *pipeline.Meter) (openflow.Counter, []openflow.Counter) { return k.Meter(m.ID) })
	case openflow.MeterConfigRequest:
		body, err = p.MeterConfig(q.Meter)
	case openflow.MeterFeaturesRequest:
		body = p.MeterFeatures()
	default:
		return &openflow.Fault{Code: openflow.BadRequestBadMultipart, Section: "7.3.5", Text: m.Body.Multipart().String()}
	}
	if err != nil {
		return err
	}
	c.Reply(xid, &openflow.MultipartReply{Body: body})
	return nil
}
