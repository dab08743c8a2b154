package openflow

// QueueGetConfigRequest asks for the queues of a port, or of all with PortAny (7.3.6).
type QueueGetConfigRequest struct{ Port PortNo }

// QueueGetConfigReply answers it (7.3.6).
type QueueGetConfigReply struct {
	Port   PortNo
	Queues []Queue
}

// Queue describes a queue (7.2.2).
type Queue struct {
	ID         uint32
	Port       PortNo
	Properties []QueueProp
}

// QueueProp is a property of a queue (7.2.2).
type QueueProp struct {
	Kind QueuePropType
	// Rate is in tenths of a percent, and disabled above 1000; of QueueMinRate and QueueMaxRate.
	Rate uint16
	// Data is what follows the header in a property of another type: with QueueExperimenter, the experimenter's id first.
	// Decoded, it aliases the message.
	Data []byte
}

// Type implements [Message].
func (*QueueGetConfigRequest) Type() Type { return TypeQueueGetConfigRequest }

// Type implements [Message].
func (*QueueGetConfigReply) Type() Type { return TypeQueueGetConfigReply }

const (
	queueSize           = 16
	queuePropHeaderSize = 8
	queuePropRateSize   = 16
)

func (m *QueueGetConfigRequest) appendBody(b []byte) []byte {
	return pad(wire.AppendUint32(b, uint32(m.Port)), 4)
}

func (m *QueueGetConfigReply) appendBody(b []byte) []byte {
	b = pad(wire.AppendUint32(b, uint32(m.Port)), 4)
	for _, q := range m.Queues {
		start := len(b)
		b = wire.AppendUint32(wire.AppendUint32(b, q.ID), uint32(q.Port))
		b = pad(b, 8)
		for _, p := range q.Properties {
			b = p.appendTo(b)
		}
		setLength(b, start, start+8)
	}
	return b
}

func (p QueueProp) appendTo(b []byte) []byte {
	start := len(b)
	b = pad(wire.AppendUint32(b, uint32(p.Kind)<<16), 4)
	if p.Kind == QueueMinRate || p.Kind == QueueMaxRate {
		b = pad(wire.AppendUint16(b, p.Rate), 6)
	} else {
		b = append(b, p.Data...)
	}
	setLength(b, start, start+2)
	return b
}

func decodeQueueGetConfigReply(b []byte) (Message, error) {
	if len(b) < 8 {
		return nil, tooShort("7.3.6", "queue configuration", HeaderSize+len(b))
	}
	m := &QueueGetConfigReply{Port: PortNo(wire.Uint32(b))}
	for b = b[8:]; len(b) > 0; {
		n := 0
		if len(b) >= queueSize {
			n = int(wire.Uint16(b[8:]))
		}
		if n < queueSize || n > len(b) {
			return nil, tooShort("7.2.2", "queue", n)
		}
		q := Queue{ID: wire.Uint32(b), Port: PortNo(wire.Uint32(b[4:]))}
		var err error
		if q.Properties, err = decodeQueueProps(b[queueSize:n]); err != nil {
			return nil, err
		}
		m.Queues = append(m.Queues, q)
		b = b[n:]
	}
	return m, nil
}

func decodeQueueProps(b []byte) ([]QueueProp, error) {
	var list []QueueProp
	for len(b) > 0 {
		n := 0
		if len(b) >= queuePropHeaderSize {
			n = int(wire.Uint16(b[2:]))
		}
		if n < queuePropHeaderSize || n > len(b) {
			return nil, tooShort("7.2.2", "queue property", n)
		}
		p := QueueProp{Kind: QueuePropType(wire.Uint16(b))}
		switch {
		case p.Kind != QueueMinRate && p.Kind != QueueMaxRate:
			p.Data = b[queuePropHeaderSize:n:n]
		case n != queuePropRateSize:
			return nil, tooShort("7.2.2", "queue property", n)
		default:
			p.Rate = wire.Uint16(b[queuePropHeaderSize:])
		}
		list = append(list, p)
		b = b[n:]
	}
	return list, nil
}
