package sources

import (
	"context"
	"errors"
	"fmt"
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

// makeChanges makes changes by API, all at once.
func (d *Sources) makeChanges(batch []*changeRequest) {
	d.o.Lock.Lock()
	defer d.o.Lock.Unlock()
	changes, inForce := d.o.Snapshot().Changes, d.o.Snapshot().Config
	var made []*changeRequest
	for _, q := range batch {
		next, err := q.make(changes, &discover.World{File: d.file, InForce: inForce})
		if err != nil {
			q.done <- err
			continue
		}
		changes, made = next, append(made, q)
		inForce, _ = d.MergeLocked(d.file, changes) // as the next one of the batch sees it
	}
	if len(made) == 0 {
		return
	}
	err := d.putLocked(changes)
	for _, q := range made {
		q.done <- err
	}
}

// request waits until a change is in force, or refused.
func (d *Sources) request(ctx context.Context, change func(discover.Changes, *discover.World) (discover.Changes, error)) error {
	q := &changeRequest{change, make(chan error, 1)}
	select {
	case d.requests <- q:
	default:
		return fmt.Errorf("%w: %w", api.ErrConflict, errBusy)
	}
	select {
	case err := <-q.done:
		return withStatus(err)
	case <-ctx.Done():
		return ctx.Err()
	case <-d.done:
		return errors.New("the router is stopping")
	}
}

// withStatus returns an error of a change for the control socket.
func withStatus(err error) error {
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

// Change serves a change of a surrogate over the control socket.
func (d *Sources) Change(ctx context.Context, q api.RouterBackendChange) (api.RouterBackendResult, error) {
	err := d.request(ctx, func(cs discover.Changes, w *discover.World) (discover.Changes, error) {
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
	d.o.Log.Info("changed by API", "change", q.Do, "pool", q.Pool, "surrogate", q.Surrogate, "address", q.Address)
	return d.resultOf(&q)
}

func (d *Sources) resultOf(q *api.RouterBackendChange) (api.RouterBackendResult, error) {
	s := d.o.Snapshot()
	out := api.RouterBackendResult{Do: q.Do, Surrogate: q.Surrogate, Saved: d.store.Dir != ""}
	for _, p := range s.Pools {
		for i := range p.Config.Surrogates {
			sg := &p.Config.Surrogates[i]
			if sg.Name != q.Surrogate {
				continue
			}
			counted, err := d.o.Count(p.IDs[i])
			if err != nil {
				return out, err
			}
			h := d.o.Health(sg.Name)
			out.Pool, out.Address, out.Weight, out.Present = p.Config.Name, sg.Address, sg.Weight, true
			out.Draining, out.Sessions = h.Draining, counted.Active
		}
	}
	if !out.Present && (q.Do == api.RouterBackendAdd || q.Do == api.RouterBackendReset) {
		out.Problem = d.findLeftOut(q.Surrogate)
	}
	return out, nil
}

// findLeftOut returns why a surrogate is not in its pool; "" if nothing says that it should be.
func (d *Sources) findLeftOut(name string) string {
	if p := d.left.Load(); p != nil {
		for _, l := range *p {
			if l.Name == name {
				return l.Why
			}
		}
	}
	return ""
}

// Drain serves the older way to drain a surrogate.
func (d *Sources) Drain(ctx context.Context, of api.RouterDrainRequest) (api.RouterDrainResult, error) {
	q := api.RouterBackendChange{Do: api.RouterBackendDrain, Surrogate: of.Surrogate}
	if of.Undo {
		q.Do = api.RouterBackendUndrain
	}
	b, err := d.Change(ctx, q)
	return api.RouterDrainResult{Surrogate: of.Surrogate, Draining: b.Draining, Sessions: b.Sessions}, err
}

// OriginOf returns where a surrogate is from, and what the API has changed of it.
func OriginOf(sg *config.Surrogate, changes discover.Changes) (origin string, changed []string, leaving bool) {
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

// AddStatus adds the sources, and the changes in force, to a status.
func (d *Sources) AddStatus(st *api.RouterStatus, changes discover.Changes) {
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
