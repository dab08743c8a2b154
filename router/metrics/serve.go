package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"baton/exporter"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Readiness is what /healthz is decided by.
type Readiness struct {
	Attached bool     // the data path is on every interface that it belongs to
	Reasons  []string // why not, or anything else that makes the router unfit
	Pools    []PoolReadiness
}

// PoolReadiness counts a pool's surrogates.
type PoolReadiness struct {
	Name  string `json:"name"`
	Up    int    `json:"up"` // usable: up and not draining
	Total int    `json:"total"`
}

// healthReport is the body of /healthz.
type healthReport struct {
	Ready   bool            `json:"ready"`
	Reasons []string        `json:"reasons"` // empty when ready
	Pools   []PoolReadiness `json:"pools"`
}

func (r Readiness) report() healthReport {
	out := healthReport{Reasons: append([]string{}, r.Reasons...), Pools: append([]PoolReadiness{}, r.Pools...)}
	if !r.Attached {
		out.Reasons = append(out.Reasons, "the data path is not attached")
	}
	for _, p := range r.Pools {
		if p.Up == 0 {
			out.Reasons = append(out.Reasons, fmt.Sprintf("no surrogate of pool %s is up (of %d)", p.Name, p.Total))
		}
	}
	out.Ready = len(out.Reasons) == 0
	return out
}

// healthz answers 200 when the data path is attached and each pool has a usable surrogate, else 503 with the reasons.
func (m *Metrics) healthz(w http.ResponseWriter, _ *http.Request) {
	var ready Readiness
	if m.ready != nil {
		ready = m.ready()
	}
	report := ready.report()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !report.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	json.NewEncoder(w).Encode(report) // fails only when the client has gone
}

// exposition serves what can be collected even when a collector fails.
func (m *Metrics) exposition() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, Registry: m.registry, MaxRequestsInFlight: 8, Timeout: 10 * time.Second,
	})
}

// Serve answers on l, which it closes, until ctx is done.
func (m *Metrics) Serve(ctx context.Context, l net.Listener) error {
	return exporter.Serve(ctx, l, m.Handler())
}
