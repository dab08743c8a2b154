package openflow

// The bodies of multipart messages about groups and meters.

// GroupStatsRequest asks for the counters of a group, or of all with GroupAll (7.3.5.9).
type GroupStatsRequest struct{ Group GroupID }

// GroupStatsReply answers it.
type GroupStatsReply []GroupStats

// GroupStats are the counters of a group.
type GroupStats struct {
	Group           GroupID
	References      uint32 // flow entries and groups that use it
	Packets, Octets uint64
	Duration        Duration
	Buckets         []Counter
}

// Counter counts packets and their bytes.
type Counter struct{ Packets, Octets uint64 }

// GroupDescRequest asks for the groups themselves (7.3.5.10).
type GroupDescRequest struct{}

// GroupDescReply answers it.
type GroupDescReply []GroupDesc

// GroupDesc is a group.
type GroupDesc struct {
	Kind    GroupType
	Group   GroupID
	Buckets []Bucket
}

// GroupFeaturesRequest asks what the switch can do with groups (7.3.5.11).
type GroupFeaturesRequest struct{}

// GroupFeaturesReply answers it.
type GroupFeaturesReply struct {
	Types        uint32 // bit n: groups of type n
	Capabilities GroupCapabilities
	// Max is how many groups there can be, Actions which actions they can hold (bit n: type n), by the groups' type.
	Max, Actions [4]uint32
}

// MeterStatsRequest asks for the counters of a meter, or of all with MeterAll (7.3.5.12).
type MeterStatsRequest struct{ Meter MeterID }

// MeterStatsReply answers it.
type MeterStatsReply []MeterStats

// MeterStats are the counters of a meter.
type MeterStats struct {
	Meter    MeterID
	Flows    uint32
	In       Counter
	Duration Duration
	Bands    []Counter
}

// MeterConfigRequest asks for a meter itself, or for all with MeterAll (7.3.5.13).
type MeterConfigRequest struct{ Meter MeterID }

// MeterConfigReply answers it.
type MeterConfigReply []MeterConfig

// MeterConfig is a meter.
type MeterConfig struct {
	Flags MeterFlags
	Meter MeterID
	Bands []Band
}

// MeterFeaturesRequest asks what the switch can do with meters (7.3.5.14).
type MeterFeaturesRequest struct{}

// MeterFeaturesReply answers it.
type MeterFeaturesReply struct {
	MaxMeter           uint32
	BandTypes          uint32 // bit n: bands of type n
	Capabilities       uint32 // bits of MeterFlags
	MaxBands, MaxColor uint8
}

// Multipart implements [MultipartBody], as the methods below do.
func (GroupStatsRequest) Multipart() Multipart    { return MultipartGroup }
func (GroupStatsReply) Multipart() Multipart      { return MultipartGroup }
func (GroupDescRequest) Multipart() Multipart     { return MultipartGroupDesc }
func (GroupDescReply) Multipart() Multipart       { return MultipartGroupDesc }
func (GroupFeaturesRequest) Multipart() Multipart { return MultipartGroupFeatures }
func (GroupFeaturesReply) Multipart() Multipart   { return MultipartGroupFeatures }
func (MeterStatsRequest) Multipart() Multipart    { return MultipartMeter }
func (MeterStatsReply) Multipart() Multipart      { return MultipartMeter }
func (MeterConfigRequest) Multipart() Multipart   { return MultipartMeterConfig }
func (MeterConfigReply) Multipart() Multipart     { return MultipartMeterConfig }
func (MeterFeaturesRequest) Multipart() Multipart { return MultipartMeterFeatures }
func (MeterFeaturesReply) Multipart() Multipart   { return MultipartMeterFeatures }

const (
	groupStatsSize    = 40
	groupDescSize     = 8
	groupFeaturesSize = 40
	meterStatsSize    = 40
	meterConfigSize   = 8
	meterFeaturesSize = 16
	counterSize       = 16
)

func (m GroupStatsRequest) appendTo(b []byte) []byte {
	return pad(wire.AppendUint32(b, uint32(m.Group)), 4)
}
func (GroupDescRequest) appendTo(b []byte) []byte     { return b }
func (GroupFeaturesRequest) appendTo(b []byte) []byte { return b }
func (m MeterStatsRequest) appendTo(b []byte) []byte {
	return pad(wire.AppendUint32(b, uint32(m.Meter)), 4)
}
func (m MeterConfigRequest) appendTo(b []byte) []byte {
	return pad(wire.AppendUint32(b, uint32(m.Meter)), 4)
}
func (MeterFeaturesRequest) appendTo(b []byte) []byte { return b }
func (m GroupStatsReply) appendTo(b []byte) []byte    { return appendAll(b, m) }
func (m GroupDescReply) appendTo(b []byte) []byte     { return appendAll(b, m) }
func (m MeterStatsReply) appendTo(b []byte) []byte    { return appendAll(b, m) }
func (m MeterConfigReply) appendTo(b []byte) []byte   { return appendAll(b, m) }

func (c Counter) appendTo(b []byte) []byte {
	return wire.AppendUint64(wire.AppendUint64(b, c.Packets), c.Octets)
}

func decodeCounter(b []byte) Counter { return Counter{wire.Uint64(b), wire.Uint64(b[8:])} }

func (g GroupStats) appendTo(b []byte) []byte {
	start := len(b)
	b = wire.AppendUint32(wire.AppendUint32(pad(b, 4), uint32(g.Group)), g.References)
	b = wire.AppendUint64(wire.AppendUint64(pad(b, 4), g.Packets), g.Octets)
	b = appendAll(g.Duration.appendTo(b), g.Buckets)
	setLength(b, start, start)
	return b
}

func decodeGroupStats(b []byte) (MultipartBody, error) {
	var list GroupStatsReply
	for len(b) > 0 {
		n, err := cutEntry("7.3.5.9", b, 0, groupStatsSize)
		if err != nil {
			return nil, err
		}
		buckets, err := decodeEach("7.3.5.9", b[groupStatsSize:n], counterSize, decodeCounter)
		if err != nil {
			return nil, err
		}
		list = append(list, GroupStats{
			GroupID(wire.Uint32(b[4:])), wire.Uint32(b[8:]), wire.Uint64(b[16:]), wire.Uint64(b[24:]), decodeDuration(b[32:]), buckets,
		})
		b = b[n:]
	}
	return list, nil
}

func (g GroupDesc) appendTo(b []byte) []byte {
	start := len(b)
	b = wire.AppendUint32(b, uint32(g.Kind)<<8)
	b = appendBuckets(wire.AppendUint32(b, uint32(g.Group)), g.Buckets)
	setLength(b, start, start)
	return b
}

func decodeGroupDesc(b []byte) (MultipartBody, error) {
	var list GroupDescReply
	for len(b) > 0 {
		n, err := cutEntry("7.3.5.10", b, 0, groupDescSize)
		if err != nil {
			return nil, err
		}
		buckets, err := decodeBuckets(b[groupDescSize:n])
		if err != nil {
			return nil, err
		}
		list = append(list, GroupDesc{GroupType(b[2]), GroupID(wire.Uint32(b[4:])), buckets})
		b = b[n:]
	}
	return list, nil
}

func (m GroupFeaturesReply) appendTo(b []byte) []byte {
	b = wire.AppendUint32(wire.AppendUint32(b, m.Types), uint32(m.Capabilities))
	for _, words := range [...][4]uint32{m.Max, m.Actions} {
		for _, w := range words {
			b = wire.AppendUint32(b, w)
		}
	}
	return b
}

func decodeGroupFeatures(b []byte) (MultipartBody, error) {
	if len(b) != groupFeaturesSize {
		return nil, tooShort("7.3.5.11", "group features", len(b))
	}
	m := GroupFeaturesReply{Types: wire.Uint32(b), Capabilities: GroupCapabilities(wire.Uint32(b[4:]))}
	for i := range 4 {
		m.Max[i], m.Actions[i] = wire.Uint32(b[8+4*i:]), wire.Uint32(b[24+4*i:])
	}
	return m, nil
}

func (m MeterStats) appendTo(b []byte) []byte {
	start := len(b)
	b = wire.AppendUint32(pad(wire.AppendUint32(b, uint32(m.Meter)), 8), m.Flows)
	b = appendAll(m.Duration.appendTo(m.In.appendTo(b)), m.Bands)
	setLength(b, start, start+4)
	return b
}

func decodeMeterStats(b []byte) (MultipartBody, error) {
	var list MeterStatsReply
	for len(b) > 0 {
		n, err := cutEntry("7.3.5.12", b, 4, meterStatsSize)
		if err != nil {
			return nil, err
		}
		bands, err := decodeEach("7.3.5.12", b[meterStatsSize:n], counterSize, decodeCounter)
		if err != nil {
			return nil, err
		}
		list = append(list, MeterStats{
			MeterID(wire.Uint32(b)), wire.Uint32(b[12:]), decodeCounter(b[16:]), decodeDuration(b[32:]), bands,
		})
		b = b[n:]
	}
	return list, nil
}

func (m MeterConfig) appendTo(b []byte) []byte {
	start := len(b)
	b = wire.AppendUint32(wire.AppendUint32(b, uint32(m.Flags)), uint32(m.Meter))
	b = appendBands(b, m.Bands)
	setLength(b, start, start)
	return b
}

func decodeMeterConfig(b []byte) (MultipartBody, error) {
	var list MeterConfigReply
	for len(b) > 0 {
		n, err := cutEntry("7.3.5.13", b, 0, meterConfigSize)
		if err != nil {
			return nil, err
		}
		bands, err := decodeBands(b[meterConfigSize:n])
		if err != nil {
			return nil, err
		}
		list = append(list, MeterConfig{MeterFlags(wire.Uint16(b[2:])), MeterID(wire.Uint32(b[4:])), bands})
		b = b[n:]
	}
	return list, nil
}

func (m MeterFeaturesReply) appendTo(b []byte) []byte {
	b = wire.AppendUint32(wire.AppendUint32(b, m.MaxMeter), m.BandTypes)
	return pad(append(wire.AppendUint32(b, m.Capabilities), m.MaxBands, m.MaxColor), 2)
}

func decodeMeterFeatures(b []byte) (MultipartBody, error) {
	if len(b) != meterFeaturesSize {
		return nil, tooShort("7.3.5.14", "meter features", len(b))
	}
	return MeterFeaturesReply{wire.Uint32(b), wire.Uint32(b[4:]), wire.Uint32(b[8:]), b[12], b[13]}, nil
}
