package openflow

// pickSize is the length of a pick on the wire, in bytes. An unpick has [handoffSize].
const pickSize = 24

// ActionPick gives the packet to the bucket of a select group that the packet's flow has had before, or to one that is chosen for a
// new flow and remembered (docs/openflow-pick.md). The packet's way ends with it.
type ActionPick struct {
	Method PickMethod
	Group  GroupID
	// Together is how many seconds after the last packet to a remote address new flows to that address go where it went; 0: they need not.
	Together uint32
}

// ActionUnpick gives a packet that answers a flow of [ActionPick] to an indirect group, addressed to whom the flow began from. Any other
// packet it leaves to the next action.
type ActionUnpick struct{ Group GroupID }

// Type implements [Action], as the method below does.
func (ActionPick) Type() ActionType   { return ActionTypeExperimenter }
func (ActionUnpick) Type() ActionType { return ActionTypeExperimenter }

func (a ActionPick) appendTo(b []byte) []byte {
	b = wire.AppendUint32(b, uint32(ActionTypeExperimenter)<<16|pickSize)
	b = wire.AppendUint32(b, BatonExperimenter)
	b = wire.AppendUint32(b, uint32(SubtypePick)<<16|uint32(a.Method)<<8)
	b = wire.AppendUint32(b, uint32(a.Group))
	return wire.AppendUint64(b, uint64(a.Together)<<32)
}

func (a ActionUnpick) appendTo(b []byte) []byte {
	return appendBaton(b, uint16(SubtypeUnpick), uint32(a.Group))
}

// decodePick reads an action of Baton's own on links. It returns nil for a subtype that is not one of them, and an error for a length that is
// not its.
func decodePick(s PickSubtype, b []byte) (Action, error) {
	switch {
	case s == SubtypePick && len(b) == pickSize:
		return ActionPick{PickMethod(b[10]), GroupID(wire.Uint32(b[12:])), wire.Uint32(b[16:])}, nil
	case s == SubtypeUnpick && len(b) == handoffSize:
		return ActionUnpick{GroupID(wire.Uint32(b[12:]))}, nil
	case s == SubtypePick || s == SubtypeUnpick:
		return nil, badActionLen(ActionTypeExperimenter, len(b))
	}
	return nil, nil
}

// checkPick judges a pick where it stands in a list of actions.
func checkPick(a ActionPick, in actionList, last bool) *Fault {
	switch {
	case in != applyList:
		return fault(BadActionBadArgument, "7.2.5", "pick outside of apply-actions")
	case !last:
		return fault(BadActionBadArgument, "7.2.5", "pick that is not the last action")
	case a.Method < PickTurns || a.Method > PickEven:
		return fault(BadActionBadArgument, "7.2.5", "pick by method %v", a.Method)
	case a.Group > GroupMax:
		return fault(BadActionBadOutGroup, "7.2.5", "pick from group %#x", uint32(a.Group))
	}
	return nil
}

func checkUnpick(a ActionUnpick, in actionList) *Fault {
	switch {
	case in != applyList:
		return fault(BadActionBadArgument, "7.2.5", "unpick outside of apply-actions")
	case a.Group > GroupMax:
		return fault(BadActionBadOutGroup, "7.2.5", "unpick to group %#x", uint32(a.Group))
	}
	return nil
}

// checkEnd refuses instructions behind a pick, with which a packet's way ends.
func checkEnd(list []Instruction) *Fault {
	picks, more := false, false
	for _, i := range list {
		switch i := i.(type) {
		case InstructionApplyActions:
			if n := len(i.Actions); n > 0 {
				_, picks = i.Actions[n-1].(ActionPick)
			}
		case InstructionWriteActions, InstructionGotoTable:
			more = true
		}
	}
	if picks && more {
		return fault(BadActionBadArgument, "5.9", "pick, and instructions behind it")
	}
	return nil
}
