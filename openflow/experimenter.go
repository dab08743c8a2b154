package openflow

// Experimenters whose messages have types here.
const (
	NiciraExperimenter uint32 = 0x00002320
	ONFExperimenter    uint32 = 0x4f4e4600
)

// Experimenter is an experimenter message (7.5.4) without a type of its own. When decoded, Data aliases the message.
type Experimenter struct {
	ID, Kind uint32
	Data     []byte
}

// SetPacketInFormat is Nicira's message 16, which `ovs-ofctl monitor` sends: 0 is OpenFlow's own format.
type SetPacketInFormat struct{ Format uint32 }

// SetControllerID is Nicira's message 20: the sender receives only packets for a controller of this number.
type SetControllerID struct{ Controller uint16 }

// BundleKind is a request or reply of a [BundleControl] (ONF EXT-230). Even kinds are requests, odd ones reply to the kind before.
type BundleKind uint16

// The kinds.
const (
	BundleOpen BundleKind = iota
	BundleOpened
	BundleClose
	BundleClosed
	BundleCommit
	BundleCommitted
	BundleDiscard
	BundleDiscarded
)

// Flags of a bundle: atomic, and ordered.
const (
	BundleAtomic  = 1
	BundleOrdered = 2
)

// BundleControl opens, closes, commits or discards a bundle of messages: ONF's message 2300 (EXT-230), which `ovs-ofctl --bundle` sends.
// Properties are kept as bytes; when decoded, they alias the message.
type BundleControl struct {
	Bundle     uint32
	Kind       BundleKind
	Flags      uint16
	Properties []byte
}

// BundleAdd adds a message to a bundle: ONF's message 2301 (EXT-230).
type BundleAdd struct {
	Bundle uint32
	Flags  uint16
	// Message is a whole message with the same xid, perhaps followed by padded properties. When decoded, it aliases the message.
	Message []byte
}

const (
	niciraSetPacketInFormat = 16
	niciraSetControllerID   = 20
	onfBundleControl        = 2300
	onfBundleAdd            = 2301
	experimenterSize        = 8
)

// Type implements [Message], as the methods below do.
func (*Experimenter) Type() Type      { return TypeExperimenter }
func (*SetPacketInFormat) Type() Type { return TypeExperimenter }
func (*SetControllerID) Type() Type   { return TypeExperimenter }
func (*BundleControl) Type() Type     { return TypeExperimenter }
func (*BundleAdd) Type() Type         { return TypeExperimenter }

func appendExperimenter(b []byte, id, kind uint32) []byte {
	return wire.AppendUint32(wire.AppendUint32(b, id), kind)
}

func (m *Experimenter) appendBody(b []byte) []byte {
	return append(appendExperimenter(b, m.ID, m.Kind), m.Data...)
}

func (m *SetPacketInFormat) appendBody(b []byte) []byte {
	return wire.AppendUint32(appendExperimenter(b, NiciraExperimenter, niciraSetPacketInFormat), m.Format)
}

func (m *SetControllerID) appendBody(b []byte) []byte {
	return wire.AppendUint16(pad(appendExperimenter(b, NiciraExperimenter, niciraSetControllerID), 6), m.Controller)
}

func (m *BundleControl) appendBody(b []byte) []byte {
	b = wire.AppendUint32(appendExperimenter(b, ONFExperimenter, onfBundleControl), m.Bundle)
	return append(wire.AppendUint16(wire.AppendUint16(b, uint16(m.Kind)), m.Flags), m.Properties...)
}

func (m *BundleAdd) appendBody(b []byte) []byte {
	b = wire.AppendUint32(appendExperimenter(b, ONFExperimenter, onfBundleAdd), m.Bundle)
	return append(wire.AppendUint16(pad(b, 2), m.Flags), m.Message...)
}

func decodeExperimenter(b []byte) (Message, error) {
	if len(b) < experimenterSize {
		return nil, tooShort("7.5.4", "experimenter's message", HeaderSize+len(b))
	}
	m := &Experimenter{wire.Uint32(b), wire.Uint32(b[4:]), b[experimenterSize:]}
	least, exact := 8, true // length of the data, in bytes
	switch [2]uint32{m.ID, m.Kind} {
	case [2]uint32{NiciraExperimenter, niciraSetPacketInFormat}:
		least = 4
	case [2]uint32{NiciraExperimenter, niciraSetControllerID}:
	case [2]uint32{ONFExperimenter, onfBundleControl}:
		exact = false
	case [2]uint32{ONFExperimenter, onfBundleAdd}:
		least, exact = 8+HeaderSize, false
	default:
		return m, nil
	}
	if len(m.Data) < least || exact && len(m.Data) != least {
		return nil, tooShort("7.5.4", "experimenter's message", HeaderSize+len(b))
	}
	switch m.Kind {
	case niciraSetPacketInFormat:
		return &SetPacketInFormat{wire.Uint32(m.Data)}, nil
	case niciraSetControllerID:
		return &SetControllerID{wire.Uint16(m.Data[6:])}, nil
	case onfBundleControl:
		return &BundleControl{
			wire.Uint32(m.Data), BundleKind(wire.Uint16(m.Data[4:])), wire.Uint16(m.Data[6:]), m.Data[8:],
		}, nil
	}
	return &BundleAdd{wire.Uint32(m.Data), wire.Uint16(m.Data[6:]), m.Data[8:]}, nil
}
