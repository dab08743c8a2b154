package purge

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"baton/api"
	"baton/exporter"
	"baton/purge/metrics"
)

// listen opens the control socket and the metrics listener.
func (p *Purge) listen() (err error) {
	cfg := p.o.Config
	if p.control, err = api.Listen(cfg.Control); err != nil {
		return fmt.Errorf("%s: control: %w", cfg.File, err)
	}
	if cfg.Metrics == "" {
		return nil
	}
	if p.scraped, err = net.Listen("tcp", cfg.Metrics); err != nil {
		return fmt.Errorf("%s: metrics: %w", cfg.File, err)
	}
	return nil
}

// serve answers those who come to what listen has opened, until ctx ends.
func (p *Purge) serve(ctx context.Context, serving *errgroup.Group) {
	serving.Go(func() error {
		if err := api.Serve(ctx, p.control, p.backend()); err != nil {
			p.log.Error("nobody can ask for the status any more", "err", err)
		}
		return nil
	})
	if p.scraped == nil {
		return
	}
	serving.Go(func() error {
		if err := exporter.Serve(ctx, p.scraped, metrics.Handler(p.o.Version, p.Status)); err != nil {
			p.log.Error("metrics are not served any more", "err", err)
		}
		return nil
	})
}

// backend is what the control socket serves.
func (p *Purge) backend() api.Backend {
	return api.Backend{
		Purge:    func(context.Context) (api.PurgeStatus, error) { return p.Status() },
		Reload:   func(context.Context) (api.ReloadResult, error) { return p.Reload() },
		Counters: func(context.Context) ([]api.Counter, error) { return p.counters() },
	}
}

func (p *Purge) counters() ([]api.Counter, error) {
	s, err := p.Status()
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
