package balance

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"baton/api"
	"baton/balance/metrics"
	"baton/exporter"
)

// listen opens the control socket and the metrics listener.
func (b *Balance) listen() (err error) {
	cfg := b.o.Config
	if b.control, err = api.Listen(cfg.Control); err != nil {
		return fmt.Errorf("%s: control: %w", cfg.File, err)
	}
	if cfg.Metrics == "" {
		return nil
	}
	if b.scraped, err = net.Listen("tcp", cfg.Metrics); err != nil {
		return fmt.Errorf("%s: metrics: %w", cfg.File, err)
	}
	return nil
}

// serve answers those who come to what listen has opened, until ctx ends.
func (b *Balance) serve(ctx context.Context, serving *errgroup.Group) {
	serving.Go(func() error {
		if err := api.Serve(ctx, b.control, b.backend()); err != nil {
			b.log.Error("nobody can ask for the status any more", "err", err)
		}
		return nil
	})
	if b.scraped == nil {
		return
	}
	serving.Go(func() error {
		if err := exporter.Serve(ctx, b.scraped, metrics.Handler(b.o.Version, b.Status)); err != nil {
			b.log.Error("metrics are not served any more", "err", err)
		}
		return nil
	})
}

// backend is what the control socket serves.
func (b *Balance) backend() api.Backend {
	return api.Backend{
		Balance:  func(context.Context) (api.BalanceStatus, error) { return b.Status() },
		Reload:   func(context.Context) (api.ReloadResult, error) { return b.Reload() },
		Counters: func(context.Context) ([]api.Counter, error) { return b.counters() },
	}
}

func (b *Balance) counters() ([]api.Counter, error) {
	s, err := b.Status()
	if err != nil {
		return nil, err
	}
	var out []api.Counter
	for _, n := range metrics.Series(&s) {
		if !n.Gauge {
			out = append(out, api.Counter{Name: n.Name, Help: n.Help, Labels: n.Labels, Value: uint64(n.Value)})
		}
	}
	return out, nil
}
