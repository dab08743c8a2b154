package router

import (
	"context"
	"time"

	"baton/api"
	"baton/router/certs"
)

const (
	// lookDelay lets the first checks of many surrogates come to an end: their certificates are looked at together.
	lookDelay = 200 * time.Millisecond
	// lookEvery is how often the end of certificates is looked at again.
	lookEvery = time.Hour
)

// lookAgain has the certificates looked at.
func (r *Router) lookAgain() {
	select {
	case r.shown <- struct{}{}:
	default:
	}
}

// watchCertificates looks at the certificates when they have changed, and at times. A warning is logged when it arises.
func (r *Router) watchCertificates(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	logged := make(map[string]bool)
	for {
		s := r.current()
		report := certs.Look(s.cfg, s.routes, r.health.Seen, time.Now())
		arisen := make(map[string]bool, len(report.Warnings))
		for _, line := range report.Warnings {
			if arisen[line] = true; !logged[line] {
				r.log.Warn(line)
			}
		}
		logged = arisen
		r.certificates.Store(report)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-r.shown:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(lookDelay):
			}
		}
	}
}

// certificateStatus adds the certificates to a status.
func (r *Router) certificateStatus(st *api.RouterStatus) {
	report := r.certificates.Load()
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
