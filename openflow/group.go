package openflow

// GroupMod adds, changes or deletes a group (7.3.4.2).
type GroupMod struct {
	Command GroupCommand
	Kind    GroupType
	Group   GroupID
	Buckets []Bucket
}

// Bucket is a set of actions of a group (7.3.4.2).
type Bucket struct {
	Weight     uint16 // select groups: the share of packets; elsewhere 0
	WatchPort  PortNo // fast failover: the bucket lives while this port does; PortAny if none
	WatchGroup GroupID
	Actions    []Action
}

// Type implements [Message].
func (*GroupMod) Type() Type { return TypeGroupMod }

const (
	groupModSize = 8
	bucketSize   = 16
)

func (m *GroupMod) appendBody(b []byte) []byte {
	b = wire.AppendUint16(b, uint16(m.Command))
	b = append(b, byte(m.Kind), 0)
	return appendBuckets(wire.AppendUint32(b, uint32(m.Group)), m.Buckets)
}

func appendBuckets(b []byte, list []Bucket) []byte {
	for _, k := range list {
		start := len(b)
		b = wire.AppendUint32(b, uint32(k.Weight))
		b = wire.AppendUint32(wire.AppendUint32(b, uint32(k.WatchPort)), uint32(k.WatchGroup))
		b = appendActions(pad(b, 4), k.Actions)
		setLength(b, start, start)
	}
	return b
}

func decodeGroupMod(b []byte) (Message, error) {
	if len(b) < groupModSize {
		return nil, tooShort("7.3.4.2", "group mod", HeaderSize+len(b))
	}
	buckets, err := decodeBuckets(b[groupModSize:])
	if err != nil {
		return nil, err
	}
	return &GroupMod{GroupCommand(wire.Uint16(b)), GroupType(b[2]), GroupID(wire.Uint32(b[4:])), buckets}, nil
}

// decodeBuckets reads the buckets that fill b.
func decodeBuckets(b []byte) ([]Bucket, error) {
	var list []Bucket
	for len(b) > 0 {
		n := 0
		if len(b) >= bucketSize {
			n = int(wire.Uint16(b))
		}
		if n < bucketSize || n > len(b) {
			return nil, fault(GroupModFailedBadBucket, "7.3.4.2", "bucket of %d bytes with %d left", n, len(b))
		}
		actions, err := decodeActions(b[bucketSize:n])
		if err != nil {
			return nil, err
		}
		list = append(list, Bucket{wire.Uint16(b[2:]), PortNo(wire.Uint32(b[4:])), GroupID(wire.Uint32(b[8:])), actions})
		b = b[n:]
	}
	return list, nil
}
