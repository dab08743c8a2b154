package ports

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"baton/openflow"
)

// kept are the bits besides PORT_DOWN that a port mod may change: the data path implements them.
const kept = openflow.PortConfigNoRecv | openflow.PortConfigNoFwd | openflow.PortConfigNoPacketIn

func refuse(c openflow.Code, section, format string, args ...any) *openflow.Fault {
	return &openflow.Fault{Code: c, Section: section, Text: fmt.Sprintf(format, args...)}
}

// PortMod modifies a port (7.3.4.3) and returns its new state, which is not reported by Report. Advertised features cannot be changed: the
// fault is BAD_ADVERTISE if they differ.
func (p *Ports) PortMod(m *openflow.PortMod) (Event, *openflow.Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pt := p.find(m.Port)
	if pt == nil {
		return Event{}, refuse(openflow.PortModFailedBadPort, "7.3.4.3", "there is no port %v", m.Port)
	}
	have := pt.seen.Port
	switch {
	case m.MAC != have.MAC:
		return Event{}, refuse(openflow.PortModFailedBadHWAddr, "7.3.4.3", "port %v has %v, not %v", m.Port, have.MAC, m.MAC)
	case m.Mask&^(kept|openflow.PortConfigPortDown) != 0:
		return Event{}, refuse(openflow.PortModFailedBadConfig, "7.3.4.3", "mask %v", m.Mask)
	case m.Advertise != 0 && m.Advertise != have.Advertised:
		return Event{}, refuse(openflow.PortModFailedBadAdvertise, "7.3.4.3", "port %v advertises %v", m.Port, have.Advertised)
	}
	if m.Mask&openflow.PortConfigPortDown != 0 {
		if f := p.setDown(pt, m.Config&openflow.PortConfigPortDown != 0); f != nil {
			return Event{}, f
		}
	}
	pt.flags = pt.flags&^m.Mask | m.Config&m.Mask&kept
	if _, err := p.refresh(pt); err != nil {
		p.o.Log.Error("a port cannot be read", "port", pt.no, "error", err)
	}
	e := pt.seen
	e.Reason = openflow.PortModify
	return e, nil
}

func (p *Ports) setDown(pt *port, down bool) *openflow.Fault {
	link, err := p.read(pt.name)
	if err == nil && link != nil {
		err = p.setUp(link, !down)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) { // gone meanwhile
		return refuse(openflow.PortModFailedEperm, "7.3.4.3", "interface %s: %v", pt.name, err)
	}
	pt.down = down
	return nil
}

// notCounted is the value of unsupported counters (7.3.5).
const notCounted = ^uint64(0)

// Stats returns the counters of a port, or of all with [openflow.PortAny]: those of the interface, and the time since it appeared. Without an
// interface there are none.
func (p *Ports) Stats(no openflow.PortNo) ([]openflow.PortStats, *openflow.Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.ports
	if no != openflow.PortAny {
		pt := p.find(no)
		if pt == nil {
			return nil, refuse(openflow.BadRequestBadPort, "7.3.5.6", "there is no port %v", no)
		}
		list = []*port{pt}
	}
	stats := make([]openflow.PortStats, 0, len(list))
	for _, pt := range list {
		stats = append(stats, p.count(pt))
	}
	return stats, nil
}

func (p *Ports) count(pt *port) openflow.PortStats {
	const n = notCounted
	s := openflow.PortStats{
		Port: pt.no, RxPackets: n, TxPackets: n, RxOctets: n, TxOctets: n, RxDropped: n, TxDropped: n, RxErrors: n, TxErrors: n,
		RxFrameErr: n, RxOverErr: n, RxCRCErr: n, Collided: n,
	}
	age := time.Since(pt.since)
	s.Duration = openflow.Duration{Sec: uint32(age / time.Second), Nsec: uint32(age % time.Second)}
	if pt.index == 0 {
		return s
	}
	link, err := p.handle.LinkByIndex(pt.index)
	if err != nil || link.Attrs().Statistics == nil {
		return s
	}
	c := link.Attrs().Statistics
	s.RxPackets, s.TxPackets, s.RxOctets, s.TxOctets = c.RxPackets, c.TxPackets, c.RxBytes, c.TxBytes
	s.RxDropped, s.TxDropped, s.RxErrors, s.TxErrors = c.RxDropped, c.TxDropped, c.RxErrors, c.TxErrors
	s.RxFrameErr, s.RxOverErr, s.RxCRCErr, s.Collided = c.RxFrameErrors, c.RxOverErrors, c.RxCrcErrors, c.Collisions
	return s
}
