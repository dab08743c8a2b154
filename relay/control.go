package relay

import (
	"context"
	"encoding/hex"
	"strings"

	"baton/api"
	"baton/daemon"
	"baton/relay/metrics"
	"baton/relay/worker"
)

// backend is what the control socket serves.
func (r *Relay) backend() api.Backend {
	return api.Backend{
		Relay:      func(context.Context) (api.RelayStatus, error) { return r.Status() },
		RelayDrain: func(context.Context) (api.RelayDrainResult, error) { return r.Drain(), nil },
		Reload:     func(context.Context) (api.ReloadResult, error) { return r.Reload() },
		Counters:   daemon.Counters(r.Status, metrics.Series),
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
