package openflow

// Action is one action of a list or set (7.2.5): one of the Action types of this package.
type Action interface {
	Type() ActionType
	appendTo(b []byte) []byte
}

// ActionOutput sends the packet out of a port. MaxLen is how much of it a controller gets, in bytes.
type ActionOutput struct {
	Port   PortNo
	MaxLen uint16
}

// ActionGroup gives the packet to a group.
type ActionGroup struct{ Group GroupID }

// ActionSetQueue chooses the queue of the port.
type ActionSetQueue struct{ Queue uint32 }

// ActionSetMPLSTTL replaces the TTL of the outermost MPLS label.
type ActionSetMPLSTTL struct{ TTL uint8 }

// ActionDecMPLSTTL decrements the TTL of the outermost MPLS label.
type ActionDecMPLSTTL struct{}

// ActionSetNWTTL replaces the IP TTL or hop limit.
type ActionSetNWTTL struct{ TTL uint8 }

// ActionDecNWTTL decrements the IP TTL or hop limit.
type ActionDecNWTTL struct{}

// ActionCopyTTLOut copies the TTL from the next-to-outermost header to the outermost one.
type ActionCopyTTLOut struct{}

// ActionCopyTTLIn copies the TTL from the outermost header to the next-to-outermost one.
type ActionCopyTTLIn struct{}

// ActionPushVLAN pushes a tag: EtherType 0x8100 or 0x88a8.
type ActionPushVLAN struct{ EtherType uint16 }

// ActionPopVLAN pops the outermost tag.
type ActionPopVLAN struct{}

// ActionPushMPLS pushes a label: EtherType 0x8847 or 0x8848.
type ActionPushMPLS struct{ EtherType uint16 }

// ActionPopMPLS pops the outermost label. EtherType is that of what is behind it.
type ActionPopMPLS struct{ EtherType uint16 }

// ActionPushPBB pushes a service tag: EtherType 0x88e7.
type ActionPushPBB struct{ EtherType uint16 }

// ActionPopPBB pops the outermost service tag.
type ActionPopPBB struct{}

// ActionSetField writes a header field. Field is one TLV without a mask; decoded, it aliases the message.
type ActionSetField struct{ Field Match }

// ActionExperimenter is an action of an experimenter that is not Baton. Data is what follows the experimenter's id,
// padding included; decoded, it aliases the message.
type ActionExperimenter struct {
	Experimenter uint32
	Data         []byte
}

// ActionUnknown is an action whose type is not known. Data is what follows type and length; decoded, it aliases the message.
type ActionUnknown struct {
	Kind ActionType
	Data []byte
}

// Type implements [Action], as the methods below do.
func (ActionOutput) Type() ActionType       { return ActionTypeOutput }
func (ActionGroup) Type() ActionType        { return ActionTypeGroup }
func (ActionSetQueue) Type() ActionType     { return ActionTypeSetQueue }
func (ActionSetMPLSTTL) Type() ActionType   { return ActionTypeSetMPLSTTL }
func (ActionDecMPLSTTL) Type() ActionType   { return ActionTypeDecMPLSTTL }
func (ActionSetNWTTL) Type() ActionType     { return ActionTypeSetNWTTL }
func (ActionDecNWTTL) Type() ActionType     { return ActionTypeDecNWTTL }
func (ActionCopyTTLOut) Type() ActionType   { return ActionTypeCopyTTLOut }
func (ActionCopyTTLIn) Type() ActionType    { return ActionTypeCopyTTLIn }
func (ActionPushVLAN) Type() ActionType     { return ActionTypePushVLAN }
func (ActionPopVLAN) Type() ActionType      { return ActionTypePopVLAN }
func (ActionPushMPLS) Type() ActionType     { return ActionTypePushMPLS }
func (ActionPopMPLS) Type() ActionType      { return ActionTypePopMPLS }
func (ActionPushPBB) Type() ActionType      { return ActionTypePushPBB }
func (ActionPopPBB) Type() ActionType       { return ActionTypePopPBB }
func (ActionSetField) Type() ActionType     { return ActionTypeSetField }
func (ActionExperimenter) Type() ActionType { return ActionTypeExperimenter }
func (a ActionUnknown) Type() ActionType    { return a.Kind }

// The lengths of actions on the wire, in bytes.
const (
	actionSize       = 8
	actionOutputSize = 16
)

// appendAction8 appends an action of 8 bytes whose argument is in the upper bits of arg.
func appendAction8(b []byte, t ActionType, arg uint32) []byte {
	return wire.AppendUint32(wire.AppendUint32(b, uint32(t)<<16|actionSize), arg)
}

func (a ActionOutput) appendTo(b []byte) []byte {
	b = wire.AppendUint32(b, uint32(ActionTypeOutput)<<16|actionOutputSize)
	b = wire.AppendUint32(b, uint32(a.Port))
	return pad(wire.AppendUint16(b, a.MaxLen), 6)
}

func (a ActionGroup) appendTo(b []byte) []byte {
	return appendAction8(b, a.Type(), uint32(a.Group))
}
func (a ActionSetQueue) appendTo(b []byte) []byte { return appendAction8(b, a.Type(), a.Queue) }
func (a ActionSetMPLSTTL) appendTo(b []byte) []byte {
	return appendAction8(b, a.Type(), uint32(a.TTL)<<24)
}
func (a ActionDecMPLSTTL) appendTo(b []byte) []byte { return appendAction8(b, a.Type(), 0) }
func (a ActionSetNWTTL) appendTo(b []byte) []byte {
	return appendAction8(b, a.Type(), uint32(a.TTL)<<24)
}
func (a ActionDecNWTTL) appendTo(b []byte) []byte   { return appendAction8(b, a.Type(), 0) }
func (a ActionCopyTTLOut) appendTo(b []byte) []byte { return appendAction8(b, a.Type(), 0) }
func (a ActionCopyTTLIn) appendTo(b []byte) []byte  { return appendAction8(b, a.Type(), 0) }
func (a ActionPushVLAN) appendTo(b []byte) []byte {
	return appendAction8(b, a.Type(), uint32(a.EtherType)<<16)
}
func (a ActionPopVLAN) appendTo(b []byte) []byte { return appendAction8(b, a.Type(), 0) }
func (a ActionPushMPLS) appendTo(b []byte) []byte {
	return appendAction8(b, a.Type(), uint32(a.EtherType)<<16)
}
func (a ActionPopMPLS) appendTo(b []byte) []byte {
	return appendAction8(b, a.Type(), uint32(a.EtherType)<<16)
}
func (a ActionPushPBB) appendTo(b []byte) []byte {
	return appendAction8(b, a.Type(), uint32(a.EtherType)<<16)
}
func (a ActionPopPBB) appendTo(b []byte) []byte { return appendAction8(b, a.Type(), 0) }

func (a ActionSetField) appendTo(b []byte) []byte {
	start := len(b)
	b = wire.AppendUint32(b, uint32(ActionTypeSetField)<<16)
	b = padTo8(append(b, a.Field...), start)
	setLength(b, start, start+2)
	return b
}

func (a ActionExperimenter) appendTo(b []byte) []byte {
	start := len(b)
	b = wire.AppendUint32(b, uint32(ActionTypeExperimenter)<<16)
	b = wire.AppendUint32(b, a.Experimenter)
	b = padTo8(append(b, a.Data...), start)
	setLength(b, start, start+2)
	return b
}

func (a ActionUnknown) appendTo(b []byte) []byte {
	start := len(b)
	b = wire.AppendUint32(b, uint32(a.Kind)<<16)
	b = padTo8(append(b, a.Data...), start)
	setLength(b, start, start+2)
	return b
}

func appendActions(b []byte, list []Action) []byte {
	for _, a := range list {
		b = a.appendTo(b)
	}
	return b
}

// decodeActions reads the actions that fill b. The list is nil if there are none.
func decodeActions(b []byte) ([]Action, error) {
	if len(b) == 0 {
		return nil, nil
	}
	list := make([]Action, 0, len(b)/actionOutputSize+1) // most actions are as long as an output
	for len(b) > 0 {
		if len(b) < actionSize {
			return nil, fault(BadActionBadLen, "7.2.5", "action of %d bytes", len(b))
		}
		n := int(wire.Uint16(b[2:]))
		if n < actionSize || n%8 != 0 || n > len(b) {
			return nil, fault(BadActionBadLen, "7.2.5", "action of %d bytes with %d left", n, len(b))
		}
		a, err := decodeAction(b[:n:n])
		if err != nil {
			return nil, err
		}
		list = append(list, a)
		b = b[n:]
	}
	return list, nil
}

// decodeAction reads one action, of 8 bytes at least.
func decodeAction(b []byte) (Action, error) {
	t := ActionType(wire.Uint16(b))
	switch t {
	case ActionTypeOutput:
		if len(b) != actionOutputSize {
			return nil, badActionLen(t, len(b))
		}
		return ActionOutput{PortNo(wire.Uint32(b[4:])), wire.Uint16(b[8:])}, nil
	case ActionTypeSetField:
		return decodeSetField(b)
	case ActionTypeExperimenter:
		return decodeExperimenterAction(b)
	}
	a := decodeAction8(t, b)
	if a == nil {
		return ActionUnknown{t, b[4:]}, nil
	}
	if len(b) != actionSize {
		return nil, badActionLen(t, len(b))
	}
	return a, nil
}

func badActionLen(t ActionType, n int) error {
	return fault(BadActionBadLen, "7.2.5", "%v of %d bytes", t, n)
}

// decodeAction8 reads an action of the types that have 8 bytes; nil for any other type.
func decodeAction8(t ActionType, b []byte) Action {
	switch t {
	case ActionTypeGroup:
		return ActionGroup{GroupID(wire.Uint32(b[4:]))}
	case ActionTypeSetQueue:
		return ActionSetQueue{wire.Uint32(b[4:])}
	case ActionTypeSetMPLSTTL:
		return ActionSetMPLSTTL{b[4]}
	case ActionTypeDecMPLSTTL:
		return ActionDecMPLSTTL{}
	case ActionTypeSetNWTTL:
		return ActionSetNWTTL{b[4]}
	case ActionTypeDecNWTTL:
		return ActionDecNWTTL{}
	case ActionTypeCopyTTLOut:
		return ActionCopyTTLOut{}
	case ActionTypeCopyTTLIn:
		return ActionCopyTTLIn{}
	case ActionTypePushVLAN:
		return ActionPushVLAN{wire.Uint16(b[4:])}
	case ActionTypePopVLAN:
		return ActionPopVLAN{}
	case ActionTypePushMPLS:
		return ActionPushMPLS{wire.Uint16(b[4:])}
	case ActionTypePopMPLS:
		return ActionPopMPLS{wire.Uint16(b[4:])}
	case ActionTypePushPBB:
		return ActionPushPBB{wire.Uint16(b[4:])}
	case ActionTypePopPBB:
		return ActionPopPBB{}
	case ActionTypeIncSeq:
		return ActionIncSeq{By: wire.Uint32(b[4:]), Plain: true}
	case ActionTypeIncAck:
		return ActionIncAck{By: wire.Uint32(b[4:]), Plain: true}
	}
	return nil
}

func decodeSetField(b []byte) (Action, error) {
	t, err := readTLV(b[4:])
	if err != nil {
		return nil, fault(BadActionBadSetLen, "7.2.5", "set-field: %v", err)
	}
	if n := t.Field.Size(); n != 0 && n != len(t.Value) {
		return nil, fault(BadActionBadSetLen, "7.2.5", "set-field: %v of %d bytes, not %d", t.Field, len(t.Value), n)
	}
	end := 4 + t.size()
	if roundUp8(end) != len(b) {
		return nil, fault(BadActionBadSetLen, "7.2.5", "set-field of %d bytes with a field of %d", len(b), t.size())
	}
	return ActionSetField{Match(b[4:end:end])}, nil
}
