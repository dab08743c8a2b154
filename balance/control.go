package balance

import (
	"context"

	"baton/api"
	"baton/balance/metrics"
	"baton/daemon"
)

// backend serves the control socket.
func (b *Balance) backend() api.Backend {
	return api.Backend{
		Part:     api.BalanceBackend{Status: func(context.Context) (api.BalanceStatus, error) { return b.Status() }},
		Reload:   func(context.Context) (api.ReloadResult, error) { return b.Reload() },
		Counters: daemon.Counters(b.Status, metrics.Series),
	}
}
