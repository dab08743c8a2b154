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

// bindingsStatus returns the usage of the binding table and its ports; nil if there is none.
func (f *Forwarder) bindingsStatus(interfaces map[openflow.PortNo]string) (*api.ForwarderBindings, error) {
	if f.cfg.Limits.Bindings == 0 {
		return nil, nil
	}
	s := &api.ForwarderBindings{Flows: api.Usage{Limit: f.cfg.Limits.Bindings}, Ports: []api.ForwarderBindingPort{}}
	list, err := kernel.ReadBindingPorts(StatePath(f.cfg.Name))
	if err != nil && !errors.Is(err, kernel.ErrNoBindings) { // the maps are pinned shortly after the control socket is there
		return nil, err
	}
	for _, p := range list {
		no := openflow.PortNo(p.Port)
		s.Flows.Used += int(p.Flows)
		s.Ports = append(s.Ports, api.ForwarderBindingPort{
			Port: no.String(), Interface: interfaces[no], Flows: p.Flows, Active: p.Active, RTT: p.RTT,
			SYNs: p.SYNs, SYNRepeats: p.SYNRepeats, Sent: p.Sent, Received: p.Received,
		})
	}
	return s, nil
}

// modelBindings returns the part of the binding table that matters for a frame: flows whose remote address occurs anywhere in it. nil if there
// is no binding table.
func (f *Forwarder) modelBindings(frame []byte) (*model.Bindings, error) {
	limit := f.cfg.Limits.Bindings
	if limit == 0 {
		return nil, nil
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return nil, fmt.Errorf("read the binding table: %w", err)
	}
	m := model.NewBindings(limit)
	m.Now = time.Duration(now.Nano())
	err := kernel.ReadBindings(StatePath(f.cfg.Name), func(p kernel.Binding) bool {
		if !bytes.Contains(frame, p.Remote.Addr().AsSlice()) {
			m.Most-- // it takes up space
			return true
		}
		const tcp = 6
		m.Add(model.Flow{
			Protocol: p.Protocol, Internal: p.Internal, Remote: p.Remote, Port: openflow.PortNo(p.Port), Used: p.Used, Closing: p.Closing,
			Opening: p.Protocol == tcp && p.Received == 0 && !p.Closing,
		})
		return true
	})
	if err != nil && !errors.Is(err, kernel.ErrNoBindings) {
		return nil, err
	}
	return m, nil
}
