package relay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/sync/errgroup"

	"baton/api"
	"baton/exporter"
	"baton/relay/metrics"
	"baton/relay/worker"
)

// listen opens the control socket and the metrics listener.
func (r *Relay) listen() (err error) {
	cfg := r.current()
	if r.control, err = api.Listen(cfg.Listen.Control); err != nil {
		return fmt.Errorf("%s: listen.control: %w", cfg.File, err)
	}
	if cfg.Listen.Metrics == "" {
		return nil
	}
	if r.scraped, err = net.Listen("tcp", cfg.Listen.Metrics); err != nil {
		return errors.Join(fmt.Errorf("%s: listen.metrics: %w", cfg.File, err), r.control.Close())
	}
	return nil
}

// serve answers those who come to what listen has opened, until ctx ends.
func (r *Relay) serve(ctx context.Context, serving *errgroup.Group) {
	serving.Go(func() error {
		if err := api.Serve(ctx, r.control, r.backend()); err != nil {
			r.log.Error("nobody can ask for the status any more", "err", err)
		}
		return nil
	})
	if r.scraped == nil {
		return
	}
	serving.Go(func() error {
		if err := exporter.Serve(ctx, r.scraped, metrics.Handler(r.o.Version, r.Status)); err != nil {
			r.log.Error("metrics are not served any more", "err", err)
		}
		return nil
	})
}

// backend is what the control socket serves.
func (r *Relay) backend() api.Backend {
	return api.Backend{
		Relay:      func(context.Context) (api.RelayStatus, error) { return r.Status() },
		RelayDrain: func(context.Context) (api.RelayDrainResult, error) { return r.Drain(), nil },
		Reload:     func(context.Context) (api.ReloadResult, error) { return r.Reload() },
		Counters:   func(context.Context) ([]api.Counter, error) { return r.counters() },
		Plan:       r.Plan,
		Distances:  func(context.Context) (api.Distances, error) { return r.distances() },
		Flows:      func(_ context.Context, yield func(api.Flow) bool) error { return r.eachFlow(yield) },
	}
}

// Drain has the relay take no new flows; Run returns with the last one, or after timeouts.stop.
func (r *Relay) Drain() api.RelayDrainResult {
	r.draining.Do(func() { close(r.drained) })
	return api.RelayDrainResult{Flows: r.Live(), AtMost: r.current().Timeouts.Stop}
}

func (r *Relay) counters() ([]api.Counter, error) {
	s, err := r.Status()
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

func (r *Relay) eachFlow(yield func(api.Flow) bool) error {
	for i, w := range r.workers {
		enough := false
		err := w.EachFlow(func(f worker.Flow) bool {
			enough = !yield(toldFlow(i, &f))
			return !enough
		})
		if err != nil || enough {
			return err
		}
	}
	return nil
}

func toldFlow(worker int, f *worker.Flow) api.Flow {
	out := api.Flow{
		Client: f.Client, Server: f.Server, Entry: f.Entry, Passed: names(f.Passed), Via: names(f.Via), Probe: f.Probe, Stage: f.Stage,
		Worker: worker, Since: f.Begun, IdleFor: f.Idle, FromClient: f.FromClient, FromServer: f.FromServer,
	}
	if f.ID != ([len(f.ID)]byte{}) {
		out.ID = hex.EncodeToString(f.ID[:])
	}
	return out
}

func names(joined string) []string {
	if joined == "" {
		return nil
	}
	return strings.Split(joined, ",")
}
