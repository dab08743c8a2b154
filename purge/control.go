package purge

import (
	"context"

	"baton/api"
	"baton/daemon"
	"baton/purge/metrics"
)

// backend is what the control socket serves.
func (p *Purge) backend() api.Backend {
	return api.Backend{
		Part:     api.PurgeBackend{Status: func(context.Context) (api.PurgeStatus, error) { return p.Status() }},
		Reload:   func(context.Context) (api.ReloadResult, error) { return p.Reload() },
		Counters: daemon.Counters(p.Status, metrics.Series),
	}
}
