package exporter

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
)

// Process is a process whose status is exported. The functions may be called from several goroutines.
type Process[Status any] struct {
	Namespace string // prefix of every name
	Version   string
	Status    func() (Status, error)
	Series    func(*Status) []Number
	Unready   func(*Status) []string // why it is not ready

	Collectors []prometheus.Collector // for numbers that are not in the status, such as latencies
}

// collector reads the status at each scrape. It is unchecked: which series exist depends on the status.
type collector[Status any] struct{ Process[Status] }

func (c *collector[Status]) Describe(chan<- *prometheus.Desc) {}

func (c *collector[Status]) Collect(out chan<- prometheus.Metric) {
	s, err := c.Status()
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewDesc(c.Namespace+"_status", "The status of the process.", nil, nil), err)
		return
	}
	for _, n := range c.Series(&s) {
		kind := prometheus.CounterValue
		if n.Gauge {
			kind = prometheus.GaugeValue
		}
		keys := slices.Sorted(maps.Keys(n.Labels))
		values := make([]string, len(keys))
		for i, k := range keys {
			values[i] = n.Labels[k]
		}
		desc := prometheus.NewDesc(c.Namespace+"_"+n.Name, n.Help, keys, nil)
		metric, err := prometheus.NewConstMetric(desc, kind, n.Value, values...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(desc, err) // the scrape reports it and keeps the others
		}
		out <- metric
	}
}

// health is the body of /healthz.
type health struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"` // empty when ready
}

// Handler serves /metrics and /healthz. It reads the status at each request.
func (p Process[Status]) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: p.Namespace, Name: "build_info", Help: "1, labelled by the version.", ConstLabels: prometheus.Labels{"version": p.Version},
	})
	build.Set(1)
	registry.MustRegister(p.Collectors...)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build,
		&collector[Status]{p})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, Registry: registry, MaxRequestsInFlight: 8, Timeout: 10 * time.Second,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		s, err := p.Status()
		reasons := p.Unready(&s)
		if err != nil {
			reasons = []string{err.Error()}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if len(reasons) > 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		json.NewEncoder(w).Encode(health{len(reasons) == 0, append([]string{}, reasons...)}) // fails only if the client has gone
	})
	return mux
}

// Serve serves requests on l, which it closes, until ctx is done.
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
