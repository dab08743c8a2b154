package router

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"baton/api"
	"baton/router/config"
	"baton/router/discover"
)

// changeRequest is a change by API that waits for its turn.
type changeRequest struct {
	make func(discover.Changes, *discover.World) (discover.Changes, error)
	done chan error // gets one result
}

// change makes changes by API, all at once.
func (r *Router) change(batch []*changeRequest) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	d := &r.discovery
	changes, inForce := r.current().changes, r.current().cfg
	var made []*changeRequest
	for _, q := range batch {
		next, err := q.make(changes, &discover.World{File: d.file, InForce: inForce})
		if err != nil {
			q.done <- err
			continue
		}
		changes, made = next, append(made, q)
		inForce, _ = r.merged(d.file, changes) // as the next one of the batch sees it
	}
	if len(made) == 0 {
		return
	}
	err := r.put(changes)
	for _, q := range made {
		q.done <- err
	}
}

// ask waits until a change is in force, or refused.
func (r *Router) ask(ctx context.Context, change func(discover.Changes, *discover.World) (discover.Changes, error)) error {
	q := &changeRequest{change, make(chan error, 1)}
	select {
	case r.discovery.requests <- q:
	default:
		return fmt.Errorf("%w: %w", api.ErrConflict, errBusy)
	}
	select {
	case err := <-q.done:
		return r.refusal(err)
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ctx.Done():
		return errors.New("the router is stopping")
	}
}

// refusal is an error of a change for the control socket.
func (r *Router) refusal(err error) error {
	switch {
	case errors.Is(err, discover.ErrUnknown):
		return answered{err, api.ErrNotFound}
	case errors.Is(err, discover.ErrConflict):
		return answered{err, api.ErrConflict}
	}
	return err
}

// answered is an error with a status.
type answered struct {
	error
	status error
}

func (e answered) Unwrap() []error { return []error{e.error, e.status} }

// backendChange serves a change of a surrogate over the control socket.
func (r *Router) backendChange(ctx context.Context, q api.RouterBackendChange) (api.RouterBackendResult, error) {
	err := r.ask(ctx, func(cs discover.Changes, w *discover.World) (discover.Changes, error) {
		switch q.Do {
		case api.RouterBackendAdd:
			weight := 1
			if q.Weight != nil {
				weight = *q.Weight
			}
			return cs.Add(w, q.Pool, q.Surrogate, q.Address, weight)
		case api.RouterBackendRemove:
			return cs.Remove(w, q.Surrogate, q.Now)
		case api.RouterBackendWeight:
			return cs.Weigh(w, q.Surrogate, *q.Weight)
		case api.RouterBackendDrain, api.RouterBackendUndrain:
			return cs.Drain(w, q.Surrogate, q.Do == api.RouterBackendDrain)
		case api.RouterBackendReset:
			if q.Surrogate == "" {
				return cs.Reset()
			}
			return cs.Reset(q.Surrogate)
		}
		return cs, fmt.Errorf("%w: %q is no change of a surrogate", discover.ErrConflict, q.Do)
	})
	if err != nil {
		return api.RouterBackendResult{}, err
	}
	r.log.Info("changed by API", "change", q.Do, "pool", q.Pool, "surrogate", q.Surrogate, "address", q.Address)
	return r.backendResult(&q)
}

func (r *Router) backendResult(q *api.RouterBackendChange) (api.RouterBackendResult, error) {
	s := r.current()
	out := api.RouterBackendResult{Do: q.Do, Surrogate: q.Surrogate, Saved: r.discovery.store.Dir != ""}
	for _, p := range s.pools {
		for i := range p.cfg.Surrogates {
			sg := &p.cfg.Surrogates[i]
			if sg.Name != q.Surrogate {
				continue
			}
			counted, err := r.legs.Count(p.ids[i])
			if err != nil {
				return out, err
			}
			h := r.health.State(sg.Name)
			out.Pool, out.Address, out.Weight, out.Present = p.cfg.Name, sg.Address, sg.Weight, true
			out.Draining, out.Sessions = h.Draining, counted.Active
		}
	}
	if !out.Present && (q.Do == api.RouterBackendAdd || q.Do == api.RouterBackendReset) {
		out.Problem = r.leftOut(q.Surrogate)
	}
	return out, nil
}

// leftOut is why a surrogate is not in its pool; "" if nothing says that it should be.
func (r *Router) leftOut(name string) string {
	if p := r.discovery.left.Load(); p != nil {
		for _, l := range *p {
			if l.Name == name {
				return l.Why
			}
		}
	}
	return ""
}

// addressOf is a surrogate's address; the zero value for one that there is not.
func (s *state) addressOf(name string) netip.AddrPort {
	for _, p := range s.cfg.Pools {
		for i := range p.Surrogates {
			if p.Surrogates[i].Name == name {
				return p.Surrogates[i].Address
			}
		}
	}
	return netip.AddrPort{}
}

// drain serves the older way to drain a surrogate.
func (r *Router) drain(ctx context.Context, d api.RouterDrainRequest) (api.RouterDrainResult, error) {
	q := api.RouterBackendChange{Do: api.RouterBackendDrain, Surrogate: d.Surrogate}
	if d.Undo {
		q.Do = api.RouterBackendUndrain
	}
	b, err := r.backendChange(ctx, q)
	return api.RouterDrainResult{Surrogate: d.Surrogate, Draining: b.Draining, Sessions: b.Sessions}, err
}

// originOf is where a surrogate is from, and what the API has changed of it.
func originOf(sg *config.Surrogate, changes discover.Changes) (origin string, changed []string, leaving bool) {
	origin = sg.Origin
	if origin == "" {
		origin = "router.yaml"
	}
	c, ok := changes[sg.Name]
	if ok && c.Weight != nil && c.Pool == "" {
		changed = append(changed, "weight")
	}
	if ok && c.Drains() {
		changed = append(changed, "drain")
	}
	return origin, changed, ok && c.Leaving
}

// sourcesStatus adds the sources to the status.
func (r *Router) sourcesStatus(st *api.RouterStatus, changes discover.Changes) {
	d := &r.discovery
	for _, s := range d.runner.States() {
		out := api.RouterSource{Name: s.Source, Success: s.Success, Due: s.Due, Error: s.Err, Updates: s.Updates, Failures: make(map[string]uint64)}
		for kind, n := range s.Failures {
			out.Failures[string(kind)] = n
		}
		if s.Set != nil {
			out.Surrogates, out.Known = len(s.Set.Surrogates), true
		}
		for i := range st.Pools {
			if st.Pools[i].Name == s.Pool {
				st.Pools[i].Discover = append(st.Pools[i].Discover, out)
			}
		}
	}
	if left := d.left.Load(); left != nil {
		for _, l := range *left {
			st.LeftOut = append(st.LeftOut, l.String())
		}
	}
	st.Changes = changesStatus(changes)
	st.Merges, st.MergesFailed = d.applied.Load(), d.refused.Load()
	st.Warnings = slices.Concat(st.Warnings, d.unread)
	if text := d.trouble.Load(); text != nil {
		st.Warnings = append(st.Warnings, "the surrogates that are in force are not the latest: "+*text)
	}
}

func changesStatus(changes discover.Changes) []api.RouterChange {
	var out []api.RouterChange
	for _, c := range changes.Sorted() {
		out = append(out, api.RouterChange{
			Surrogate: c.Name, Pool: c.Pool, Address: c.Address, Weight: c.Weight, Drain: c.Drain, Leaving: c.Leaving, Gone: c.Gone,
		})
	}
	return out
}
