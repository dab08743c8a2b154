package openflow

// BatonExperimenter is the experimenter id of Baton's own actions: "BTN" after a zero byte, like ids built on an IEEE OUI. 42-54-4e has the
// locally-administered bit set, so no vendor has the same id.
const BatonExperimenter uint32 = 0x0042544e

// handoffSize is the length in bytes of Baton's own actions other than bind and the plain ones.
const handoffSize = 16

// ActionIncSeq adds By to the TCP sequence number, modulo 2^32.
type ActionIncSeq struct {
	By uint32
	// Plain selects the encoding of the paper's patched Open vSwitch: action type 32 instead of an experimenter's.
	Plain bool
}

// ActionIncAck adds By to the TCP acknowledgement number, modulo 2^32, if the ACK flag is set.
type ActionIncAck struct {
	By    uint32
	Plain bool // as in ActionIncSeq: action type 33
}

// ActionIncSACK adds By to both edges of every SACK block, modulo 2^32.
type ActionIncSACK struct{ By uint32 }

// ActionIncTSval adds By to TSval, modulo 2^32.
type ActionIncTSval struct{ By uint32 }

// ActionIncTSecr adds By to TSecr, modulo 2^32, if the ACK flag is set.
type ActionIncTSecr struct{ By uint32 }

// ActionRescaleWindow replaces the window by window << Sender >> Advertised, at most 65,535, except in a SYN.
type ActionRescaleWindow struct{ Sender, Advertised uint8 }

// ActionClampMSS lowers the MSS option of a SYN to MSS, if it is larger.
type ActionClampMSS struct{ MSS uint16 }

// ActionStripOption overwrites a TCP option with NOPs.
type ActionStripOption struct{ Kind uint8 }

// Type implements [Action], as the methods below do.
func (a ActionIncSeq) Type() ActionType      { return plainOr(a.Plain, ActionTypeIncSeq) }
func (a ActionIncAck) Type() ActionType      { return plainOr(a.Plain, ActionTypeIncAck) }
func (ActionIncSACK) Type() ActionType       { return ActionTypeExperimenter }
func (ActionIncTSval) Type() ActionType      { return ActionTypeExperimenter }
func (ActionIncTSecr) Type() ActionType      { return ActionTypeExperimenter }
func (ActionRescaleWindow) Type() ActionType { return ActionTypeExperimenter }
func (ActionClampMSS) Type() ActionType      { return ActionTypeExperimenter }
func (ActionStripOption) Type() ActionType   { return ActionTypeExperimenter }

func plainOr(plain bool, t ActionType) ActionType {
	if plain {
		return t
	}
	return ActionTypeExperimenter
}

// appendHandoff appends a handoff action, its argument in the upper bits of arg.
func appendHandoff(b []byte, s HandoffSubtype, arg uint32) []byte {
	return appendBaton(b, uint16(s), arg)
}

// appendBaton appends one of Baton's own actions with an argument of 4 bytes.
func appendBaton(b []byte, subtype uint16, arg uint32) []byte {
	b = wire.AppendUint32(b, uint32(ActionTypeExperimenter)<<16|handoffSize)
	b = wire.AppendUint32(b, BatonExperimenter)
	b = wire.AppendUint32(b, uint32(subtype)<<16)
	return wire.AppendUint32(b, arg)
}

func (a ActionIncSeq) appendTo(b []byte) []byte {
	if a.Plain {
		return appendAction8(b, ActionTypeIncSeq, a.By)
	}
	return appendHandoff(b, HandoffIncSeq, a.By)
}

func (a ActionIncAck) appendTo(b []byte) []byte {
	if a.Plain {
		return appendAction8(b, ActionTypeIncAck, a.By)
	}
	return appendHandoff(b, HandoffIncAck, a.By)
}

func (a ActionIncSACK) appendTo(b []byte) []byte  { return appendHandoff(b, HandoffIncSACK, a.By) }
func (a ActionIncTSval) appendTo(b []byte) []byte { return appendHandoff(b, HandoffIncTSval, a.By) }
func (a ActionIncTSecr) appendTo(b []byte) []byte { return appendHandoff(b, HandoffIncTSecr, a.By) }

func (a ActionRescaleWindow) appendTo(b []byte) []byte {
	return appendHandoff(b, HandoffRescaleWindow, uint32(a.Sender)<<24|uint32(a.Advertised)<<16)
}

func (a ActionClampMSS) appendTo(b []byte) []byte {
	return appendHandoff(b, HandoffClampMSS, uint32(a.MSS)<<16)
}

func (a ActionStripOption) appendTo(b []byte) []byte {
	return appendHandoff(b, HandoffStripOption, uint32(a.Kind)<<24)
}

// decodeExperimenterAction reads an experimenter action of at least 8 bytes: typed, if it is Baton's and its subtype is known.
func decodeExperimenterAction(b []byte) (Action, error) {
	unknown := ActionExperimenter{wire.Uint32(b[4:]), b[8:]}
	if unknown.Experimenter != BatonExperimenter {
		return unknown, nil
	}
	if len(b) < handoffSize {
		return nil, badActionLen(ActionTypeExperimenter, len(b))
	}
	subtype := wire.Uint16(b[8:])
	if a, err := decodeBind(BindSubtype(subtype), b); a != nil || err != nil {
		return a, err
	}
	a := decodeHandoff(HandoffSubtype(subtype), b[12:])
	if a == nil {
		return unknown, nil
	}
	if len(b) != handoffSize {
		return nil, badActionLen(ActionTypeExperimenter, len(b))
	}
	return a, nil
}

// decodeHandoff returns nil for an unknown subtype. arg has at least 4 bytes.
func decodeHandoff(s HandoffSubtype, arg []byte) Action {
	switch s {
	case HandoffIncSeq:
		return ActionIncSeq{By: wire.Uint32(arg)}
	case HandoffIncAck:
		return ActionIncAck{By: wire.Uint32(arg)}
	case HandoffIncSACK:
		return ActionIncSACK{wire.Uint32(arg)}
	case HandoffIncTSval:
		return ActionIncTSval{wire.Uint32(arg)}
	case HandoffIncTSecr:
		return ActionIncTSecr{wire.Uint32(arg)}
	case HandoffRescaleWindow:
		return ActionRescaleWindow{arg[0], arg[1]}
	case HandoffClampMSS:
		return ActionClampMSS{wire.Uint16(arg)}
	case HandoffStripOption:
		return ActionStripOption{arg[0]}
	}
	return nil
}
