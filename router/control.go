package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"baton/api"
	kernel "baton/datapath/router"
	"baton/router/config"
	"baton/router/explain"
	"baton/router/health"
	"baton/router/metrics"
)

// backend is what the control socket serves.
func (r *Router) backend() api.Backend {
	return api.Backend{
		Status:   func(context.Context) (api.Status, error) { return r.Status() },
		Counters: func(context.Context) ([]api.Counter, error) { return r.counters() },
		Explain:  func(_ context.Context, q api.Question) (api.Explanation, error) { return r.explain(q) },
		Drain:    func(_ context.Context, d api.DrainRequest) (api.DrainResult, error) { return r.drain(d) },
		Reload:   func(context.Context) (api.ReloadResult, error) { return r.Reload() },
		Sessions: func(_ context.Context, yield func(api.Session) bool) error { return r.eachSession(yield) },
	}
}

var errStop = errors.New("enough")

func (r *Router) eachSession(yield func(api.Session) bool) error {
	s, now := r.current(), time.Now()
	err := r.dp.EachSplice(func(sp kernel.Splice) error {
		session := api.Session{
			Client: sp.Client, VIP: sp.VIP, Surrogate: s.names[sp.Surrogate],
			Leg:   api.Leg{Local: sp.Router, Remote: sp.Server},
			Since: now.Add(-sp.Age), IdleFor: sp.Quiet,
			Received: sp.BytesToServer, Sent: sp.BytesToClient, Requests: uint64(sp.ClientRequests),
		}
		switch sp.State {
		case kernel.Active:
			session.State = api.SessionSpliced
		case kernel.Closing:
			session.State = api.SessionClosing
		default:
			return nil
		}
		if !yield(session) {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// Status is the router at a glance.
func (r *Router) Status() (api.Status, error) {
	s := r.current()
	var uts unix.Utsname
	_ = unix.Uname(&uts)
	st := api.Status{
		Version: r.o.Version, PID: os.Getpid(), Started: r.started, Config: s.cfg.File,
		Loaded: time.Unix(0, r.loaded.Load()), Kernel: unix.ByteSliceToString(uts.Release[:]),
		Limit: r.dp.Sessions(),
	}
	assign := api.Feature{Name: "bpf_sk_assign_tcp_reqsk", Used: kernel.CanAssign()}
	if !assign.Used {
		assign.Reason = "needs Linux 6.9: what cannot be spliced is reset"
	}
	st.Features = append(st.Features, assign)
	attached := r.dp.Attached()
	slices.Sort(attached)
	for _, ifindex := range attached {
		name := fmt.Sprintf("#%d", ifindex)
		if dev, err := net.InterfaceByIndex(ifindex); err == nil {
			name = dev.Name
		}
		st.Interfaces = append(st.Interfaces, api.Interface{Name: name, Attached: true})
	}
	for _, v := range s.cfg.VIPs {
		vip := api.VIP{Address: v.Address, Mode: string(v.Mode), Routes: len(v.Routes)}
		if v.Mode == config.Handoff {
			vip.Pipelining = string(v.Pipelining)
		}
		st.VIPs = append(st.VIPs, vip)
	}
	for _, p := range s.pools {
		pool := api.Pool{Name: p.cfg.Name, Policy: string(p.cfg.Policy), Reuse: string(p.cfg.Reuse)}
		for i, sg := range p.cfg.Surrogates {
			h := r.health.State(sg.Name)
			counted, err := r.legs.Count(p.ids[i])
			if err != nil {
				return st, err
			}
			a := api.Surrogate{
				Name: sg.Name, Address: sg.Address, Weight: sg.Weight, Phase: string(h.Phase), Up: h.Up, Draining: h.Draining,
				Since: h.Since, LastError: h.LastError, Sessions: counted.Active, IdleLegs: counted.Idle,
			}
			if sg.Address.Addr().IsLoopback() || r.local(s, sg.Name) {
				a.Proxied = "it is on this host"
			}
			st.Sessions += counted.Active
			pool.Surrogates = append(pool.Surrogates, a)
		}
		st.Pools = append(st.Pools, pool)
	}
	return st, nil
}

func (r *Router) kernelCounters() []metrics.Counter {
	counts, err := r.dp.Verdicts()
	if err != nil {
		r.log.Error("kernel counters are not read", "err", err)
		return nil
	}
	var out []metrics.Counter
	for v, n := range counts {
		out = append(out, metrics.Counter{
			Name: "packets_total", Help: "Packets by what became of them.", Labels: map[string]string{"verdict": v.String()}, Value: n,
		})
	}
	s := r.current()
	for name, id := range s.ids {
		k, err := r.dp.Surrogate(id)
		if err != nil {
			continue
		}
		for _, c := range []metrics.Counter{
			{Name: "kernel_handoffs_total", Help: "Sessions spliced or moved to a surrogate.", Value: k.Handoffs},
			{Name: "legs_recycled_total", Help: "Server legs taken back into their pool.", Value: k.Recycled},
			{Name: "handoffs_failed_total", Help: "Handoffs that met a close before a response byte.", Value: k.Failed},
			{Name: "bytes_to_surrogate_total", Help: "TCP payload of ended sessions, to the surrogate.", Value: k.BytesIn},
			{Name: "bytes_from_surrogate_total", Help: "TCP payload of ended sessions, from the surrogate.", Value: k.BytesOut},
		} {
			c.Labels = map[string]string{"surrogate": name}
			out = append(out, c)
		}
	}
	return out
}

func (r *Router) counters() ([]api.Counter, error) {
	var out []api.Counter
	for _, c := range r.kernelCounters() {
		out = append(out, api.Counter{Name: c.Name, Help: c.Help, Labels: c.Labels, Value: c.Value})
	}
	return out, nil
}

func (r *Router) legCounts() []metrics.Legs {
	var out []metrics.Legs
	for _, p := range r.current().pools {
		for i, sg := range p.cfg.Surrogates {
			if c, err := r.legs.Count(p.ids[i]); err == nil {
				out = append(out, metrics.Legs{Pool: p.cfg.Name, Surrogate: sg.Name, Idle: c.Idle, Spliced: c.Active, Opening: c.Opening})
			}
		}
	}
	return out
}

func (r *Router) surrogateStates() []metrics.SurrogateState {
	var out []metrics.SurrogateState
	for _, p := range r.current().pools {
		for _, sg := range p.cfg.Surrogates {
			out = append(out, metrics.SurrogateState{Pool: p.cfg.Name, Surrogate: sg.Name, State: r.health.State(sg.Name)})
		}
	}
	return out
}

func (r *Router) readiness() metrics.Readiness {
	ready := metrics.Readiness{Attached: len(r.dp.Attached()) > 0}
	handoff := false
	for _, p := range r.current().pools {
		up := 0
		for _, sg := range p.cfg.Surrogates {
			if r.health.State(sg.Name).Usable() {
				up++
			}
		}
		ready.Pools = append(ready.Pools, metrics.PoolReadiness{Name: p.cfg.Name, Up: up, Total: len(p.cfg.Surrogates)})
	}
	for _, v := range r.current().cfg.VIPs {
		handoff = handoff || v.Mode == "handoff"
	}
	ready.Attached = ready.Attached || !handoff
	return ready
}

func (r *Router) drain(d api.DrainRequest) (api.DrainResult, error) {
	if err := r.health.Drain(d.Surrogate, !d.Undo); err != nil {
		if errors.Is(err, health.ErrUnknown) {
			return api.DrainResult{}, fmt.Errorf("surrogate %q: %w", d.Surrogate, api.ErrNotFound)
		}
		return api.DrainResult{}, err
	}
	id := r.current().ids[d.Surrogate]
	counted, err := r.legs.Count(id)
	return api.DrainResult{Surrogate: d.Surrogate, Draining: !d.Undo, Sessions: counted.Active}, err
}

func (r *Router) explain(q api.Question) (api.Explanation, error) {
	s := r.current()
	var headers []string
	for _, h := range q.Headers {
		headers = append(headers, h.Name+": "+h.Value)
	}
	e, err := explain.Explain(s.cfg, explain.Question{Method: q.Method, URL: q.URL, Client: q.Client, Headers: headers},
		func(name string) explain.Health {
			h := r.health.State(name)
			return explain.Health{
				Up: h.Up, Draining: h.Draining, Local: r.local(s, name), Why: h.LastError, Sessions: int(r.sessions(s.ids[name])),
			}
		})
	if err != nil {
		return api.Explanation{}, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	return Explained(e), nil
}
