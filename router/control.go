package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"baton/api"
	"baton/daemon"
	kernel "baton/datapath/router"
	"baton/router/config"
	"baton/router/explain"
	"baton/router/metrics"
)

// backend serves the control socket.
func (r *Router) backend() api.Backend {
	return api.Backend{
		Part: api.RouterBackend{
			Status:    func(context.Context) (api.RouterStatus, error) { return r.Status() },
			Explain:   func(_ context.Context, q api.RouterQuestion) (api.RouterExplanation, error) { return r.explain(q) },
			Drain:     r.drain,
			Backend:   r.backendChange,
			Decisions: r.decisions,
			Sessions:  func(_ context.Context, yield func(api.RouterSession) bool) error { return r.eachSession(yield) },
		},
		Counters: daemon.Counters(r.Status, metrics.Series),
		Reload:   func(context.Context) (api.ReloadResult, error) { return r.Reload() },
	}
}

var errStop = errors.New("enough")

func (r *Router) eachSession(yield func(api.RouterSession) bool) error {
	s, now := r.current(), time.Now()
	err := r.dp.EachSplice(func(sp kernel.Splice) error {
		session := api.RouterSession{
			Client: sp.Client, VIP: sp.VIP, Surrogate: s.names[sp.Surrogate],
			Leg:   api.RouterLeg{Local: sp.Router, Remote: sp.Server},
			Since: now.Add(-sp.Age), IdleFor: sp.Quiet,
			Received: sp.BytesToServer, Sent: sp.BytesToClient, Requests: uint64(sp.ClientRequests),
		}
		switch sp.State {
		case kernel.Active:
			session.State = api.RouterSessionSpliced
		case kernel.Closing:
			session.State = api.RouterSessionClosing
		default:
			return nil
		}
		if !yield(session) {
			return errStop
		}
		return nil
	})
	if err == nil {
		err = r.eachQUIC(now, func(session api.RouterSession) error {
			if !yield(session) {
				return errStop
			}
			return nil
		})
	}
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// Status returns the router's status. The error is that of the kernel's maps.
func (r *Router) Status() (api.RouterStatus, error) {
	s := r.current()
	st := api.RouterStatus{
		Process: daemon.Process("router", r.o.Version, r.started), Features: []api.Feature{}, Interfaces: r.interfaces(),
		Limit: r.dp.Sessions(), Packets: make(map[string]uint64),
	}
	st.Config, st.Loaded = s.cfg.File, time.Unix(0, r.loaded.Load())
	st.Reloads, st.ReloadsFailed = r.reloads.Load(), r.reloadsFailed.Load()
	verdicts, err := r.dp.Verdicts()
	if err != nil {
		return st, err
	}
	for v, n := range verdicts {
		st.Packets[v.String()] = n
	}
	for _, v := range s.cfg.VIPs {
		vip := api.RouterVIP{Address: v.Address, Mode: string(v.Mode), Protocol: string(v.Protocol), TLS: len(v.TLS) > 0, Routes: len(v.Routes)}
		for _, k := range v.TLS {
			vip.Certificates = append(vip.Certificates, api.RouterCertificate{File: k.Certificate, Names: k.Pair.Leaf.DNSNames, Expires: k.Pair.Leaf.NotAfter})
		}
		if v.Mode == config.Handoff {
			vip.Pipelining = string(v.Pipelining)
		}
		vip.Controller = r.controllerOf(v.Address)
		st.VIPs = append(st.VIPs, vip)
	}
	for _, p := range s.pools {
		pool := api.RouterPool{Name: p.cfg.Name, Policy: string(p.cfg.Policy), Reuse: string(p.cfg.Reuse), Sources: p.cfg.Legs.Sources}
		for i := range p.cfg.Surrogates {
			one, err := r.surrogateStatus(s, &p.cfg.Surrogates[i], p.ids[i])
			if err != nil {
				return st, err
			}
			one.Origin, one.Changed, one.Leaving = originOf(&p.cfg.Surrogates[i], s.changes)
			st.Sessions += one.Sessions
			pool.Surrogates = append(pool.Surrogates, one)
		}
		st.Pools = append(st.Pools, pool)
	}
	st.AccessLogs = r.accessLogs()
	r.certificateStatus(&st)
	r.sourcesStatus(&st, s.changes)
	st.Warnings = append(st.Warnings, r.shared.warnings()...)
	st.QUIC, err = r.statusQUIC()
	return st, err
}

// interfaces lists those that the data path is attached to.
func (r *Router) interfaces() []api.RouterInterface {
	out := []api.RouterInterface{}
	attached := append(r.dp.Attached(), r.interfacesQUIC()...)
	slices.Sort(attached)
	for _, ifindex := range slices.Compact(attached) {
		name := fmt.Sprintf("#%d", ifindex)
		if dev, err := net.InterfaceByIndex(ifindex); err == nil {
			name = dev.Name
		}
		out = append(out, api.RouterInterface{Name: name, Attached: true})
	}
	return out
}

func (r *Router) surrogateStatus(s *state, sg *config.Surrogate, id uint16) (api.RouterSurrogate, error) {
	h := r.health.State(sg.Name)
	legs, err := r.legs.Count(id)
	if err != nil {
		return api.RouterSurrogate{}, err
	}
	counted, err := r.dp.Surrogate(id)
	if err != nil {
		return api.RouterSurrogate{}, err
	}
	out := api.RouterSurrogate{
		Name: sg.Name, Address: sg.Address, Weight: sg.Weight, Priority: sg.Priority, Phase: string(h.Phase), Up: h.Up, Draining: h.Draining,
		Since: h.Since, LastError: h.LastError, Sessions: legs.Active, QUIC: r.quicSessions(sg.Address), IdleLegs: legs.Idle, OpeningLegs: legs.Opening,
		Handoffs: counted.Handoffs, Recycled: counted.Recycled, Failed: counted.Failed, BytesTo: counted.BytesIn, BytesFrom: counted.BytesOut,
	}
	mode, after := r.legs.Mode(id)
	out.LegsMode = string(mode)
	if after > 0 {
		out.LegsReason = fmt.Sprintf("it closes unused connections after %v", after.Round(time.Millisecond))
	}
	if sg.Address.Addr().IsLoopback() || r.local(s, sg.Name) {
		out.Proxied = "it is on this host"
	}
	return out, nil
}

func (r *Router) explain(q api.RouterQuestion) (api.RouterExplanation, error) {
	s := r.current()
	var headers []string
	for _, h := range q.Headers {
		headers = append(headers, h.Name+": "+h.Value)
	}
	e, err := explain.Explain(s.cfg, explain.Question{Method: q.Method, URL: q.URL, ALPN: q.ALPN, Client: q.Client, Headers: headers, Shared: s.shared},
		func(name string) explain.Health {
			h := r.health.State(name)
			return explain.Health{
				Up: h.Up, Draining: h.Draining, Local: r.local(s, name), Why: h.LastError, Sessions: int(r.sessions(s.ids[name])),
			}
		})
	if err != nil {
		return api.RouterExplanation{}, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	return Explained(e), nil
}
