package metrics

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Counter is one of the data path's numbers at the time of a scrape. Counters of one name have the same labels and
// help.
type Counter struct {
	Name   string // without the prefix; "_total" is added to a counter that lacks it
	Help   string
	Labels map[string]string
	Value  uint64
	Gauge  bool // the value may fall
}

// kernelCollector asks for the counters at each scrape. It is unchecked: which there are, the data path decides.
type kernelCollector struct {
	read func() []Counter
}

func (c *kernelCollector) Describe(chan<- *prometheus.Desc) {}

func (c *kernelCollector) Collect(out chan<- prometheus.Metric) {
	if c.read == nil {
		return
	}
	for _, n := range c.read() {
		kind, name := prometheus.CounterValue, n.Name
		if n.Gauge {
			kind = prometheus.GaugeValue
		} else if !strings.HasSuffix(name, "_total") {
			name += "_total"
		}
		keys := slices.Sorted(maps.Keys(n.Labels))
		values := make([]string, len(keys))
		for i, k := range keys {
			values[i] = n.Labels[k]
		}
		desc := prometheus.NewDesc(namespace+"_"+name, n.Help, keys, nil)
		metric, err := prometheus.NewConstMetric(desc, kind, float64(n.Value), values...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(desc, err) // the scrape says so and keeps the others
		}
		out <- metric
	}
}

// stateCollector shows surrogates and their legs as they are at a scrape, so that those of an earlier configuration
// leave nothing behind.
type stateCollector struct {
	legs       func() []Legs
	surrogates func() []SurrogateState

	legCount, up, draining *prometheus.Desc
}

func newStateCollector(legs func() []Legs, surrogates func() []SurrogateState) *stateCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return &stateCollector{
		legs: legs, surrogates: surrogates,
		legCount: desc("legs", "Server legs of a surrogate, by state: idle, spliced, opening.", "pool", "surrogate", "state"),
		up:       desc("surrogate_up", "1 when new sessions may go to the surrogate, draining aside.", "pool", "surrogate"),
		draining: desc("surrogate_draining", "1 when the operator takes the surrogate out.", "pool", "surrogate"),
	}
}

func (c *stateCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.legCount
	out <- c.up
	out <- c.draining
}

func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	if c.legs != nil {
		for _, l := range c.legs() {
			gauge(c.legCount, l.Idle, l.Pool, l.Surrogate, "idle")
			gauge(c.legCount, l.Spliced, l.Pool, l.Surrogate, "spliced")
			gauge(c.legCount, l.Opening, l.Pool, l.Surrogate, "opening")
		}
	}
	if c.surrogates != nil {
		for _, s := range c.surrogates() {
			gauge(c.up, bit(s.State.Up), s.Pool, s.Surrogate)
			gauge(c.draining, bit(s.State.Draining), s.Pool, s.Surrogate)
		}
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
