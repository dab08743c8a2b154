// Package trace explains a packet's path: which flow entries it matches, what they do to it, and where it leaves. It runs the model of a
// switch (forwarder/model), not the kernel's programs: nothing is sent or counted.
package trace

import (
	"fmt"
	"slices"
	"strings"

	"baton/api"
	"baton/forwarder/model"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

// Port is a port of the switch and its interface.
type Port struct {
	model.Port
	Interface string
	HostSide  bool // output is received by the host
}

// Options of Run.
type Options struct {
	Pipeline      *pipeline.Pipeline // must not change during Run
	Ports         []Port
	DropFragments bool
	NormalStack   bool            // NORMAL passes packets to the host's stack
	Bindings      *model.Bindings // a copy of the binding table, which Run changes; nil: none
}

// Run traces a frame that comes in by a port of the options. Meters let it pass.
func Run(o Options, in openflow.PortNo, frame []byte) api.ForwarderTrace {
	t := tracer{o: o, in: in, maybe: never, out: api.ForwarderTrace{Sent: []api.ForwarderTraceSent{}, Upcalls: []api.ForwarderTraceUpcall{}}}
	s := model.Switch{
		Pipeline: o.Pipeline, DropFragments: o.DropFragments, NormalStack: o.NormalStack, Bindings: o.Bindings, Find: o.Pipeline.Lookup, EveryBucket: true, Report: t.report,
	}
	for _, p := range o.Ports {
		s.Ports = append(s.Ports, p.Port)
	}
	r := s.Receive(in, frame)
	if len(t.out.Steps) == 0 {
		t.line(0, "port %v receives nothing: %s", in, t.refusal())
	}
	for i, sent := range r.Sent {
		t.out.Sent = append(t.out.Sent, api.ForwarderTraceSent{
			Port: sent.Port.String(), Interface: t.port(sent.Port).Interface, Frame: sent.Frame, Maybe: t.sent[i],
		})
	}
	for i, p := range r.Upcalls {
		n := len(p.Frame)
		if int(p.MaxLen) < n && p.MaxLen != wholePacket {
			n = int(p.MaxLen)
		}
		t.out.Upcalls = append(t.out.Upcalls, api.ForwarderTraceUpcall{
			Reason: strings.ToLower(p.Reason.String()), Table: int(p.Table), Bytes: n, Frame: p.Frame, Maybe: t.upcalls[i],
		})
	}
	t.out.Stack = r.Stack
	return t.out
}

const (
	// wholePacket is OFPCML_NO_BUFFER [7.2.5].
	wholePacket = 0xffff
	// never is a depth beyond any copy's.
	never = 1 << 30
)

// tracer turns steps into lines.
type tracer struct {
	o      Options
	in     openflow.PortNo
	out    api.ForwarderTrace
	fields []openflow.TLV
	// maybe is the depth from which on everything depends on the choice of a select group.
	maybe         int
	sent, upcalls []bool // parallel to the model's results: depends on such a choice
}

func (t *tracer) line(depth int, format string, args ...any) {
	t.out.Steps = append(t.out.Steps, api.ForwarderTraceStep{Depth: depth, Text: fmt.Sprintf(format, args...)})
}

// port returns the zero Port if there is none with that number.
func (t *tracer) port(no openflow.PortNo) Port {
	if i := slices.IndexFunc(t.o.Ports, func(p Port) bool { return p.No == no }); i >= 0 {
		return t.o.Ports[i]
	}
	return Port{}
}

// refusal is why the packet is not looked up in table 0.
func (t *tracer) refusal() string {
	switch p := t.port(t.in); {
	case !p.There:
		return "there is no interface"
	case p.Config&openflow.PortConfigPortDown != 0:
		return "it is down"
	case p.Config&openflow.PortConfigNoRecv != 0:
		return "no_recv"
	}
	return "fragments are dropped, as configured by a controller"
}

// Relative to the packet's depth, tables are not indented, actions by one level, and their effects by two.
func (t *tracer) report(s model.Step) {
	depth := 2 * s.Depth
	if s.Depth < t.maybe {
		t.maybe = never
	}
	switch s.Kind {
	case model.StepTable:
		t.changes(depth, s.Fields)
		t.line(depth, "table %v: %s", s.Table, entryText(s.Entry))
	case model.StepSet:
		t.line(depth, "action set:")
	case model.StepAction:
		t.line(depth+1, "%s", actionText(s.Action))
	case model.StepEnded:
		t.line(depth+2, "dropped: the packet lacks the header, or its TTL has expired")
	case model.StepDead:
		why := "no bucket is live"
		if s.Group == nil {
			why = "there is no such group"
		}
		t.line(depth+2, "dropped: %s", why)
	case model.StepBucket:
		choice := ""
		if s.Group.Kind == openflow.GroupTypeSelect && s.Of > 1 {
			choice = fmt.Sprintf(", one of %d candidates", s.Of)
			t.maybe = min(t.maybe, s.Depth)
		}
		t.line(depth, "bucket %d of group %d (%s)%s:", s.Bucket, s.Group.ID, strings.ToLower(s.Group.Kind.String()), choice)
	case model.StepSent:
		t.sent = append(t.sent, t.maybe != never)
		if t.port(s.Port).HostSide {
			t.line(depth+2, "to the host by port %s", t.named(s.Port))
		} else {
			t.line(depth+2, "out of port %s", t.named(s.Port))
		}
	case model.StepUnsent:
		t.out.Bridged = t.out.Bridged || s.Port == openflow.PortNormal
		t.line(depth+2, "%s", t.unsent(s.Port))
	case model.StepUpcall:
		t.upcalls = append(t.upcalls, t.maybe != never)
		t.line(depth+2, "to the controllers")
	case model.StepStack:
		t.line(depth+2, "passed to the host's stack")
	case model.StepKnown:
		t.line(depth+2, "the flow is bound to port %s", t.named(s.Port))
	case model.StepNew:
		t.line(depth+2, "%s", newFlow(s))
	case model.StepBindLost:
		t.line(depth+2, "%s", t.lost(s))
	case model.StepAnswer:
		t.line(depth+2, "a reply to the flow from %v to %v: goes to %v", s.Flow.Internal, s.Flow.Remote, s.Flow.Internal.Addr())
	case model.StepNoAnswer:
		t.line(depth+2, "a reply to no bound flow")
	}
}

// changes prints the fields that differ from those last printed.
func (t *tracer) changes(depth int, now []openflow.TLV) {
	var parts []string
	for _, f := range now {
		if !slices.ContainsFunc(t.fields, func(old openflow.TLV) bool { return old.String() == f.String() }) {
			parts = append(parts, f.String())
		}
	}
	for _, old := range t.fields {
		if !slices.ContainsFunc(now, func(f openflow.TLV) bool { return f.Field == old.Field }) {
			parts = append(parts, "no "+old.Field.String())
		}
	}
	switch {
	case len(parts) == 0:
	case t.fields == nil:
		t.line(depth, "%s", strings.Join(parts, ","))
	default:
		t.line(depth, "now %s", strings.Join(parts, ","))
	}
	t.fields = now
}

// unsent is why the packet does not leave by a port.
func (t *tracer) unsent(no openflow.PortNo) string {
	p := t.port(no)
	switch {
	case no == openflow.PortNormal:
		return "to the learning bridge, whose decision is not traced"
	case no == t.in:
		return fmt.Sprintf("not out of its input port %v: only IN_PORT does that", no)
	case p.No != no:
		return fmt.Sprintf("there is no port %v", no)
	case !p.There:
		return fmt.Sprintf("port %v has no interface", no)
	case p.Config&openflow.PortConfigPortDown != 0:
		return fmt.Sprintf("port %v is down", no)
	}
	return fmt.Sprintf("port %v has no_fwd", no)
}
