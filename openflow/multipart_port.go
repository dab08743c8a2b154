package openflow

// The bodies of multipart messages about ports and queues.

// PortStatsRequest asks for the counters of a port, or of all with PortAny (7.3.5.6).
type PortStatsRequest struct{ Port PortNo }

// PortStatsReply answers it.
type PortStatsReply []PortStats

// PortStats are the counters of a port. All ones: not counted.
type PortStats struct {
	Port                                      PortNo
	RxPackets, TxPackets, RxOctets, TxOctets  uint64
	RxDropped, TxDropped, RxErrors, TxErrors  uint64
	RxFrameErr, RxOverErr, RxCRCErr, Collided uint64
	Duration                                  Duration
}

// PortDescRequest asks for the ports (7.3.5.7).
type PortDescRequest struct{}

// PortDescReply answers it.
type PortDescReply []Port

// QueueStatsRequest asks for the counters of a queue; PortAny and QueueAll stand for all (7.3.5.8).
type QueueStatsRequest struct {
	Port  PortNo
	Queue uint32
}

// QueueStatsReply answers it.
type QueueStatsReply []QueueStats

// QueueStats are the counters of a queue.
type QueueStats struct {
	Port                          PortNo
	Queue                         uint32
	TxOctets, TxPackets, TxErrors uint64
	Duration                      Duration
}

// Multipart implements [MultipartBody], as the methods below do.
func (PortStatsRequest) Multipart() Multipart  { return MultipartPortStats }
func (PortStatsReply) Multipart() Multipart    { return MultipartPortStats }
func (PortDescRequest) Multipart() Multipart   { return MultipartPortDesc }
func (PortDescReply) Multipart() Multipart     { return MultipartPortDesc }
func (QueueStatsRequest) Multipart() Multipart { return MultipartQueue }
func (QueueStatsReply) Multipart() Multipart   { return MultipartQueue }

const (
	portStatsSize  = 112
	queueStatsSize = 40
)

func (m PortStatsRequest) appendTo(b []byte) []byte {
	return pad(wire.AppendUint32(b, uint32(m.Port)), 4)
}
func (PortDescRequest) appendTo(b []byte) []byte { return b }
func (m QueueStatsRequest) appendTo(b []byte) []byte {
	return wire.AppendUint32(wire.AppendUint32(b, uint32(m.Port)), m.Queue)
}
func (m PortStatsReply) appendTo(b []byte) []byte  { return appendAll(b, m) }
func (m PortDescReply) appendTo(b []byte) []byte   { return appendAll(b, m) }
func (m QueueStatsReply) appendTo(b []byte) []byte { return appendAll(b, m) }

func (p PortStats) appendTo(b []byte) []byte {
	b = pad(wire.AppendUint32(b, uint32(p.Port)), 4)
	for _, v := range [...]uint64{
		p.RxPackets, p.TxPackets, p.RxOctets, p.TxOctets, p.RxDropped, p.TxDropped, p.RxErrors, p.TxErrors,
		p.RxFrameErr, p.RxOverErr, p.RxCRCErr, p.Collided,
	} {
		b = wire.AppendUint64(b, v)
	}
	return p.Duration.appendTo(b)
}

func decodePortStats(b []byte) (MultipartBody, error) {
	list, err := decodeEach("7.3.5.6", b, portStatsSize, func(b []byte) PortStats {
		u := func(i int) uint64 { return wire.Uint64(b[8+8*i:]) }
		return PortStats{
			Port: PortNo(wire.Uint32(b)), RxPackets: u(0), TxPackets: u(1), RxOctets: u(2), TxOctets: u(3),
			RxDropped: u(4), TxDropped: u(5), RxErrors: u(6), TxErrors: u(7),
			RxFrameErr: u(8), RxOverErr: u(9), RxCRCErr: u(10), Collided: u(11), Duration: decodeDuration(b[104:]),
		}
	})
	return PortStatsReply(list), err
}

func decodePortDesc(b []byte) (MultipartBody, error) {
	list, err := decodeEach("7.3.5.7", b, portSize, decodePort)
	return PortDescReply(list), err
}

func (q QueueStats) appendTo(b []byte) []byte {
	b = wire.AppendUint32(wire.AppendUint32(b, uint32(q.Port)), q.Queue)
	b = wire.AppendUint64(wire.AppendUint64(b, q.TxOctets), q.TxPackets)
	return q.Duration.appendTo(wire.AppendUint64(b, q.TxErrors))
}

func decodeQueueStats(b []byte) (MultipartBody, error) {
	list, err := decodeEach("7.3.5.8", b, queueStatsSize, func(b []byte) QueueStats {
		return QueueStats{
			PortNo(wire.Uint32(b)), wire.Uint32(b[4:]), wire.Uint64(b[8:]), wire.Uint64(b[16:]), wire.Uint64(b[24:]),
			decodeDuration(b[32:]),
		}
	})
	return QueueStatsReply(list), err
}
