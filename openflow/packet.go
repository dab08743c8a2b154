package openflow

// PacketIn gives a packet to a controller (7.4.1).
type PacketIn struct {
	Buffer uint32 // NoBuffer if Data is all there is
	// TotalLen is the length of the packet, in bytes; Data may be less of it.
	TotalLen uint16
	Reason   PacketInReason
	Table    TableID
	Cookie   uint64 // of the flow entry, all ones if there is none
	Match    Match  // the pipeline fields: in_port, and in_phy_port, metadata and tunnel_id if they are not zero
	Data     []byte // decoded, it aliases the message
}

// PacketOut has a switch send a packet (7.3.7).
type PacketOut struct {
	Buffer  uint32 // NoBuffer if the packet is in Data
	InPort  PortNo // PortController if it came from no port
	Actions []Action
	Data    []byte // decoded, it aliases the message
}

// Type implements [Message].
func (*PacketIn) Type() Type { return TypePacketIn }

// Type implements [Message].
func (*PacketOut) Type() Type { return TypePacketOut }

// The sizes of the fixed parts of bodies, in bytes.
const (
	packetInSize  = 16
	packetOutSize = 16
	packetInPad   = 2 // between match and data, so that the IP header is aligned
)

func (m *PacketIn) appendBody(b []byte) []byte {
	b = wire.AppendUint32(b, m.Buffer)
	b = wire.AppendUint16(b, m.TotalLen)
	b = append(b, byte(m.Reason), byte(m.Table))
	b = m.Match.appendTo(wire.AppendUint64(b, m.Cookie))
	return append(pad(b, packetInPad), m.Data...)
}

func decodePacketIn(b []byte) (Message, error) {
	if len(b) < packetInSize {
		return nil, tooShort("7.4.1", "packet in", HeaderSize+len(b))
	}
	m := &PacketIn{
		Buffer:   wire.Uint32(b),
		TotalLen: wire.Uint16(b[4:]),
		Reason:   PacketInReason(b[6]),
		Table:    TableID(b[7]),
		Cookie:   wire.Uint64(b[8:]),
	}
	match, n, err := decodeMatch(b[packetInSize:])
	if err != nil {
		return nil, err
	}
	data := b[packetInSize+n:]
	if len(data) < packetInPad {
		return nil, tooShort("7.4.1", "packet in", HeaderSize+len(b))
	}
	m.Match, m.Data = match, data[packetInPad:]
	return m, nil
}

func (m *PacketOut) appendBody(b []byte) []byte {
	b = wire.AppendUint32(b, m.Buffer)
	b = wire.AppendUint32(b, uint32(m.InPort))
	length := len(b)
	b = pad(b, 8)
	start := len(b)
	b = appendActions(b, m.Actions)
	setLength(b, start, length)
	return append(b, m.Data...)
}

func decodePacketOut(b []byte) (Message, error) {
	if len(b) < packetOutSize {
		return nil, tooShort("7.3.7", "packet out", HeaderSize+len(b))
	}
	n := int(wire.Uint16(b[8:]))
	rest := b[packetOutSize:]
	if n > len(rest) {
		return nil, fault(BadActionBadLen, "7.3.7", "packet out with %d bytes of actions with %d left", n, len(rest))
	}
	actions, err := decodeActions(rest[:n:n])
	if err != nil {
		return nil, err
	}
	return &PacketOut{wire.Uint32(b), PortNo(wire.Uint32(b[4:])), actions, rest[n:]}, nil
}
