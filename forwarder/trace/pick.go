package trace

import (
	"fmt"

	"baton/forwarder/model"
	"baton/openflow"
)

// methods are how the words of [openflow.PickMethod] read behind "picks one of them".
var methods = map[openflow.PickMethod]string{
	openflow.PickTurns:   "by turns",
	openflow.PickLeast:   "with the fewest active flows for its weight",
	openflow.PickFastest: "with the shortest handshakes for its active flows and weight",
	openflow.PickHash:    "by a hash of the flow",
	openflow.PickEven:    "by turns, if it has not much more than its share of active flows",
}

// newFlow tells how a bucket is picked.
func newFlow(s model.Step) string {
	a, _ := s.Action.(openflow.ActionPick)
	text := fmt.Sprintf("a new flow picks one of %d %s", s.Of, methods[a.Method])
	if s.Of == 1 {
		text = "a new flow picks the only one that it can have"
	} else if a.Together > 0 {
		text += fmt.Sprintf(", or the one of a flow to %v in the last %d s", s.Flow.Remote.Addr(), a.Together)
	}
	return text
}

// lost tells why a packet ends at a pick.
func (t *tracer) lost(s model.Step) string {
	why := "no bucket lives"
	switch {
	case s.Loss == model.PickGone && s.Flow == nil:
		why = "it is a fragment of which the first is not known"
	case s.Loss == model.PickGone:
		why = fmt.Sprintf("the flow had port %s, and a connection cannot have another", t.named(s.Flow.Port))
	case s.Loss == model.PickClash:
		why = "by each port a flow of another inside address has the same answers"
	case s.Loss == model.PicksFull:
		why = "no more flows can be remembered"
	}
	return "goes nowhere: " + why
}

// pickText is a pick in the manner of ovs-ofctl.
func pickText(a openflow.ActionPick, method string) string {
	text := fmt.Sprintf("pick:%s:%d", method, a.Group)
	if a.Together > 0 {
		text += fmt.Sprintf(":together:%ds", a.Together)
	}
	return text
}

// named is a port with its interface.
func (t *tracer) named(no openflow.PortNo) string {
	if p := t.port(no); p.Interface != "" {
		return fmt.Sprintf("%v (%s)", no, p.Interface)
	}
	return no.String()
}
