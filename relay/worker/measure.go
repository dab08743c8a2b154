package worker

import (
	"net/netip"
	"time"
	"unsafe"

	"baton/relay/flow"
)

// Measurement is what a trunk learnt about its path, at the end of its flow.
type Measurement struct {
	Peer       string         // the trunk was opened to; "": it was accepted
	Remote     netip.AddrPort // of an accepted one
	Rate       int64          // bytes per second delivered
	AppLimited bool           // limited by the flow, its receiver or a buffer: the path can carry more
	MinRTT     time.Duration
	MSS        int // bytes
}

// measure reports the measurement of an end that is a trunk.
func (w *Worker) measure(e *end) {
	s := e.of
	if w.o.Measured == nil {
		return
	}
	m := Measurement{}
	switch {
	case e.which == flow.Server && s.trunk != nil:
		m.Peer = s.trunk.pool.peer.Name
	case e.which == flow.Client && s.request != nil && s.request.parser == nil:
		m.Remote = s.request.from
	default:
		return
	}
	info, errno := tcpInfo(e.fd)
	if errno != 0 || info.Min_rtt == 0 || info.Min_rtt == ^uint32(0) {
		return
	}
	const limited = 1 << 0                                    // tcpi_delivery_rate_app_limited, in the byte after the window shifts,
	held := (*[8]byte)(unsafe.Pointer(&info))[7]&limited != 0 // which x/sys does not name
	m.Rate, m.MSS = int64(info.Delivery_rate), int(info.Snd_mss)
	m.AppLimited = held || info.Rwnd_limited+info.Sndbuf_limited > info.Busy_time/4
	m.MinRTT = time.Duration(info.Min_rtt) * time.Microsecond
	w.o.Measured(m)
}
