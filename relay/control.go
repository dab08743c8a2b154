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
		Part: api.RelayBackend{
			Status:    func(context.Context) (api.RelayStatus, error) { return r.Status() },
			Plan:      r.Plan,
			Distances: func(context.Context) (api.RelayDistances, error) { return r.distances() },
			Stop:      func(context.Context) (api.RelayStopResult, error) { return r.Stop(), nil },
			Flows:     func(_ context.Context, yield func(api.RelayFlow) bool) error { return r.eachFlow(yield) },
		},
		Reload:   func(context.Context) (api.ReloadResult, error) { return r.Reload() },
		Counters: daemon.Counters(r.Status, metrics.Series),
	}
}

// Stop makes the relay refuse new flows. Run returns when the last one has ended, or after timeouts.stop.
func (r *Relay) Stop() api.RelayStopResult {
	r.ending.Do(func() { close(r.ended) })
	return api.RelayStopResult{Flows: r.Live(), AtMost: r.current().Timeouts.Stop}
}

func (r *Relay) eachFlow(yield func(api.RelayFlow) bool) error {
	for i, w := range r.workers {
		enough := false
		err := w.EachFlow(func(f worker.Flow) bool {
			enough = !yield(flowStatus(i, &f))
			return !enough
		})
		if err != nil || enough {
			return err
		}
	}
	return nil
}

func flowStatus(worker int, f *worker.Flow) api.RelayFlow {
	out := api.RelayFlow{
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
