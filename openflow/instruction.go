package openflow

// Instruction is what a flow entry does with a packet (7.2.4): one of the Instruction types of this package.
type Instruction interface {
	Type() InstructionType
	appendTo(b []byte) []byte
}

// InstructionGotoTable continues in a later table.
type InstructionGotoTable struct{ Table TableID }

// InstructionWriteMetadata replaces the bits of the metadata that are set in Mask.
type InstructionWriteMetadata struct{ Metadata, Mask uint64 }

// InstructionWriteActions merges the actions into the action set.
type InstructionWriteActions struct{ Actions []Action }

// InstructionApplyActions carries the actions out at once, in order.
type InstructionApplyActions struct{ Actions []Action }

// InstructionClearActions empties the action set.
type InstructionClearActions struct{}

// InstructionMeter sends the packet through a meter.
type InstructionMeter struct{ Meter MeterID }

// InstructionExperimenter is an instruction of an experimenter. Data is what follows the id; decoded, it aliases the message.
type InstructionExperimenter struct {
	Experimenter uint32
	Data         []byte
}

// InstructionUnknown is an instruction whose type is not known. Data is what follows type and length; decoded, it aliases
// the message.
type InstructionUnknown struct {
	Kind InstructionType
	Data []byte
}

// Type implements [Instruction], as the methods below do.
func (InstructionGotoTable) Type() InstructionType     { return InstructionTypeGotoTable }
func (InstructionWriteMetadata) Type() InstructionType { return InstructionTypeWriteMetadata }
func (InstructionWriteActions) Type() InstructionType  { return InstructionTypeWriteActions }
func (InstructionApplyActions) Type() InstructionType  { return InstructionTypeApplyActions }
func (InstructionClearActions) Type() InstructionType  { return InstructionTypeClearActions }
func (InstructionMeter) Type() InstructionType         { return InstructionTypeMeter }
func (InstructionExperimenter) Type() InstructionType  { return InstructionTypeExperimenter }
func (i InstructionUnknown) Type() InstructionType     { return i.Kind }

// The lengths of instructions on the wire, in bytes.
const (
	instructionSize              = 8
	instructionWriteMetadataSize = 24
)

func (i InstructionGotoTable) appendTo(b []byte) []byte {
	b = wire.AppendUint32(b, uint32(InstructionTypeGotoTable)<<16|instructionSize)
	return wire.AppendUint32(b, uint32(i.Table)<<24)
}

func (i InstructionWriteMetadata) appendTo(b []byte) []byte {
	b = wire.AppendUint32(b, uint32(InstructionTypeWriteMetadata)<<16|instructionWriteMetadataSize)
	return wire.AppendUint64(wire.AppendUint64(pad(b, 4), i.Metadata), i.Mask)
}

func (i InstructionWriteActions) appendTo(b []byte) []byte {
	return appendActionInstruction(b, InstructionTypeWriteActions, i.Actions)
}

func (i InstructionApplyActions) appendTo(b []byte) []byte {
	return appendActionInstruction(b, InstructionTypeApplyActions, i.Actions)
}

func (i InstructionClearActions) appendTo(b []byte) []byte {
	return appendActionInstruction(b, InstructionTypeClearActions, nil)
}

func appendActionInstruction(b []byte, t InstructionType, list []Action) []byte {
	start := len(b)
	b = appendActions(wire.AppendUint64(b, uint64(t)<<48), list)
	setLength(b, start, start+2)
	return b
}

func (i InstructionMeter) appendTo(b []byte) []byte {
	b = wire.AppendUint32(b, uint32(InstructionTypeMeter)<<16|instructionSize)
	return wire.AppendUint32(b, uint32(i.Meter))
}

func (i InstructionExperimenter) appendTo(b []byte) []byte {
	start := len(b)
	b = wire.AppendUint32(b, uint32(InstructionTypeExperimenter)<<16)
	b = append(wire.AppendUint32(b, i.Experimenter), i.Data...)
	setLength(b, start, start+2)
	return b
}

func (i InstructionUnknown) appendTo(b []byte) []byte {
	start := len(b)
	b = append(wire.AppendUint32(b, uint32(i.Kind)<<16), i.Data...)
	setLength(b, start, start+2)
	return b
}

func appendInstructions(b []byte, list []Instruction) []byte {
	for _, i := range list {
		b = i.appendTo(b)
	}
	return b
}

// decodeInstructions reads the instructions that fill b. The list is nil if there are none.
func decodeInstructions(b []byte) ([]Instruction, error) {
	var list []Instruction
	for len(b) > 0 {
		if len(b) < instructionSize {
			return nil, fault(BadInstructionBadLen, "7.2.4", "instruction of %d bytes", len(b))
		}
		n := int(wire.Uint16(b[2:]))
		if n < instructionSize || n > len(b) {
			return nil, fault(BadInstructionBadLen, "7.2.4", "instruction of %d bytes with %d left", n, len(b))
		}
		i, err := decodeInstruction(b[:n:n])
		if err != nil {
			return nil, err
		}
		list = append(list, i)
		b = b[n:]
	}
	return list, nil
}

// decodeInstruction reads one instruction, of 8 bytes at least.
func decodeInstruction(b []byte) (Instruction, error) {
	t := InstructionType(wire.Uint16(b))
	size := instructionSize
	switch t {
	case InstructionTypeWriteActions, InstructionTypeApplyActions:
		list, err := decodeActions(b[instructionSize:])
		if err != nil {
			return nil, err
		}
		if t == InstructionTypeWriteActions {
			return InstructionWriteActions{list}, nil
		}
		return InstructionApplyActions{list}, nil
	case InstructionTypeExperimenter:
		return InstructionExperimenter{wire.Uint32(b[4:]), b[8:]}, nil
	case InstructionTypeWriteMetadata:
		size = instructionWriteMetadataSize
	case InstructionTypeGotoTable, InstructionTypeClearActions, InstructionTypeMeter:
	default:
		return InstructionUnknown{t, b[4:]}, nil
	}
	if len(b) != size {
		return nil, fault(BadInstructionBadLen, "7.2.4", "%v of %d bytes", t, len(b))
	}
	switch t {
	case InstructionTypeGotoTable:
		return InstructionGotoTable{TableID(b[4])}, nil
	case InstructionTypeWriteMetadata:
		return InstructionWriteMetadata{wire.Uint64(b[8:]), wire.Uint64(b[16:])}, nil
	case InstructionTypeMeter:
		return InstructionMeter{MeterID(wire.Uint32(b[4:]))}, nil
	}
	return InstructionClearActions{}, nil
}
