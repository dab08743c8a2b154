package openflow

// The bodies of multipart messages about the switch, its tables and flow entries.

// DescRequest asks who made the switch (7.3.5.1).
type DescRequest struct{}

// DescReply answers it. Serial has 31 bytes at most, the others 255.
type DescReply struct{ Manufacturer, Hardware, Software, Serial, Datapath string }

// FlowQuery chooses flow entries: those of a table, that use a port and group, whose cookie has the bits of CookieMask, and that
// are as specific as Match or more.
type FlowQuery struct {
	Table              TableID // TableAll for every one
	OutPort            PortNo
	OutGroup           GroupID
	Cookie, CookieMask uint64
	Match              Match
}

// NewFlowQuery returns the query of every flow entry.
func NewFlowQuery() FlowQuery {
	return FlowQuery{Table: TableAll, OutPort: PortAny, OutGroup: GroupAny}
}

// FlowStatsRequest asks for flow entries and their counters (7.3.5.2).
type FlowStatsRequest struct{ FlowQuery }

// FlowStatsReply answers it.
type FlowStatsReply []FlowStats

// FlowStats is a flow entry and its counters.
type FlowStats struct {
	Table           TableID
	Duration        Duration
	Priority        uint16
	Idle, Hard      uint16 // seconds
	Flags           FlowModFlags
	Cookie          uint64
	Packets, Octets uint64
	Match           Match
	Instructions    []Instruction
}

// AggregateRequest asks for sums over flow entries (7.3.5.3).
type AggregateRequest struct{ FlowQuery }

// AggregateReply answers it.
type AggregateReply struct {
	Packets, Octets uint64
	Flows           uint32
}

// TableStatsRequest asks for the counters of all tables (7.3.5.4).
type TableStatsRequest struct{}

// TableStatsReply answers it.
type TableStatsReply []TableStats

// TableStats are the counters of a table.
type TableStats struct {
	Table         TableID
	Active        uint32 // entries
	Lookups, Hits uint64
}

// Multipart implements [MultipartBody], as the methods below do.
func (DescRequest) Multipart() Multipart       { return MultipartDesc }
func (DescReply) Multipart() Multipart         { return MultipartDesc }
func (FlowStatsRequest) Multipart() Multipart  { return MultipartFlow }
func (FlowStatsReply) Multipart() Multipart    { return MultipartFlow }
func (AggregateRequest) Multipart() Multipart  { return MultipartAggregate }
func (AggregateReply) Multipart() Multipart    { return MultipartAggregate }
func (TableStatsRequest) Multipart() Multipart { return MultipartTable }
func (TableStatsReply) Multipart() Multipart   { return MultipartTable }

const (
	descText       = 256
	descSerial     = 32
	descSize       = 4*descText + descSerial
	flowQuerySize  = 32
	flowStatsSize  = 48
	aggregateSize  = 24
	tableStatsSize = 24
)

func (DescRequest) appendTo(b []byte) []byte       { return b }
func (TableStatsRequest) appendTo(b []byte) []byte { return b }

func (d DescReply) appendTo(b []byte) []byte {
	b = appendText(b, d.Manufacturer, descText)
	b = appendText(b, d.Hardware, descText)
	b = appendText(b, d.Software, descText)
	b = appendText(b, d.Serial, descSerial)
	return appendText(b, d.Datapath, descText)
}

func decodeDesc(b []byte) (MultipartBody, error) {
	if len(b) != descSize {
		return nil, tooShort("7.3.5.1", "description", len(b))
	}
	serial := b[3*descText:]
	return DescReply{
		Manufacturer: text(b[:descText]),
		Hardware:     text(b[descText : 2*descText]),
		Software:     text(b[2*descText : 3*descText]),
		Serial:       text(serial[:descSerial]),
		Datapath:     text(serial[descSerial:]),
	}, nil
}

func (q FlowQuery) appendTo(b []byte) []byte {
	b = wire.AppendUint32(b, uint32(q.Table)<<24)
	b = wire.AppendUint32(wire.AppendUint32(b, uint32(q.OutPort)), uint32(q.OutGroup))
	return q.Match.appendTo(wire.AppendUint64(wire.AppendUint64(pad(b, 4), q.Cookie), q.CookieMask))
}

func decodeFlowQuery(section string, b []byte) (FlowQuery, error) {
	if len(b) < flowQuerySize {
		return FlowQuery{}, tooShort(section, "flow query", len(b))
	}
	match, n, err := decodeMatch(b[flowQuerySize:])
	if err != nil {
		return FlowQuery{}, err
	}
	if flowQuerySize+n != len(b) {
		return FlowQuery{}, fault(BadRequestBadLen, section, "flow query of %d bytes", len(b))
	}
	return FlowQuery{
		TableID(b[0]), PortNo(wire.Uint32(b[4:])), GroupID(wire.Uint32(b[8:])), wire.Uint64(b[16:]), wire.Uint64(b[24:]), match,
	}, nil
}

func (m FlowStatsReply) appendTo(b []byte) []byte { return appendAll(b, m) }

func (f FlowStats) appendTo(b []byte) []byte {
	start := len(b)
	b = f.Duration.appendTo(wire.AppendUint32(b, uint32(f.Table)<<8))
	b = wire.AppendUint16(wire.AppendUint16(b, f.Priority), f.Idle)
	b = wire.AppendUint16(wire.AppendUint16(b, f.Hard), uint16(f.Flags))
	b = wire.AppendUint64(pad(b, 4), f.Cookie)
	b = f.Match.appendTo(wire.AppendUint64(wire.AppendUint64(b, f.Packets), f.Octets))
	b = appendInstructions(b, f.Instructions)
	setLength(b, start, start)
	return b
}

func decodeFlowStats(b []byte) (MultipartBody, error) {
	var list FlowStatsReply
	for len(b) > 0 {
		n, err := cutEntry("7.3.5.2", b, 0, flowStatsSize)
		if err != nil {
			return nil, err
		}
		f, err := decodeFlowEntry(b[:n])
		if err != nil {
			return nil, err
		}
		list = append(list, f)
		b = b[n:]
	}
	return list, nil
}

func decodeFlowEntry(b []byte) (FlowStats, error) {
	match, n, err := decodeMatch(b[flowStatsSize:])
	if err != nil {
		return FlowStats{}, err
	}
	instructions, err := decodeInstructions(b[flowStatsSize+n:])
	return FlowStats{
		Table:        TableID(b[2]),
		Duration:     decodeDuration(b[4:]),
		Priority:     wire.Uint16(b[12:]),
		Idle:         wire.Uint16(b[14:]),
		Hard:         wire.Uint16(b[16:]),
		Flags:        FlowModFlags(wire.Uint16(b[18:])),
		Cookie:       wire.Uint64(b[24:]),
		Packets:      wire.Uint64(b[32:]),
		Octets:       wire.Uint64(b[40:]),
		Match:        match,
		Instructions: instructions,
	}, err
}

func (m AggregateReply) appendTo(b []byte) []byte {
	b = wire.AppendUint64(wire.AppendUint64(b, m.Packets), m.Octets)
	return pad(wire.AppendUint32(b, m.Flows), 4)
}

func decodeAggregate(b []byte) (MultipartBody, error) {
	if len(b) != aggregateSize {
		return nil, tooShort("7.3.5.3", "aggregate", len(b))
	}
	return AggregateReply{wire.Uint64(b), wire.Uint64(b[8:]), wire.Uint32(b[16:])}, nil
}

func (m TableStatsReply) appendTo(b []byte) []byte { return appendAll(b, m) }

func (t TableStats) appendTo(b []byte) []byte {
	b = wire.AppendUint32(wire.AppendUint32(b, uint32(t.Table)<<24), t.Active)
	return wire.AppendUint64(wire.AppendUint64(b, t.Lookups), t.Hits)
}

func decodeTableStats(b []byte) (MultipartBody, error) {
	list, err := decodeEach("7.3.5.4", b, tableStatsSize, func(b []byte) TableStats {
		return TableStats{TableID(b[0]), wire.Uint32(b[4:]), wire.Uint64(b[8:]), wire.Uint64(b[16:])}
	})
	return TableStatsReply(list), err
}
