package config

import (
	"fmt"
	"net/url"
	"regexp"
	"time"

	"baton/document"
)

// Defaults of checks and measurements.
const (
	defaultInterval     = time.Second
	defaultTimeout      = 500 * time.Millisecond
	defaultRise         = 3
	defaultFall         = 3
	defaultLoadInterval = 5 * time.Second
	defaultLoadTimeout  = 2 * time.Second
)

func (d *decoder) check(path string, n *node) Check {
	c := Check{Interval: defaultInterval, Timeout: defaultTimeout, Rise: defaultRise, Fall: defaultFall}
	d.Fields(path, n, []key{
		{Name: "name", Help: "in the status and in metrics", Decode: func(path string, n *node) { c.Name = d.Label(path, n) }},
		{Name: "http", Help: "URL; 200 to 399 passes", Decode: func(path string, n *node) { c.HTTP = d.URL(path, n, "http", "https") }},
		{Name: "host", Help: "Host field of the request (default: of the URL)", Decode: func(path string, n *node) { c.Host = d.Text(path, n) }},
		{Name: "tcp", Help: "host:port that must accept a connection", Decode: func(path string, n *node) { c.TCP = d.hostPort(path, n) }},
		{Name: "command", Help: "program and arguments; exit status 0 passes", Decode: func(path string, n *node) { c.Command = d.command(path, n) }},
		{Name: "interval", Default: "1s", Help: "between two checks", Decode: func(path string, n *node) { c.Interval = d.Between(path, n, 10*time.Millisecond, time.Hour) }},
		{Name: "timeout", Default: "500ms", Help: "until a check counts as failed",
			Decode: func(path string, n *node) { c.Timeout = d.Between(path, n, 10*time.Millisecond, time.Hour) }},
		{Name: "rise", Default: "3", Help: "good results in a row until it passes", Decode: func(path string, n *node) { c.Rise = d.Integer(path, n, 1, 100) }},
		{Name: "fall", Default: "3", Help: "bad results in a row until it fails", Decode: func(path string, n *node) { c.Fall = d.Integer(path, n, 1, 100) }},
	})
	d.Require(path, n, "name")
	d.oneOf(path, n, "http", "tcp", "command")
	if d.Given(document.Join(path, "host")) && c.HTTP == nil {
		d.Refuse(document.Join(path, "host"), "is for http", "without it")
	}
	return c
}

// oneOf refuses none and more than one of some keys.
func (d *decoder) oneOf(path string, n *node, names ...string) {
	found := ""
	for _, name := range names {
		at := document.Join(path, name)
		if !d.Given(at) {
			continue
		}
		if found != "" {
			d.Refuse(at, "cannot be with "+found, "one of them")
		}
		found = name
	}
	if found == "" {
		d.Wrong(n, path, fmt.Sprintf("has none of %q", names), "one of them")
	}
}

// metricForm is that of Prometheus.
var metricForm = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)

func (d *decoder) load(path string, n *node) Measure {
	l := Measure{Interval: defaultLoadInterval, Timeout: defaultLoadTimeout}
	var capacity *node
	d.Fields(path, n, []key{
		{Name: "name", Help: "in the status and in metrics", Decode: func(path string, n *node) { l.Name = d.Label(path, n) }},
		{Name: "prometheus", Help: "URL of a Prometheus endpoint", Decode: func(path string, n *node) { l.Metrics = d.URL(path, n, "http", "https") }},
		{Name: "metric", Help: "series to add up", Decode: func(path string, n *node) {
			l.Metric = d.Text(path, n)
			if d.Err() == nil && !metricForm.MatchString(l.Metric) {
				d.WrongText(n, path, l.Metric, "is not the name of a metric", "such as nginx_connections_active")
			}
		}},
		{Name: "labels", Help: "that the series must have", Decode: func(path string, n *node) {
			l.Labels = make(map[string]string)
			d.AtMost(path, n, 32)
			d.Entries(path, n, func(path, name string, n *node) { l.Labels[name] = d.Text(path, n) })
		}},
		{Name: "command", Help: "program and arguments, which prints one number", Decode: func(path string, n *node) { l.Command = d.command(path, n) }},
		{Name: "interface", Help: "bytes per second that it sends", Decode: func(path string, n *node) { l.Device = d.Device(path, n) }},
		{Name: "rate", Default: "false", Help: "the value is a counter: use its growth per second", Decode: func(path string, n *node) { l.Rate = d.Boolean(path, n) }},
		{Name: "capacity", Help: "in the measurement's unit; for an interface a rate, 10gbit", Decode: func(_ string, n *node) { capacity = n }},
		{Name: "interval", Default: "5s", Help: "between two measurements",
			Decode: func(path string, n *node) { l.Interval = d.Between(path, n, 100*time.Millisecond, time.Hour) }},
		{Name: "timeout", Default: "2s", Help: "until a measurement counts as failed",
			Decode: func(path string, n *node) { l.Timeout = d.Between(path, n, 10*time.Millisecond, time.Hour) }},
	})
	d.Require(path, n, "name", "capacity")
	d.oneOf(path, n, "prometheus", "command", "interface")
	if d.Err() != nil {
		return l
	}
	if at := document.Join(path, "capacity"); l.Device != "" {
		l.Capacity = d.rate(at, capacity)
	} else {
		l.Capacity = d.number(at, capacity, 1e-9, 1e18)
	}
	if l.Metrics != nil {
		d.Require(path, n, "metric")
	}
	for _, name := range []string{"metric", "labels"} {
		if at := document.Join(path, name); l.Metrics == nil && d.Given(at) {
			d.Refuse(at, "is for prometheus", "without it")
		}
	}
	if l.Device != "" && d.Given(document.Join(path, "rate")) {
		d.Refuse(document.Join(path, "rate"), "is not for an interface, whose bytes are counted always", "without it")
	}
	return l
}

func host(u *url.URL) string { return u.Host }
