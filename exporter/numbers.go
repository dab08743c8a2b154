// Package exporter serves the status of a process to Prometheus, as numbers that are read at each scrape, and /healthz.
package exporter

import "time"

// Number is the value of a series at a scrape.
type Number struct {
	Name   string // without the namespace
	Help   string
	Labels map[string]string
	Value  float64
	Gauge  bool // the value may decrease
}

// Numbers collects series. Labels are alternating names and values.
type Numbers []Number

// Counter adds a number that never decreases.
func (n *Numbers) Counter(name, help string, value uint64, labels ...string) {
	n.add(false, name, help, float64(value), labels)
}

// Gauge adds a number that may decrease.
func (n *Numbers) Gauge(name, help string, value float64, labels ...string) {
	n.add(true, name, help, value, labels)
}

// GaugeInt adds a whole number that may decrease.
func (n *Numbers) GaugeInt(name, help string, value int, labels ...string) {
	n.Gauge(name, help, float64(value), labels...)
}

// Yes adds 1 for true and 0 for false.
func (n *Numbers) Yes(name, help string, is bool, labels ...string) {
	value := 0.0
	if is {
		value = 1
	}
	n.Gauge(name, help, value, labels...)
}

// Seconds adds a duration in seconds that may decrease.
func (n *Numbers) Seconds(name, help string, d time.Duration, labels ...string) {
	n.Gauge(name, help, d.Seconds(), labels...)
}

func (n *Numbers) add(gauge bool, name, help string, value float64, labels []string) {
	x := Number{Name: name, Help: help, Value: value, Gauge: gauge}
	for i := 0; i < len(labels); i += 2 {
		if x.Labels == nil {
			x.Labels = make(map[string]string)
		}
		x.Labels[labels[i]] = labels[i+1]
	}
	*n = append(*n, x)
}
