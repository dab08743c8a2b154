package trace

import (
	"fmt"

	"baton/forwarder/model"
	"baton/openflow"
)

// methods completes "a new flow is bound to one of 2 buckets, ...".
var methods = map[openflow.BindMethod]string{
	openflow.BindRoundRobin: "round-robin",
	openflow.BindLeast:      "the one with the fewest active flows for its weight",
	openflow.BindFastest:    "the one with the shortest handshakes for its active flows and weight",
	openflow.BindHash:       "by a hash of the flow",
	openflow.BindEven:       "round-robin, but none with much more than its share of active flows",
}

// newFlow explains which bucket a new flow may get.
func newFlow(s model.Step) string {
	a, _ := s.Action.(openflow.ActionBind)
	text := fmt.Sprintf("a new flow is bound to one of %d buckets, %s", s.Of, methods[a.Method])
	if s.Of == 1 {
		text = "a new flow is bound to the only bucket it can have"
	} else if a.Affinity > 0 {
		text += fmt.Sprintf(", or that of a flow to %v in the last %d s", s.Flow.Remote.Addr(), a.Affinity)
	}
	return text
}

// lost explains why bind drops the packet.
func (t *tracer) lost(s model.Step) string {
	why := "no bucket is live"
	switch {
	case s.Loss == model.BindGone && s.Flow == nil:
		why = "the first fragment of this packet was not seen"
	case s.Loss == model.BindGone:
		why = fmt.Sprintf("the flow is bound to port %s, and a connection cannot move to another", t.named(s.Flow.Port))
	case s.Loss == model.BindClash:
		why = "on every port a flow of another internal address has the same replies"
	case s.Loss == model.BindingsFull:
		why = "the binding table is full"
	}
	return "dropped: " + why
}

// bindText is a bind action in the syntax of ovs-ofctl.
func bindText(a openflow.ActionBind, method string) string {
	text := fmt.Sprintf("bind:%s:%d", method, a.Group)
	if a.Affinity > 0 {
		text += fmt.Sprintf(":affinity:%ds", a.Affinity)
	}
	return text
}

// named is a port and its interface.
func (t *tracer) named(no openflow.PortNo) string {
	if p := t.port(no); p.Interface != "" {
		return fmt.Sprintf("%v (%s)", no, p.Interface)
	}
	return no.String()
}
