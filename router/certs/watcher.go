package certs

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"baton/api"
	"baton/router/config"
	"baton/router/route"
)

const (
	// lookDelay lets the first checks of many surrogates come to an end: their certificates are looked at together.
	lookDelay = 200 * time.Millisecond
	// lookEvery is how often the end of certificates is looked at again.
	lookEvery = time.Hour
)

// Watcher looks at the surrogates' certificates when they or the configuration have changed, and at times.
type Watcher struct {
	changed chan struct{}
	report  atomic.Pointer[Report]
}

// NewWatcher makes a Watcher, which looks at nothing before Run.
func NewWatcher() *Watcher { return &Watcher{changed: make(chan struct{}, 1)} }

// LookAgain makes the watcher look at the certificates soon.
func (w *Watcher) LookAgain() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Run looks at the certificates until ctx is done. A warning is logged when it arises. inForce returns the configuration with its
// routes, seen what the checks have seen of a surrogate.
func (w *Watcher) Run(
	ctx context.Context, inForce func() (*config.Config, *route.Table), seen func(surrogate string) []Seen, log *slog.Logger,
) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	logged := make(map[string]bool)
	for {
		cfg, routes := inForce()
		report := Look(cfg, routes, seen, time.Now())
		arisen := make(map[string]bool, len(report.Warnings))
		for _, line := range report.Warnings {
			if arisen[line] = true; !logged[line] {
				log.Warn(line)
			}
		}
		logged = arisen
		w.report.Store(report)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.changed:
			select {
			case <-ctx.Done():
				return
			case <-time.After(lookDelay):
			}
		}
	}
}

// AddStatus adds the certificates to a status.
func (w *Watcher) AddStatus(st *api.RouterStatus) {
	report := w.report.Load()
	if report == nil {
		return
	}
	st.Warnings = report.Warnings
	for _, o := range report.Overlaps {
		st.Overlaps = append(st.Overlaps, api.RouterOverlap{VIP: o.VIP, Pool: o.Pool, Other: o.Other, Names: o.Names})
	}
	for i := range st.Pools {
		for j := range st.Pools[i].Surrogates {
			sg := &st.Pools[i].Surrogates[j]
			for _, c := range report.Surrogates[sg.Name] {
				one := api.RouterCertificate{Server: c.Name, Protocol: c.Protocol, Warnings: c.Warnings}
				if c.Leaf != nil {
					one.Names, one.Expires = c.Leaf.DNSNames, c.Leaf.NotAfter
				}
				sg.Certificates = append(sg.Certificates, one)
			}
		}
	}
}
