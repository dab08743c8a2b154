package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"baton/api"
)

// collector asks the process at each scrape. It is unchecked: which series there are, the state decides.
type collector struct {
	status func() (api.AnycastStatus, error)
}

func (c *collector) Describe(chan<- *prometheus.Desc) {}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	s, err := c.status()
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewDesc(namespace+"_status", "The state of the process.", nil, nil), err)
		return
	}
	for _, n := range Series(&s) {
		kind := prometheus.CounterValue
		if n.Gauge {
			kind = prometheus.GaugeValue
		}
		keys := slices.Sorted(maps.Keys(n.Labels))
		values := make([]string, len(keys))
		for i, k := range keys {
			values[i] = n.Labels[k]
		}
		desc := prometheus.NewDesc(namespace+"_"+n.Name, n.Help, keys, nil)
		metric, err := prometheus.NewConstMetric(desc, kind, n.Value, values...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(desc, err) // the scrape says so and keeps the others
		}
		out <- metric
	}
}

// health is the body of /healthz.
type health struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"` // empty when ready
}

// Handler serves /metrics and /healthz. status is called at each request, perhaps from several goroutines.
func Handler(version string, status func() (api.AnycastStatus, error)) http.Handler {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "1, labelled by the version.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build,
		&collector{status})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, Registry: registry, MaxRequestsInFlight: 8, Timeout: 10 * time.Second,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		s, err := status()
		reasons := Unready(&s)
		if err != nil {
			reasons = []string{err.Error()}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if len(reasons) > 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		json.NewEncoder(w).Encode(health{len(reasons) == 0, reasons}) // fails only when the client has gone
	})
	return mux
}

// Serve answers on l, which it closes, until ctx is done.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	down := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(down)
		grace, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			server.Close()
		}
	})
	err := server.Serve(l)
	if !stop() {
		<-down
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve metrics: %w", err)
}
