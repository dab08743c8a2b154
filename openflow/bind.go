package openflow

// bindSize is the length of a bind action, in bytes. Unbind has [handoffSize].
const bindSize = 24

// ActionBind is a flow-sticky select: it sends the packet to the bucket of a select group that the packet's flow is bound to, or binds a new
// flow to one (docs/openflow-bind.md). It is the packet's last action.
type ActionBind struct {
	Method BindMethod
	Group  GroupID
	// Affinity is how many seconds after a packet to a remote address new flows to that address are bound to the same port; 0: off.
	Affinity uint32
}

// ActionUnbind sends a reply to a flow of [ActionBind] to an indirect group, addressed to the flow's internal address. Other packets continue
// with the next action.
type ActionUnbind struct{ Group GroupID }

// Type implements [Action], as the method below does.
func (ActionBind) Type() ActionType   { return ActionTypeExperimenter }
func (ActionUnbind) Type() ActionType { return ActionTypeExperimenter }

func (a ActionBind) appendTo(b []byte) []byte {
	b = wire.AppendUint32(b, uint32(ActionTypeExperimenter)<<16|bindSize)
	b = wire.AppendUint32(b, BatonExperimenter)
	b = wire.AppendUint32(b, uint32(SubtypeBind)<<16|uint32(a.Method)<<8)
	b = wire.AppendUint32(b, uint32(a.Group))
	return wire.AppendUint64(b, uint64(a.Affinity)<<32)
}

func (a ActionUnbind) appendTo(b []byte) []byte {
	return appendBaton(b, uint16(SubtypeUnbind), uint32(a.Group))
}

// decodeBind reads bind and unbind. It returns nil for other subtypes, and an error for a wrong length.
func decodeBind(s BindSubtype, b []byte) (Action, error) {
	switch {
	case s == SubtypeBind && len(b) == bindSize:
		return ActionBind{BindMethod(b[10]), GroupID(wire.Uint32(b[12:])), wire.Uint32(b[16:])}, nil
	case s == SubtypeUnbind && len(b) == handoffSize:
		return ActionUnbind{GroupID(wire.Uint32(b[12:]))}, nil
	case s == SubtypeBind || s == SubtypeUnbind:
		return nil, badActionLen(ActionTypeExperimenter, len(b))
	}
	return nil, nil
}

// checkBind checks a bind action and its position in a list of actions.
func checkBind(a ActionBind, in actionList, last bool) *Fault {
	switch {
	case in != applyList:
		return fault(BadActionBadArgument, "7.2.5", "bind outside of apply-actions")
	case !last:
		return fault(BadActionBadArgument, "7.2.5", "bind that is not the last action")
	case a.Method < BindRoundRobin || a.Method > BindEven:
		return fault(BadActionBadArgument, "7.2.5", "unknown method %v of bind", a.Method)
	case a.Group > GroupMax:
		return fault(BadActionBadOutGroup, "7.2.5", "bind with group %#x", uint32(a.Group))
	}
	return nil
}

func checkUnbind(a ActionUnbind, in actionList) *Fault {
	switch {
	case in != applyList:
		return fault(BadActionBadArgument, "7.2.5", "unbind outside of apply-actions")
	case a.Group > GroupMax:
		return fault(BadActionBadOutGroup, "7.2.5", "unbind to group %#x", uint32(a.Group))
	}
	return nil
}

// checkEnd refuses instructions after a bind, which ends the packet's processing.
func checkEnd(list []Instruction) *Fault {
	bindings, more := false, false
	for _, i := range list {
		switch i := i.(type) {
		case InstructionApplyActions:
			if n := len(i.Actions); n > 0 {
				_, bindings = i.Actions[n-1].(ActionBind)
			}
		case InstructionWriteActions, InstructionGotoTable:
			more = true
		}
	}
	if bindings && more {
		return fault(BadActionBadArgument, "5.9", "instructions after bind")
	}
	return nil
}
