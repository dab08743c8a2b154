package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"baton/api"
	"baton/daemon"
	kernel "baton/datapath/router"
	"baton/router/accesslog"
	"baton/router/config"
	"baton/router/explain"
	"baton/router/legs"
	"baton/router/metrics"
	"baton/router/outcome"
	"baton/router/quic"
	"baton/router/sources"
)

// backend serves the control socket.
func (r *Router) backend() api.Backend {
	return api.Backend{
		Part: api.RouterBackend{
			Status:    func(context.Context) (api.RouterStatus, error) { return r.Status() },
			Explain:   func(_ context.Context, q api.RouterQuestion) (api.RouterExplanation, error) { return r.explain(q) },
			Drain:     r.sources.Drain,
			Backend:   r.sources.Change,
			Decisions: r.policies.Decisions,
			Sessions: func(_ context.Context, yield func(api.RouterSession) bool) error {
				return eachSession(r.kernel, r.quic, r.current().Names, yield)
			},
		},
		Counters: daemon.Counters(r.Status, metrics.Series),
		Reload:   func(context.Context) (api.ReloadResult, error) { return r.Reload() },
	}
}

var errStop = errors.New("enough")

// eachSession calls yield for each session, of TCP and QUIC, until it returns false. names are those of surrogates by their numbers.
func eachSession(dp *kernel.Router, quics *quic.Service, names map[uint16]string, yield func(api.RouterSession) bool) error {
	now := time.Now()
	err := dp.EachSplice(func(sp kernel.Splice) error {
		session := api.RouterSession{
			Client: sp.Client, VIP: sp.VIP, Surrogate: names[sp.Surrogate],
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
		err = quics.EachSession(now, func(session api.RouterSession) error {
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
		Process: daemon.Process("router", r.o.Version, r.started), Features: []api.Feature{}, Interfaces: describeInterfaces(append(r.kernel.Attached(), r.quic.Interfaces()...)),
		Packets: make(map[string]uint64),
	}
	places := r.legs.Places()
	st.Limit, st.Places, st.Full = places.Limit, places.Used, places.Full
	st.Config, st.Loaded = s.Config.File, time.Unix(0, r.loaded.Load())
	st.Reloads, st.ReloadsFailed = r.reloads.Load(), r.reloadsFailed.Load()
	verdicts, err := r.kernel.Verdicts()
	if err != nil {
		return st, err
	}
	for v, n := range verdicts {
		st.Packets[v.String()] = n
	}
	left := make(map[int]int) // by VIP
	for _, l := range s.Kernel.LeftOut {
		left[l.VIP] = l.Count()
	}
	for i := range s.Config.VIPs {
		v := &s.Config.VIPs[i]
		vip := api.RouterVIP{Address: v.Address, Mode: string(v.Mode), Protocol: string(v.Protocol), TLS: len(v.TLS) > 0, Routes: len(v.Routes), LeftOut: left[i]}
		for _, k := range v.TLS {
			vip.Certificates = append(vip.Certificates, api.RouterCertificate{File: k.Certificate, Names: k.Pair.Leaf.DNSNames, Expires: k.Pair.Leaf.NotAfter})
		}
		if v.Mode == config.Handoff {
			vip.Pipelining = string(v.Pipelining)
		}
		vip.Controller, vip.Proxied = r.servers.ControllerStatus(v.Address), r.servers.ProxiedStatus(v.Address)
		st.VIPs = append(st.VIPs, vip)
	}
	for _, p := range s.Pools {
		pool := api.RouterPool{Name: p.Config.Name, Policy: string(p.Config.Policy), Reuse: string(p.Config.Reuse), Sources: p.Config.Legs.Sources}
		for i := range p.Config.Surrogates {
			one, err := r.surrogateStatus(&p.Config.Surrogates[i], p.IDs[i])
			if err != nil {
				return st, err
			}
			one.Origin, one.Changed, one.Leaving = sources.OriginOf(&p.Config.Surrogates[i], s.Changes)
			st.Sessions += one.Sessions
			pool.Surrogates = append(pool.Surrogates, one)
		}
		st.Pools = append(st.Pools, pool)
	}
	st.AccessLogs = accessLogs(r.access, r.kernel)
	r.certs.AddStatus(&st)
	r.sources.AddStatus(&st, s.Changes)
	st.Warnings = append(append(st.Warnings, r.policies.Warnings()...), s.Kernel.Warnings(s.Config)...)
	st.QUIC, err = r.quic.Status()
	return st, err
}

// describeInterfaces describes those that the data path is attached to.
func describeInterfaces(attached []int) []api.RouterInterface {
	out := []api.RouterInterface{}
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

func (r *Router) surrogateStatus(sg *config.Surrogate, id uint16) (api.RouterSurrogate, error) {
	h := r.health.State(sg.Name)
	legs, err := r.legs.Count(id)
	if err != nil {
		return api.RouterSurrogate{}, err
	}
	counted, err := r.kernel.Surrogate(id)
	if err != nil {
		return api.RouterSurrogate{}, err
	}
	out := api.RouterSurrogate{
		Name: sg.Name, Address: sg.Address, Weight: sg.Weight, Priority: sg.Priority, Phase: string(h.Phase), Up: h.Up, Draining: h.Draining,
		Since: h.Since, LastError: h.LastError, Sessions: legs.Active, QUIC: r.quic.Sessions(sg.Address), IdleLegs: legs.Idle, OpeningLegs: legs.Opening,
		Handoffs: counted.Handoffs, Recycled: counted.Recycled, Failed: counted.Failed, BytesTo: counted.BytesIn, BytesFrom: counted.BytesOut,
	}
	mode, after := r.legs.Mode(id)
	out.LegsMode = string(mode)
	if after > 0 {
		out.LegsReason = fmt.Sprintf("it closes unused connections after %v", after.Round(time.Millisecond))
	}
	if sg.Address.Addr().IsLoopback() || r.legs.Local(id) {
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
	rules := explain.Rules{Config: s.Config, Routes: s.Routes, Kernel: s.Kernel}
	e, err := rules.Explain(explain.Question{Method: q.Method, URL: q.URL, ALPN: q.ALPN, Client: q.Client, Headers: headers, Shared: s.PolicyOf},
		func(name string) explain.Health {
			h := r.health.State(name)
			return explain.Health{
				Up: h.Up, Draining: h.Draining, Local: r.legs.Local(s.IDs[name]), Why: h.LastError, Sessions: int(countSessions(r.kernel, s.IDs[name])),
			}
		})
	if err != nil {
		return api.RouterExplanation{}, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	out := Explained(e)
	out.Steps = append(out.Steps, explainProxied(out.VIP, r.servers.ProxiedStatus(out.VIP))...)
	out.Steps = append(out.Steps, explainPlaces(r.legs.Places())...)
	return out, nil
}

// explainProxied is a step of an explanation after connections for the VIP have come in where they are not spliced.
func explainProxied(vip netip.AddrPort, p *api.RouterProxied) []string {
	if p == nil || len(p.Interfaces) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%-10s proxied, if it comes in on %s, as %d connections did: not in the interfaces of %v",
		"but", strings.Join(p.Interfaces, " or "), p.Connections[string(outcome.Interface)], vip)}
}

// explainPlaces is a step of an explanation while new sessions find no place.
func explainPlaces(p legs.Places) []string {
	if !p.Full {
		return nil
	}
	return []string{fmt.Sprintf("%-10s %s: the table of sessions is full (limits.sessions: %d); "+
		"clients that find no idle leg are proxied", "now", outcome.NoPlace, p.Limit)}
}

// accessLogs is the status of the access log's outputs.
func accessLogs(access *accesslog.Writer, dp *kernel.Router) (out []api.RouterAccessLog) {
	lost, _ := dp.LostLogs() // 0 if they cannot be read
	for _, s := range access.Stats() {
		s.Lost[accesslog.LostInKernel] = lost
		l := api.RouterAccessLog{Output: s.Output, Written: s.Written, Skipped: s.Skipped, Lost: s.Lost, Waiting: s.Waiting}
		if s.Err != nil {
			l.Error = s.Err.Error()
		}
		out = append(out, l)
	}
	return out
}

// Explained converts an explanation for the control socket.
func Explained(e *explain.Explanation) api.RouterExplanation {
	a := api.RouterExplanation{
		Mode: string(e.Mode), Pool: e.Pool, Policy: string(e.Policy), Status: e.Status, Alert: e.Alert, Where: e.Decides,
		Steps: strings.Split(strings.TrimRight(e.String(), "\n"), "\n"),
	}
	a.VIP, _ = netip.ParseAddrPort(e.VIP)
	if e.Route != nil {
		a.Line = e.Route.Line
	}
	if len(e.Chosen) == 1 {
		a.Surrogate = e.Chosen[0]
	}
	for _, c := range e.Candidates {
		a.Candidates = append(a.Candidates, api.RouterCandidate{Surrogate: c.Name, Usable: c.Excluded == "", Reason: c.Excluded})
		if c.Name == a.Surrogate {
			a.Address, _ = netip.ParseAddrPort(c.Address)
		}
	}
	return a
}
