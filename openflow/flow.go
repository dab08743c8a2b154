package openflow

// FlowMod adds, changes or deletes flow entries (7.3.4.1). Timeouts are in seconds, 0 for none.
type FlowMod struct {
	Cookie, CookieMask uint64
	Table              TableID
	Command            FlowModCommand
	Idle, Hard         uint16
	Priority           uint16
	Buffer             uint32
	// OutPort and OutGroup narrow a deletion to entries that use them; PortAny and GroupAny do not.
	OutPort      PortNo
	OutGroup     GroupID
	Flags        FlowModFlags
	Match        Match
	Instructions []Instruction
}

// NewFlowMod returns a flow mod of that command for every packet of table 0, with no buffer, any port and any group.
func NewFlowMod(c FlowModCommand) *FlowMod {
	return &FlowMod{Command: c, Priority: DefaultPriority, Buffer: NoBuffer, OutPort: PortAny, OutGroup: GroupAny}
}

// FlowRemoved says that a flow entry is gone (7.4.2).
type FlowRemoved struct {
	Cookie          uint64
	Priority        uint16
	Reason          FlowRemovedReason
	Table           TableID
	Duration        Duration
	Idle, Hard      uint16 // as in the flow mod, in seconds
	Packets, Octets uint64
	Match           Match
}

// Duration is how long something has been there: seconds, and nanoseconds beyond them.
type Duration struct{ Sec, Nsec uint32 }

func (d Duration) appendTo(b []byte) []byte {
	return wire.AppendUint32(wire.AppendUint32(b, d.Sec), d.Nsec)
}

func decodeDuration(b []byte) Duration { return Duration{wire.Uint32(b), wire.Uint32(b[4:])} }

// Type implements [Message].
func (*FlowMod) Type() Type { return TypeFlowMod }

// Type implements [Message].
func (*FlowRemoved) Type() Type { return TypeFlowRemoved }

// The sizes of the fixed parts, in bytes.
const (
	flowModSize     = 40
	flowRemovedSize = 40
)

func (m *FlowMod) appendBody(b []byte) []byte {
	b = wire.AppendUint64(wire.AppendUint64(b, m.Cookie), m.CookieMask)
	b = append(b, byte(m.Table), byte(m.Command))
	b = wire.AppendUint16(wire.AppendUint16(b, m.Idle), m.Hard)
	b = wire.AppendUint32(wire.AppendUint16(b, m.Priority), m.Buffer)
	b = wire.AppendUint32(wire.AppendUint32(b, uint32(m.OutPort)), uint32(m.OutGroup))
	b = pad(wire.AppendUint16(b, uint16(m.Flags)), 2)
	return appendInstructions(m.Match.appendTo(b), m.Instructions)
}

func decodeFlowMod(b []byte) (Message, error) {
	if len(b) < flowModSize {
		return nil, tooShort("7.3.4.1", "flow mod", HeaderSize+len(b))
	}
	match, n, err := decodeMatch(b[flowModSize:])
	if err != nil {
		return nil, err
	}
	instructions, err := decodeInstructions(b[flowModSize+n:])
	if err != nil {
		return nil, err
	}
	return &FlowMod{
		Cookie:       wire.Uint64(b),
		CookieMask:   wire.Uint64(b[8:]),
		Table:        TableID(b[16]),
		Command:      FlowModCommand(b[17]),
		Idle:         wire.Uint16(b[18:]),
		Hard:         wire.Uint16(b[20:]),
		Priority:     wire.Uint16(b[22:]),
		Buffer:       wire.Uint32(b[24:]),
		OutPort:      PortNo(wire.Uint32(b[28:])),
		OutGroup:     GroupID(wire.Uint32(b[32:])),
		Flags:        FlowModFlags(wire.Uint16(b[36:])),
		Match:        match,
		Instructions: instructions,
	}, nil
}

func (m *FlowRemoved) appendBody(b []byte) []byte {
	b = wire.AppendUint16(wire.AppendUint64(b, m.Cookie), m.Priority)
	b = append(b, byte(m.Reason), byte(m.Table))
	b = m.Duration.appendTo(b)
	b = wire.AppendUint16(wire.AppendUint16(b, m.Idle), m.Hard)
	return m.Match.appendTo(wire.AppendUint64(wire.AppendUint64(b, m.Packets), m.Octets))
}

func decodeFlowRemoved(b []byte) (Message, error) {
	if len(b) < flowRemovedSize {
		return nil, tooShort("7.4.2", "flow removed", HeaderSize+len(b))
	}
	match, n, err := decodeMatch(b[flowRemovedSize:])
	if err != nil {
		return nil, err
	}
	if flowRemovedSize+n != len(b) {
		return nil, fault(BadRequestBadLen, "7.4.2", "flow removed of %d bytes", HeaderSize+len(b))
	}
	return &FlowRemoved{
		Cookie:   wire.Uint64(b),
		Priority: wire.Uint16(b[8:]),
		Reason:   FlowRemovedReason(b[10]),
		Table:    TableID(b[11]),
		Duration: decodeDuration(b[12:]),
		Idle:     wire.Uint16(b[20:]),
		Hard:     wire.Uint16(b[22:]),
		Packets:  wire.Uint64(b[24:]),
		Octets:   wire.Uint64(b[32:]),
		Match:    match,
	}, nil
}
