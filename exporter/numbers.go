// Package exporter serves what a process tells Prometheus, and /healthz: its status in numbers, asked for at each scrape.
package exporter

import "time"

// Number is one series at the time of a scrape.
type Number struct {
	Name   string // without the namespace
	Help   string
	Labels map[string]string
	Value  float64
	Gauge  bool // the value may fall
}

// Numbers are made one after the other. Labels are names and values in turn.
type Numbers []Number

// Counter adds a number that never falls.
func (n *Numbers) Counter(name, help string, value uint64, labels ...string) {
	n.add(false, name, help, float64(value), labels)
}

// Gauge adds a number that may fall.
func (n *Numbers) Gauge(name, help string, value float64, labels ...string) {
	n.add(true, name, help, value, labels)
}

// GaugeInt adds a whole number that may fall.
func (n *Numbers) GaugeInt(name, help string, value int, labels ...string) {
	n.Gauge(name, help, float64(value), labels...)
}

// Yes adds 1 for true, and 0.
func (n *Numbers) Yes(name, help string, is bool, labels ...string) {
	value := 0.0
	if is {
		value = 1
	}
	n.Gauge(name, help, value, labels...)
}

// Seconds adds a duration that may fall, in seconds.
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
