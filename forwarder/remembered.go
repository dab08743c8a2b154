package forwarder

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"baton/api"
	kernel "baton/datapath/forwarder"
	"baton/forwarder/model"
	"baton/openflow"
)

// picksStatus is how much of the memory of flows is used, and by which ports; nil: there is none.
func (f *Forwarder) picksStatus(interfaces map[openflow.PortNo]string) (*api.ForwarderPicks, error) {
	if f.cfg.Limits.Picks == 0 {
		return nil, nil
	}
	s := &api.ForwarderPicks{Flows: api.Usage{Limit: f.cfg.Limits.Picks}, Ports: []api.ForwarderPickPort{}}
	list, err := kernel.ReadPickPorts(StatePath(f.cfg.Name))
	if err != nil && !errors.Is(err, kernel.ErrNoPicks) { // it comes a little later than the control socket
		return nil, err
	}
	for _, p := range list {
		no := openflow.PortNo(p.Port)
		s.Flows.Used += int(p.Flows)
		s.Ports = append(s.Ports, api.ForwarderPickPort{
			Port: no.String(), Interface: interfaces[no], Flows: p.Flows, Active: p.Active, RTT: p.RTT,
			SYNs: p.SYNs, SYNRepeats: p.SYNRepeats, Sent: p.Sent, Received: p.Received,
		})
	}
	return s, nil
}

// remembered is the memory of flows as far as it concerns a frame: those with a remote address that is somewhere in it. It is nil if there is none.
func (f *Forwarder) remembered(frame []byte) (*model.Picks, error) {
	limit := f.cfg.Limits.Picks
	if limit == 0 {
		return nil, nil
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return nil, fmt.Errorf("look at remembered flows: %w", err)
	}
	m := model.NewPicks(limit)
	m.Now = time.Duration(now.Nano())
	err := kernel.ReadPicks(StatePath(f.cfg.Name), func(p kernel.Pick) bool {
		if !bytes.Contains(frame, p.Remote.Addr().AsSlice()) {
			m.Most-- // it has a place
			return true
		}
		const tcp = 6
		m.Add(model.Flow{
			Protocol: p.Protocol, Inside: p.Inside, Remote: p.Remote, Port: openflow.PortNo(p.Port), Used: p.Used, Closing: p.Closing,
			Opening: p.Protocol == tcp && p.Received == 0 && !p.Closing,
		})
		return true
	})
	if err != nil && !errors.Is(err, kernel.ErrNoPicks) {
		return nil, err
	}
	return m, nil
}
