package discover

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"baton/document"
	"baton/router/config"
)

// API is the origin of surrogates that were added over the control socket.
const API = "api"

// MaxChanges bounds the changes by API that are in force at a time.
const MaxChanges = 4096

// Errors of changes.
var (
	ErrUnknown  = errors.New("not found")
	ErrConflict = errors.New("conflict")
)

// Change is what the API says of one surrogate: it adds it, or changes one of the file or of a source.
type Change struct {
	Name    string         `json:"name"`
	Pool    string         `json:"pool,omitempty"`    // that it is added to; "": it is there without the API
	Address netip.AddrPort `json:"address,omitzero"`  // of an added one
	Weight  *int           `json:"weight,omitempty"`  // nil: its own
	Drain   bool           `json:"drain,omitempty"`   // no new sessions
	Leaving bool           `json:"leaving,omitempty"` // no new sessions, and gone with its last one
	Gone    bool           `json:"gone,omitempty"`    // not in its pool, whatever the file and the sources say
	// Of is what the file said of it then: the change stands until the file says something else. nil: it was not in the file.
	Of *Base `json:"of,omitempty"`
}

// Base is a surrogate of the file.
type Base struct {
	Pool    string         `json:"pool"`
	Address netip.AddrPort `json:"address"`
	Weight  int            `json:"weight"`
}

// Drains reports whether the surrogate gets no new sessions.
func (c *Change) Drains() bool { return c.Drain || c.Leaving }

func (c *Change) empty() bool {
	return c.Pool == "" && c.Weight == nil && !c.Drains() && !c.Gone
}

// Changes are all changes by API that are in force, by surrogate. They are immutable: each method returns others.
type Changes map[string]Change

// with returns the changes with another one for its surrogate.
func (cs Changes) with(c Change) Changes {
	out := maps.Clone(cs)
	if out == nil {
		out = make(Changes)
	}
	if c.empty() {
		delete(out, c.Name)
	} else {
		out[c.Name] = c
	}
	return out
}

// Sorted returns the changes by name.
func (cs Changes) Sorted() []Change {
	return slices.SortedFunc(maps.Values(cs), func(a, b Change) int { return cmp.Compare(a.Name, b.Name) })
}

// World is what changes refer to.
type World struct {
	File    *config.Config // router.yaml
	InForce *config.Config
}

// base is what the file says of a surrogate; nil: nothing.
func (w *World) base(name string) *Base {
	p, s := find(w.File, name)
	if s == nil {
		return nil
	}
	return &Base{p.Name, s.Address, s.Weight}
}

// find finds a surrogate in a configuration.
func find(cfg *config.Config, name string) (*config.Pool, *config.Surrogate) {
	for i := range cfg.Pools {
		for j := range cfg.Pools[i].Surrogates {
			if cfg.Pools[i].Surrogates[j].Name == name {
				return &cfg.Pools[i], &cfg.Pools[i].Surrogates[j]
			}
		}
	}
	return nil, nil
}

// changed is the change of a surrogate in force, to be continued.
func (cs Changes) changed(w *World, name string) (Change, error) {
	if _, s := find(w.InForce, name); s == nil {
		return Change{}, fmt.Errorf("surrogate %q: %w (%s)", name, ErrUnknown, document.Meant(name, w.InForce.Surrogates()))
	}
	c, ok := cs[name]
	if !ok {
		if len(cs) >= MaxChanges {
			return Change{}, fmt.Errorf("%w: %d surrogates are changed by API, and that is all: baton router backend reset drops such changes", ErrConflict, len(cs))
		}
		c = Change{Name: name, Of: w.base(name)}
	}
	return c, nil
}

// Add adds a surrogate to a pool. To add it again as it is changes nothing.
func (cs Changes) Add(w *World, pool, name string, address netip.AddrPort, weight int) (Changes, error) {
	i := slices.IndexFunc(w.File.Pools, func(p config.Pool) bool { return p.Name == pool })
	if i < 0 {
		return cs, fmt.Errorf("pool %q: %w (%s)", pool, ErrUnknown, document.Meant(pool, w.File.PoolNames()))
	}
	p := &w.File.Pools[i]
	s := config.Surrogate{Name: name, Address: address, Weight: weight}
	if why := w.File.Refuses(p, &s); why != "" {
		return cs, fmt.Errorf("%w: surrogate %q at %s: %s", ErrConflict, name, address, why)
	}
	c, had := cs[name]
	switch in, now := find(w.InForce, name); {
	case had && c.Gone && c.Pool == "":
		return cs, fmt.Errorf("%w: surrogate %q was removed from what the file or a source says: baton router backend reset %s brings it back", ErrConflict, name, name)
	case now != nil && now.Origin == API && in.Name == pool && now.Address == address && now.Weight == weight && !c.Leaving:
		return cs, nil
	case now != nil && now.Origin == API && c.Leaving && in.Name == pool && now.Address == address:
	case now != nil:
		return cs, fmt.Errorf("%w: there is a surrogate %q already, %s in pool %s", ErrConflict, name, now.Address, in.Name)
	case had && c.Pool != "": // it does not fit into its pool, or not any more
	case len(cs) >= MaxChanges:
		return cs, fmt.Errorf("%w: %d surrogates are changed by API, and that is all", ErrConflict, len(cs))
	}
	return cs.with(Change{Name: name, Pool: pool, Address: address, Weight: &weight}), nil
}

// Remove removes a surrogate: when its sessions have ended, or at once.
func (cs Changes) Remove(w *World, name string, at bool) (Changes, error) {
	c, err := cs.changed(w, name)
	if err != nil {
		if had, ok := cs[name]; ok && had.Pool != "" { // it is not in its pool anyway
			return cs.with(Change{Name: name}), nil
		}
		return cs, err
	}
	if at {
		return cs.Left(c.Name, c), nil
	}
	c.Leaving = true
	return cs.with(c), nil
}

// Left is for a surrogate whose sessions have ended: nothing remains of an added one, and another one is gone.
func (cs Changes) Left(name string, c Change) Changes {
	if c.Pool != "" {
		return cs.with(Change{Name: name})
	}
	return cs.with(Change{Name: name, Gone: true, Of: c.Of})
}

// Weigh changes a weight.
func (cs Changes) Weigh(w *World, name string, weight int) (Changes, error) {
	c, err := cs.changed(w, name)
	if err != nil {
		return cs, err
	}
	if weight < 0 || weight > maxWeight {
		return cs, fmt.Errorf("%w: weight %d is not from 0 to %d", ErrConflict, weight, maxWeight)
	}
	c.Weight = &weight
	if c.Of != nil && c.Of.Weight == weight {
		c.Weight = nil
	}
	return cs.with(c), nil
}

// Drain drains a surrogate, or ends that; the latter also keeps one that is leaving.
func (cs Changes) Drain(w *World, name string, on bool) (Changes, error) {
	c, err := cs.changed(w, name)
	if err != nil {
		return cs, err
	}
	c.Drain = on
	if !on {
		c.Leaving = false
	}
	return cs.with(c), nil
}

// Reset drops the changes of the surrogates, or all.
func (cs Changes) Reset(names ...string) (Changes, error) {
	if len(names) == 0 {
		return Changes{}, nil
	}
	out := cs
	for _, name := range names {
		if _, ok := cs[name]; !ok {
			return cs, fmt.Errorf("surrogate %q is not changed by API: %w (%s)", name, ErrUnknown, document.Meant(name, slices.Sorted(maps.Keys(cs))))
		}
		out = out.with(Change{Name: name})
	}
	return out, nil
}

// Under returns the changes that stand under a file: none of a surrogate of which it says something else than it did, except that it
// drains. dropped are the names of the others.
func (cs Changes) Under(file *config.Config) (kept Changes, dropped []string) {
	w := World{File: file}
	kept = make(Changes, len(cs))
	for _, c := range cs.Sorted() {
		base := w.base(c.Name)
		if base == nil && c.Of == nil || base != nil && c.Of != nil && *base == *c.Of {
			kept[c.Name] = c
			continue
		}
		if c.Drain {
			kept[c.Name] = Change{Name: c.Name, Drain: true, Of: base}
		}
		if c.Drain = false; !c.empty() {
			dropped = append(dropped, c.Name)
		}
	}
	return kept, dropped
}
