package openflow

// TableMod configures a table (7.3.3). 1.3 knows no bits of Config but deprecated ones.
type TableMod struct {
	Table  TableID
	Config uint32
}

// Type implements [Message].
func (*TableMod) Type() Type { return TypeTableMod }

func (m *TableMod) appendBody(b []byte) []byte {
	return wire.AppendUint32(wire.AppendUint32(b, uint32(m.Table)<<24), m.Config)
}

// TableFeatures is what a table can do (7.3.5.5).
type TableFeatures struct {
	Table                        TableID
	Name                         string // 31 bytes at most
	MetadataMatch, MetadataWrite uint64 // which bits can be matched and written
	Config                       uint32
	MaxEntries                   uint32
	Properties                   []TableProp
}

// TableProp is one property of a table (7.3.5.5.2). Its type decides which of the fields is used; the others are nil.
type TableProp struct {
	Kind PropType
	// Types are instructions (PropInstructions...) or actions (PropWriteActions..., PropApplyActions...).
	Types []TypeID
	// Tables are those that can be gone to (PropNextTables...).
	Tables []TableID
	// Fields are those that can be matched, omitted or set (PropMatch, PropWildcards, Prop...Setfield...).
	Fields []FieldID
	// Data is the rest of a property of another type, without padding: with PropExperimenter..., the experimenter's id and
	// type first. Decoded, it aliases the message.
	Data []byte
}

// TypeID names an instruction or an action as a table's property does: by its type, and an experimenter's by its id, too.
type TypeID struct {
	Type         uint16
	Experimenter uint32
	// Data is what follows; decoded, it aliases the message.
	Data []byte
}

// FieldID names a field as a table's property does: by the header of its TLV.
type FieldID struct {
	Field  Field
	Masked bool
	// Length is that of a TLV behind its header: value, mask and an experimenter's id, in bytes.
	Length uint8
}

// NewFieldID returns the id of a known field.
func NewFieldID(f Field, masked bool) FieldID {
	n := f.Size()
	if masked {
		n *= 2
	}
	if f.Class() == ClassExperimenter {
		n += 4
	}
	return FieldID{f, masked, uint8(n)}
}

// ActionID returns how a table's property names the type of an action. One of Baton's own is named by its subtype, too.
func ActionID(a Action) TypeID {
	id := TypeID{Type: uint16(a.Type())}
	if e, ok := a.(ActionExperimenter); ok {
		id.Experimenter = e.Experimenter
	} else if a.Type() == ActionTypeExperimenter {
		id.Experimenter = BatonExperimenter
		id.Data = append(a.appendTo(nil)[8:10], 0, 0)
	}
	return id
}

const (
	tableFeaturesSize = 64
	tableNameSize     = 32
	typeExperimenter  = 0xffff
)

// propKind is what a property holds.
type propKind uint8

const (
	propData propKind = iota
	propTypes
	propTables
	propFields
)

func (t PropType) kind() propKind {
	switch t {
	case PropInstructions, PropInstructionsMiss, PropWriteActions, PropWriteActionsMiss, PropApplyActions, PropApplyActionsMiss:
		return propTypes
	case PropNextTables, PropNextTablesMiss:
		return propTables
	case PropMatch, PropWildcards, PropWriteSetfield, PropWriteSetfieldMiss, PropApplySetfield, PropApplySetfieldMiss:
		return propFields
	}
	return propData
}

func (f TableFeatures) appendTo(b []byte) []byte {
	start := len(b)
	b = wire.AppendUint64(b, uint64(f.Table)<<40)
	b = appendText(b, f.Name, tableNameSize)
	b = wire.AppendUint64(wire.AppendUint64(b, f.MetadataMatch), f.MetadataWrite)
	b = wire.AppendUint32(wire.AppendUint32(b, f.Config), f.MaxEntries)
	for _, p := range f.Properties {
		b = p.appendTo(b)
	}
	setLength(b, start, start)
	return b
}

func (p TableProp) appendTo(b []byte) []byte {
	start := len(b)
	b = wire.AppendUint32(b, uint32(p.Kind)<<16)
	switch p.Kind.kind() {
	case propTypes:
		for _, id := range p.Types {
			b = id.appendTo(b)
		}
	case propTables:
		for _, t := range p.Tables {
			b = append(b, byte(t))
		}
	case propFields:
		for _, id := range p.Fields {
			b = id.appendTo(b)
		}
	default:
		b = append(b, p.Data...)
	}
	setLength(b, start, start+2)
	return padTo8(b, start)
}

func (id TypeID) appendTo(b []byte) []byte {
	start := len(b)
	b = wire.AppendUint32(b, uint32(id.Type)<<16)
	if id.Type == typeExperimenter {
		b = wire.AppendUint32(b, id.Experimenter)
	}
	b = append(b, id.Data...)
	setLength(b, start, start+2)
	return b
}

func (id FieldID) appendTo(b []byte) []byte {
	h := uint32(id.Field) | uint32(id.Length)
	if id.Masked {
		h |= 0x100
	}
	b = wire.AppendUint32(b, h)
	if id.Field.Class() == ClassExperimenter {
		b = wire.AppendUint32(b, id.Field.Experimenter())
	}
	return b
}

func badFeatures(format string, args ...any) error {
	return fault(TableFeaturesFailedBadLen, "7.3.5.5", format, args...)
}

// decodeTableFeatures reads the tables that fill b.
func decodeTableFeatures(b []byte) ([]TableFeatures, error) {
	var list []TableFeatures
	for len(b) > 0 {
		n := 0
		if len(b) >= tableFeaturesSize {
			n = int(wire.Uint16(b))
		}
		if n < tableFeaturesSize || n > len(b) {
			return nil, badFeatures("table of %d bytes with %d left", n, len(b))
		}
		properties, err := decodeTableProps(b[tableFeaturesSize:n])
		if err != nil {
			return nil, err
		}
		list = append(list, TableFeatures{
			Table:         TableID(b[2]),
			Name:          text(b[8:40]),
			MetadataMatch: wire.Uint64(b[40:]),
			MetadataWrite: wire.Uint64(b[48:]),
			Config:        wire.Uint32(b[56:]),
			MaxEntries:    wire.Uint32(b[60:]),
			Properties:    properties,
		})
		b = b[n:]
	}
	return list, nil
}

func decodeTableProps(b []byte) ([]TableProp, error) {
	var list []TableProp
	for len(b) > 0 {
		n := 0
		if len(b) >= 4 {
			n = int(wire.Uint16(b[2:]))
		}
		if n < 4 || roundUp8(n) > len(b) {
			return nil, badFeatures("property of %d bytes with %d left", n, len(b))
		}
		p, err := decodeTableProp(PropType(wire.Uint16(b)), b[4:n:n])
		if err != nil {
			return nil, err
		}
		list = append(list, p)
		b = b[roundUp8(n):]
	}
	return list, nil
}

func decodeTableProp(t PropType, b []byte) (TableProp, error) {
	p := TableProp{Kind: t}
	switch t.kind() {
	case propTypes:
		for len(b) > 0 {
			id, n := decodeTypeID(b)
			if n == 0 {
				return p, badFeatures("%v: type of a wrong length", t)
			}
			p.Types = append(p.Types, id)
			b = b[n:]
		}
	case propTables:
		for _, table := range b {
			p.Tables = append(p.Tables, TableID(table))
		}
	case propFields:
		for len(b) > 0 {
			id, n := decodeFieldID(b)
			if n == 0 {
				return p, badFeatures("%v: field of a wrong length", t)
			}
			p.Fields = append(p.Fields, id)
			b = b[n:]
		}
	default:
		p.Data = b
	}
	return p, nil
}

// decodeTypeID returns the length of what it read, 0 if it cannot be read.
func decodeTypeID(b []byte) (TypeID, int) {
	if len(b) < 4 {
		return TypeID{}, 0
	}
	n, head := int(wire.Uint16(b[2:])), 4
	id := TypeID{Type: wire.Uint16(b)}
	if id.Type == typeExperimenter {
		head = 8
	}
	if n < head || n > len(b) {
		return TypeID{}, 0
	}
	if head == 8 {
		id.Experimenter = wire.Uint32(b[4:])
	}
	if n > head {
		id.Data = b[head:n:n]
	}
	return id, n
}

// decodeFieldID returns the length of what it read, 0 if it cannot be read.
func decodeFieldID(b []byte) (FieldID, int) {
	if len(b) < tlvHeader {
		return FieldID{}, 0
	}
	h := wire.Uint32(b)
	id := FieldID{Field(h &^ 0x1ff), h&0x100 != 0, uint8(h)}
	if id.Field.Class() != ClassExperimenter {
		return id, tlvHeader
	}
	if len(b) < tlvHeader+4 {
		return FieldID{}, 0
	}
	id.Field |= Field(wire.Uint32(b[4:])) << 32
	return id, tlvHeader + 4
}
