package openflow

// maxShift is the largest window shift (RFC 7323 section 2.3).
const maxShift = 14

// actionList is the context of a list of actions.
type actionList uint8

const (
	applyList     actionList = iota // of apply-actions
	writeList                       // of write-actions
	bucketList                      // of a group's bucket
	packetOutList                   // the only one that may send the packet to the tables (7.2.5)
)

// checkActions judges a list or set.
func checkActions(list []Action, in actionList) *Fault {
	for n, a := range list {
		if f := checkAction(a, in, n == len(list)-1); f != nil {
			return f
		}
	}
	return nil
}

func checkAction(a Action, in actionList, last bool) *Fault {
	switch a := a.(type) {
	case ActionOutput:
		if a.Port == 0 || a.Port == PortAny || a.Port > PortMax && a.Port < PortInPort || a.Port == PortTable && in != packetOutList {
			return fault(BadActionBadOutPort, "7.2.5", "output to port %v", a.Port)
		}
	case ActionGroup:
		if a.Group > GroupMax {
			return fault(BadActionBadOutGroup, "7.2.5", "group %#x", uint32(a.Group))
		}
	case ActionPushVLAN:
		return checkEtherType(a.EtherType, 0x8100, 0x88a8)
	case ActionPushMPLS:
		return checkEtherType(a.EtherType, 0x8847, 0x8848)
	case ActionPushPBB:
		return checkEtherType(a.EtherType, 0x88e7, 0x88e7)
	case ActionSetField:
		return checkSetField(a)
	case ActionRescaleWindow:
		if a.Sender > maxShift || a.Advertised > maxShift {
			return fault(BadActionBadArgument, "7.2.5", "window shift of %d or %d", a.Sender, a.Advertised)
		}
	case ActionBind:
		return checkBind(a, in, last)
	case ActionUnbind:
		return checkUnbind(a, in)
	case ActionExperimenter:
		if a.Experimenter == BatonExperimenter {
			return fault(BadActionBadExpType, "7.2.5", "action of unknown subtype")
		}
		return fault(BadActionBadExperimenter, "7.2.5", "experimenter %#x", a.Experimenter)
	case ActionUnknown:
		return fault(BadActionBadType, "7.2.5", "action of type %v", a.Kind)
	}
	return nil
}

func checkEtherType(t, one, other uint16) *Fault {
	if t == one || t == other {
		return nil
	}
	return fault(BadActionBadArgument, "7.2.5", "push of EtherType %#04x", t)
}

func checkSetField(a ActionSetField) *Fault {
	t, err := readTLV(a.Field)
	if err != nil {
		return fault(BadActionBadSetLen, "7.2.5", "set-field: %v", err)
	}
	info := t.Field.info()
	if info == nil || !info.settable {
		return fault(BadActionBadSetType, "7.2.5", "set-field of %v", t.Field)
	}
	if t.Masked || info.exceeded(t.Value) {
		return fault(BadActionBadSetArgument, "7.2.5", "set-field to %v", t)
	}
	return nil
}
