package forwarder

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"baton/api"
	"baton/daemon"
	"baton/document"
	"baton/forwarder/model"
	"baton/forwarder/ports"
	"baton/forwarder/trace"
	"baton/openflow"
	"baton/packet"
)

// backend is what the control socket serves.
func (f *Forwarder) backend() api.Backend {
	return api.Backend{
		Part: api.ForwarderBackend{
			Status: func(context.Context) (api.ForwarderStatus, error) { return f.status() },
			Trace:  func(_ context.Context, r api.ForwarderTraceRequest) (api.ForwarderTrace, error) { return f.trace(r) },
		},
		Reload:   func(context.Context) (api.ReloadResult, error) { return f.Reload() },
		Counters: daemon.Counters(f.status, f.tally.series),
	}
}

var errEnding = errors.New("the forwarder is ending")

// status takes about 0.1 ms per thousand flow entries, during which no message is handled.
func (f *Forwarder) status() (api.ForwarderStatus, error) {
	s := api.ForwarderStatus{
		Process:    daemon.Process("forwarder", f.version, f.began),
		DatapathID: fmt.Sprintf("%016x", f.datapathID()), FailMode: string(f.cfg.FailMode),
	}
	s.Name, s.Config, s.Loaded = f.cfg.Name, f.cfg.File, f.began
	s.Reloads, s.ReloadsFailed = f.reloads.Load(), f.reloadsFailed.Load()
	verdicts, err := f.kernel.Verdicts()
	if err != nil {
		return s, err
	}
	s.MegaflowsHit, s.MicroflowsHit = take(verdicts, "megaflows_hit"), take(verdicts, "microflows_hit")
	s.UpcallsLost, s.CopiesLost = take(verdicts, "upcall_lost"), take(verdicts, "copy_lost")
	s.Packets = verdicts
	s.Endpoints = f.endpoints()
	list := f.ports.List()
	interfaces := make(map[openflow.PortNo]string)
	for _, p := range list {
		interfaces[p.No] = p.Name
	}
	if s.Bindings, err = f.bindingsStatus(interfaces); err != nil {
		return s, err
	}
	counted, fault := f.ports.Stats(openflow.PortAny)
	if fault != nil {
		return s, fault
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return s, errEnding
	}
	for i, p := range list {
		s.Ports = append(s.Ports, portStatus(p, counted[i], f.latest[p.No]))
	}
	for _, t := range f.pipeline.TableStats(f.installed.Table) {
		s.Entries.Used += int(t.Active)
		if t.Active > 0 || t.Lookups > 0 {
			s.Tables = append(s.Tables, api.ForwarderTable{
				Table: int(t.Table), Entries: int(t.Active), Lookups: t.Lookups, Misses: t.Lookups - t.Hits,
			})
		}
	}
	limits := f.pipeline.Limits()
	s.Entries.Limit = limits.Entries
	s.Groups = api.Usage{Used: len(f.pipeline.Groups()), Limit: limits.Groups}
	s.Meters = api.Usage{Used: len(f.pipeline.Meters()), Limit: limits.Meters}
	if f.journal != nil {
		s.Journal = &api.ForwarderJournal{Records: f.journal.Len(), Bytes: f.journal.Size()}
	}
	return s, nil
}

// take removes a counter that is not a verdict, but counted in addition to one.
func take(verdicts map[string]uint64, name string) uint64 {
	n := verdicts[name]
	delete(verdicts, name)
	return n
}

func portStatus(p openflow.Port, c openflow.PortStats, e ports.Event) api.ForwarderPort {
	out := api.ForwarderPort{
		Number: p.No.String(), Interface: p.Name, Present: e.Ifindex != 0, Up: e.Up, Config: []string{}, MAC: p.MAC.String(),
	}
	if p.Config != 0 {
		out.Config = strings.Split(strings.ToLower(p.Config.String()), "|")
	}
	if c.RxPackets != ^uint64(0) { // all ones: not counted [7.3.5]
		out.Counters = &api.ForwarderPortCounters{
			RxPackets: c.RxPackets, RxBytes: c.RxOctets, RxDropped: c.RxDropped,
			TxPackets: c.TxPackets, TxBytes: c.TxOctets, TxDropped: c.TxDropped,
		}
	}
	return out
}

func (f *Forwarder) endpoints() []api.ForwarderEndpoint {
	out := []api.ForwarderEndpoint{}
	for _, c := range f.controllers.Status() {
		e := api.ForwarderEndpoint{
			Endpoint: c.Endpoint.String(), Listens: c.Listens, Channels: []api.ForwarderChannel{}, LastError: c.Error, Failed: c.Failed,
			Opened: c.Opened, Received: c.Received, Refused: c.Refused, Sent: c.Sent, PacketIns: c.PacketIns,
			PacketInsDropped: c.Dropped, Rejected: c.Rejected,
		}
		for _, ch := range c.Channels {
			e.Channels = append(e.Channels, api.ForwarderChannel{Peer: ch.Peer, Role: strings.ToLower(ch.Role.String()), Since: ch.Since})
		}
		out = append(out, e)
	}
	return out
}

// portNames are the names of ports in a request: interfaces, or LOCAL.
func portNames(list []openflow.Port) []string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.Name
		if p.No == openflow.PortLocal {
			names[i] = p.No.String()
		}
	}
	return names
}

// trace traces a packet.
func (f *Forwarder) trace(r api.ForwarderTraceRequest) (api.ForwarderTrace, error) {
	if len(r.Frame) < packet.EthernetSize {
		return api.ForwarderTrace{}, fmt.Errorf("%w: packet of %d bytes: no Ethernet header", api.ErrInvalid, len(r.Frame))
	}
	bindings, err := f.modelBindings(r.Frame)
	if err != nil {
		return api.ForwarderTrace{}, err
	}
	o := trace.Options{Pipeline: f.pipeline, NormalStack: f.cfg.NormalStack, Bindings: bindings}
	in := openflow.PortAny
	list := f.ports.List()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range list {
		e := f.latest[p.No]
		o.Ports = append(o.Ports, trace.Port{
			Port: model.Port{No: p.No, Config: p.Config, There: e.Ifindex != 0, Live: e.Up}, Interface: p.Name, HostSide: f.hostSide(p.No),
		})
		if r.InPort == p.No.String() || r.InPort == p.Name && in == openflow.PortAny {
			in = p.No
		}
	}
	if in == openflow.PortAny {
		return api.ForwarderTrace{}, fmt.Errorf("%w: there is no port %q (%s)", api.ErrInvalid, r.InPort, document.Meant(r.InPort, portNames(list)))
	}
	o.DropFragments = f.dropFragments
	return trace.Run(o, in, r.Frame), nil
}
