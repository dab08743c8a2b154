package openflow

// MeterMod adds, changes or deletes a meter (7.3.4.4).
type MeterMod struct {
	Command MeterCommand
	Flags   MeterFlags
	Meter   MeterID
	Bands   []Band
}

// Band is what a meter does above a rate (7.3.4.4).
type Band struct {
	Kind BandType
	Rate uint32 // kbit/s, or packets/s with MeterFlagPktps
	// Burst is in kbit, or packets with MeterFlagPktps, and means something with MeterFlagBurst alone.
	Burst uint32
	// PrecLevel is how many levels of drop precedence BandDSCPRemark adds.
	PrecLevel uint8
	// Data is what follows the burst size in a band of another type: with BandExperimenter, the experimenter's id first.
	// Decoded, it aliases the message.
	Data []byte
}

// Type implements [Message].
func (*MeterMod) Type() Type { return TypeMeterMod }

const (
	meterModSize   = 8
	bandHeaderSize = 12
	bandSize       = 16
)

func (m *MeterMod) appendBody(b []byte) []byte {
	b = wire.AppendUint16(wire.AppendUint16(b, uint16(m.Command)), uint16(m.Flags))
	return appendBands(wire.AppendUint32(b, uint32(m.Meter)), m.Bands)
}

func appendBands(b []byte, list []Band) []byte {
	for _, k := range list {
		start := len(b)
		b = wire.AppendUint32(b, uint32(k.Kind)<<16)
		b = wire.AppendUint32(wire.AppendUint32(b, k.Rate), k.Burst)
		switch k.Kind {
		case BandDrop:
			b = pad(b, 4)
		case BandDSCPRemark:
			b = pad(append(b, k.PrecLevel), 3)
		default:
			b = append(b, k.Data...)
		}
		setLength(b, start, start+2)
	}
	return b
}

func decodeMeterMod(b []byte) (Message, error) {
	if len(b) < meterModSize {
		return nil, tooShort("7.3.4.4", "meter mod", HeaderSize+len(b))
	}
	bands, err := decodeBands(b[meterModSize:])
	if err != nil {
		return nil, err
	}
	return &MeterMod{MeterCommand(wire.Uint16(b)), MeterFlags(wire.Uint16(b[2:])), MeterID(wire.Uint32(b[4:])), bands}, nil
}

// decodeBands reads the bands that fill b.
func decodeBands(b []byte) ([]Band, error) {
	var list []Band
	for len(b) > 0 {
		n := 0
		if len(b) >= bandHeaderSize {
			n = int(wire.Uint16(b[2:]))
		}
		if n < bandHeaderSize || n > len(b) {
			return nil, fault(BadRequestBadLen, "7.3.4.4", "band of %d bytes with %d left", n, len(b))
		}
		k := Band{Kind: BandType(wire.Uint16(b)), Rate: wire.Uint32(b[4:]), Burst: wire.Uint32(b[8:])}
		switch {
		case k.Kind != BandDrop && k.Kind != BandDSCPRemark && (k.Kind != BandExperimenter || n >= bandSize):
			k.Data = b[bandHeaderSize:n:n]
		case n != bandSize:
			return nil, fault(BadRequestBadLen, "7.3.4.4", "%v band of %d bytes", k.Kind, n)
		case k.Kind == BandDSCPRemark:
			k.PrecLevel = b[bandHeaderSize]
		}
		list = append(list, k)
		b = b[n:]
	}
	return list, nil
}
