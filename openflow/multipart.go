package openflow

// MultipartRequest asks for what may take several messages to say (7.3.5).
type MultipartRequest struct {
	Flags MultipartFlags
	Body  MultipartBody
}

// MultipartReply answers it (7.3.5). The parts of one answer have its xid; all but the last have MultipartMore.
type MultipartReply struct {
	Flags MultipartFlags
	Body  MultipartBody
}

// MultipartBody is what is asked or answered: one of the types of this package whose name ends in Request, and one of those in
// Reply. Table features are asked for, changed and answered with the same type.
type MultipartBody interface {
	Multipart() Multipart
	appendTo(b []byte) []byte
}

// MultipartExperimenterBody is a request or reply of an experimenter (7.3.5.15). Decoded, Data aliases the message.
type MultipartExperimenterBody struct {
	Experimenter, Kind uint32
	Data               []byte
}

// MultipartUnknown is a request or reply of a type that is not known. Decoded, Data aliases the message.
type MultipartUnknown struct {
	Kind Multipart
	Data []byte
}

// Type implements [Message].
func (*MultipartRequest) Type() Type { return TypeMultipartRequest }

// Type implements [Message].
func (*MultipartReply) Type() Type { return TypeMultipartReply }

// Multipart implements [MultipartBody].
func (MultipartExperimenterBody) Multipart() Multipart { return MultipartExperimenter }

// Multipart implements [MultipartBody].
func (m MultipartUnknown) Multipart() Multipart { return m.Kind }

const multipartSize = 8

func (m *MultipartRequest) appendBody(b []byte) []byte { return appendMultipart(b, m.Flags, m.Body) }
func (m *MultipartReply) appendBody(b []byte) []byte   { return appendMultipart(b, m.Flags, m.Body) }

func appendMultipart(b []byte, f MultipartFlags, body MultipartBody) []byte {
	b = wire.AppendUint16(wire.AppendUint16(b, uint16(body.Multipart())), uint16(f))
	return body.appendTo(pad(b, 4))
}

func (m MultipartExperimenterBody) appendTo(b []byte) []byte {
	return append(wire.AppendUint32(wire.AppendUint32(b, m.Experimenter), m.Kind), m.Data...)
}

func (m MultipartUnknown) appendTo(b []byte) []byte { return append(b, m.Data...) }

func decodeMultipartRequest(b []byte) (Message, error) {
	if len(b) < multipartSize {
		return nil, tooShort("7.3.5", "multipart request", HeaderSize+len(b))
	}
	body, err := decodeRequestBody(Multipart(wire.Uint16(b)), b[multipartSize:])
	if err != nil {
		return nil, err
	}
	return &MultipartRequest{MultipartFlags(wire.Uint16(b[2:])), body}, nil
}

func decodeMultipartReply(b []byte) (Message, error) {
	if len(b) < multipartSize {
		return nil, tooShort("7.3.5", "multipart reply", HeaderSize+len(b))
	}
	body, err := decodeReplyBody(Multipart(wire.Uint16(b)), b[multipartSize:])
	if err != nil {
		return nil, err
	}
	return &MultipartReply{MultipartFlags(wire.Uint16(b[2:])), body}, nil
}

// requestSizes are the lengths of the requests that have one, in bytes, and the sections that say so.
var requestSizes = map[Multipart]struct {
	bytes   int
	section string
}{
	MultipartDesc: {0, "7.3.5.1"}, MultipartTable: {0, "7.3.5.4"}, MultipartPortStats: {8, "7.3.5.6"},
	MultipartPortDesc: {0, "7.3.5.7"}, MultipartQueue: {8, "7.3.5.8"}, MultipartGroup: {8, "7.3.5.9"},
	MultipartGroupDesc: {0, "7.3.5.10"}, MultipartGroupFeatures: {0, "7.3.5.11"}, MultipartMeter: {8, "7.3.5.12"},
	MultipartMeterConfig: {8, "7.3.5.13"}, MultipartMeterFeatures: {0, "7.3.5.14"},
}

func decodeRequestBody(t Multipart, b []byte) (MultipartBody, error) {
	if size, ok := requestSizes[t]; ok && len(b) != size.bytes {
		return nil, fault(BadRequestBadLen, size.section, "%v request of %d bytes, not %d", t,
			HeaderSize+multipartSize+len(b), HeaderSize+multipartSize+size.bytes)
	}
	switch t {
	case MultipartDesc:
		return DescRequest{}, nil
	case MultipartFlow:
		q, err := decodeFlowQuery("7.3.5.2", b)
		return FlowStatsRequest{q}, err
	case MultipartAggregate:
		q, err := decodeFlowQuery("7.3.5.3", b)
		return AggregateRequest{q}, err
	case MultipartTable:
		return TableStatsRequest{}, nil
	case MultipartPortStats:
		return PortStatsRequest{PortNo(wire.Uint32(b))}, nil
	case MultipartQueue:
		return QueueStatsRequest{PortNo(wire.Uint32(b)), wire.Uint32(b[4:])}, nil
	case MultipartGroup:
		return GroupStatsRequest{GroupID(wire.Uint32(b))}, nil
	case MultipartGroupDesc:
		return GroupDescRequest{}, nil
	case MultipartGroupFeatures:
		return GroupFeaturesRequest{}, nil
	case MultipartMeter:
		return MeterStatsRequest{MeterID(wire.Uint32(b))}, nil
	case MultipartMeterConfig:
		return MeterConfigRequest{MeterID(wire.Uint32(b))}, nil
	case MultipartMeterFeatures:
		return MeterFeaturesRequest{}, nil
	case MultipartPortDesc:
		return PortDescRequest{}, nil
	}
	return decodeOtherBody(t, b)
}

func decodeReplyBody(t Multipart, b []byte) (MultipartBody, error) {
	switch t {
	case MultipartDesc:
		return decodeDesc(b)
	case MultipartFlow:
		return decodeFlowStats(b)
	case MultipartAggregate:
		return decodeAggregate(b)
	case MultipartTable:
		return decodeTableStats(b)
	case MultipartPortStats:
		return decodePortStats(b)
	case MultipartQueue:
		return decodeQueueStats(b)
	case MultipartGroup:
		return decodeGroupStats(b)
	case MultipartGroupDesc:
		return decodeGroupDesc(b)
	case MultipartGroupFeatures:
		return decodeGroupFeatures(b)
	case MultipartMeter:
		return decodeMeterStats(b)
	case MultipartMeterConfig:
		return decodeMeterConfig(b)
	case MultipartMeterFeatures:
		return decodeMeterFeatures(b)
	case MultipartPortDesc:
		return decodePortDesc(b)
	}
	return decodeOtherBody(t, b)
}

// decodeOtherBody reads what has the same form in requests and replies.
func decodeOtherBody(t Multipart, b []byte) (MultipartBody, error) {
	switch t {
	case MultipartTableFeatures:
		list, err := decodeTableFeatures(b)
		return TableFeaturesBody(list), err
	case MultipartExperimenter:
		if len(b) < 8 {
			return nil, tooShort("7.3.5.15", "experimenter's multipart", HeaderSize+multipartSize+len(b))
		}
		return MultipartExperimenterBody{wire.Uint32(b), wire.Uint32(b[4:]), b[8:]}, nil
	}
	return MultipartUnknown{t, b}, nil
}

// TableFeaturesBody is the features of tables, or, in a request, what they shall become; empty to ask for them (7.3.5.5).
type TableFeaturesBody []TableFeatures

// Multipart implements [MultipartBody].
func (TableFeaturesBody) Multipart() Multipart { return MultipartTableFeatures }

func (m TableFeaturesBody) appendTo(b []byte) []byte {
	for _, f := range m {
		b = f.appendTo(b)
	}
	return b
}

// appendable is an entry of a multipart reply.
type appendable interface{ appendTo(b []byte) []byte }

func appendAll[T appendable](b []byte, list []T) []byte {
	for _, e := range list {
		b = e.appendTo(b)
	}
	return b
}

// decodeEach reads entries of one size that fill b.
func decodeEach[T any](section string, b []byte, size int, decode func([]byte) T) ([]T, error) {
	if len(b)%size != 0 {
		return nil, fault(BadRequestBadLen, section, "%d bytes of entries of %d", len(b), size)
	}
	list := make([]T, 0, len(b)/size)
	for ; len(b) > 0; b = b[size:] {
		list = append(list, decode(b))
	}
	return list, nil
}

// cutEntry returns the length of the entry at the start of b, whose length field of two bytes is at an offset of at, or a
// fault if it is below least or runs past b.
func cutEntry(section string, b []byte, at, least int) (int, error) {
	n := 0
	if len(b) >= least {
		n = int(wire.Uint16(b[at:]))
	}
	if n < least || n > len(b) {
		return 0, fault(BadRequestBadLen, section, "entry of %d bytes with %d left", n, len(b))
	}
	return n, nil
}
