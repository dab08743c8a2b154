// Package metrics exports the router's status and events to Prometheus, and serves /healthz. Names begin with baton_router_;
// their words are defined in docs/architecture.md.
package metrics

import (
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/api"
	"baton/exporter"
	"baton/policy"
	"baton/router/fallback"
	"baton/router/health"
	"baton/router/outcome"
	"baton/router/passthrough"
)

const namespace = "baton_router"

// DecisionBuckets suit the time from a request's first byte in user space to its replay, in seconds: a decision takes
// microseconds, opening a leg one RTT, a request in several segments more.
var DecisionBuckets = []float64{
	5e-6, 10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 200e-3, 500e-3, 1, 2, 5,
}

// requestBuckets suit whole proxied requests, in seconds.
var requestBuckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}

// Metrics counts events, which are not in the status. Its methods may be called from any goroutine.
type Metrics struct {
	decisions   *prometheus.HistogramVec
	handoffs    *prometheus.CounterVec
	legEvents   *prometheus.CounterVec
	transitions *prometheus.CounterVec
	checks      *prometheus.HistogramVec
	checkFails  *prometheus.CounterVec

	requests    *prometheus.CounterVec
	durations   *prometheus.HistogramVec
	sent        *prometheus.CounterVec
	retries     *prometheus.CounterVec
	failures    *prometheus.CounterVec
	refused     *prometheus.CounterVec
	connections *prometheus.GaugeVec
	hellos      *prometheus.CounterVec
	sessions    *prometheus.CounterVec
	passed      *prometheus.CounterVec
	policy      *prometheus.CounterVec
}

// New makes a Metrics.
func New() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	return &Metrics{
		decisions:   histogram("decision_duration_seconds", "Time in user space from the first byte of a request or a hello to its decision: "+outcome.List()+".", DecisionBuckets, "vip", "outcome"),
		handoffs:    counter("handoffs_total", "Handoffs that user space made, by surrogate.", "vip", "surrogate"),
		legEvents:   counter("leg_events_total", "Events of server legs: opened, refused, closed by the surrogate, renewed.", "surrogate", "event"),
		transitions: counter("surrogate_transitions_total", "Changes of a surrogate's phase.", "surrogate", "phase"),
		checks:      histogram("health_check_duration_seconds", "Time of active health checks.", prometheus.DefBuckets, "surrogate"),
		checkFails:  counter("health_check_failures_total", "Active health checks that failed.", "surrogate"),
		requests:    counter("fallback_requests_total", "Requests that user space answered, proxied or redirected, by status class; 0xx: the client had gone.", "vip", "code"),
		durations:   histogram("fallback_request_duration_seconds", "Time of requests that user space answered, proxied or redirected.", requestBuckets, "vip"),
		sent:        counter("fallback_sent_bytes_total", "Octets of response bodies sent by user space.", "vip"),
		retries:     counter("fallback_retries_total", "Requests moved on to another surrogate after a failure.", "vip"),
		failures:    counter("fallback_surrogate_failures_total", "Surrogates that did not answer a proxied request, by kind.", "surrogate", "kind"),
		refused:     counter("fallback_refused_total", "Requests refused for their form or by a verdict, by status.", "vip", "code"),
		connections: gauge("fallback_connections", "Client connections that user space holds.", "vip"),
		hellos:      counter("hellos_refused_total", "TLS sessions refused, by reason.", "vip", "reason"),
		sessions:    counter("passthrough_sessions_total", "TLS sessions passed on by sockets, when over, by result.", "vip", "result"),
		policy:      counter("policy_decisions_total", "Choices of user space by policies of files, by how the client's site was found and what became of it.", "pool", "method", "result"),
		passed:      counter("passthrough_bytes_total", "Bytes of TLS sessions passed on by sockets, by direction.", "vip", "direction"),
	}
}

// Decided counts a decision of user space.
func (m *Metrics) Decided(vip netip.AddrPort, what outcome.Outcome, took time.Duration) {
	m.decisions.WithLabelValues(vip.String(), string(what)).Observe(took.Seconds())
}

// PolicyDecided counts a choice by a policy of a file.
func (m *Metrics) PolicyDecided(pool string, d *policy.Decision) {
	method, result := string(d.Method), "served"
	if method == "" {
		method = "none"
	}
	switch {
	case len(d.Choices) > 0 && d.Spills > 0:
		result = "spilled"
	case len(d.Choices) > 0:
	case d.Bypass != "":
		result = "bypassed"
	default:
		result = "refused"
	}
	m.policy.WithLabelValues(pool, method, result).Inc()
}

// HandedOff counts a handoff by user space.
func (m *Metrics) HandedOff(vip netip.AddrPort, surrogate string) {
	m.handoffs.WithLabelValues(vip.String(), surrogate).Inc()
}

// LegEvent counts an event of a server leg. Events are a small fixed set.
func (m *Metrics) LegEvent(surrogate, event string) {
	m.legEvents.WithLabelValues(surrogate, event).Inc()
}

// SurrogateChanged counts a transition; health.Options.OnChange fits.
func (m *Metrics) SurrogateChanged(t health.Transition) {
	if t.From.Phase != t.To.Phase {
		m.transitions.WithLabelValues(t.Surrogate, string(t.To.Phase)).Inc()
	}
}

// Checked counts an active check; health.Options.OnCheck fits.
func (m *Metrics) Checked(surrogate string, took time.Duration, err error) {
	m.checks.WithLabelValues(surrogate).Observe(took.Seconds())
	fails := m.checkFails.WithLabelValues(surrogate)
	if err != nil {
		fails.Inc()
	}
}

// Fallback returns the hooks of one VIP's server. The caller may wrap Failure.
func (m *Metrics) Fallback(vip netip.AddrPort) fallback.Hooks {
	label := vip.String()
	connections := m.connections.WithLabelValues(label)
	durations := m.durations.WithLabelValues(label)
	sent := m.sent.WithLabelValues(label)
	retries := m.retries.WithLabelValues(label)
	return fallback.Hooks{
		Connection: func(delta int) { connections.Add(float64(delta)) },
		Request: func(x fallback.Exchange) {
			m.requests.WithLabelValues(label, strconv.Itoa(x.Status/100)+"xx").Inc()
			durations.Observe(x.Duration.Seconds())
			sent.Add(float64(x.Sent))
			retries.Add(float64(x.Retries))
		},
		Failure:   func(surrogate string, kind fallback.FailureKind) { m.failures.WithLabelValues(surrogate, kind).Inc() },
		Refused:   func(status int, _ string) { m.refused.WithLabelValues(label, strconv.Itoa(status)).Inc() },
		Handshake: func(reason string) { m.hellos.WithLabelValues(label, reason).Inc() },
	}
}

// Passthrough returns the hooks of one VIP's server for sessions of TLS. The caller adds Failure.
func (m *Metrics) Passthrough(vip netip.AddrPort) passthrough.Hooks {
	label := vip.String()
	connections := m.connections.WithLabelValues(label)
	return passthrough.Hooks{
		Connection: func(delta int) { connections.Add(float64(delta)) },
		Session: func(x passthrough.Session) {
			result := "complete"
			if x.Err != nil {
				result = "broken"
			}
			m.sessions.WithLabelValues(label, result).Inc()
			m.passed.WithLabelValues(label, "to_surrogate").Add(float64(x.Received))
			m.passed.WithLabelValues(label, "from_surrogate").Add(float64(x.Sent))
		},
		Refused: func(_ netip.AddrPort, reason string) { m.hellos.WithLabelValues(label, reason).Inc() },
	}
}

// Failed counts a surrogate that did not take a connection.
func (m *Metrics) Failed(surrogate string, kind fallback.FailureKind) {
	m.failures.WithLabelValues(surrogate, kind).Inc()
}

// Forget drops the series of a removed surrogate.
func (m *Metrics) Forget(surrogate string) {
	for _, vec := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.handoffs, m.legEvents, m.transitions, m.checks, m.checkFails, m.failures} {
		vec.DeletePartialMatch(prometheus.Labels{"surrogate": surrogate})
	}
}

// Handler serves /metrics and /healthz. status is called at each request, possibly concurrently.
func (m *Metrics) Handler(version string, status func() (api.RouterStatus, error)) http.Handler {
	return exporter.Process[api.RouterStatus]{
		Namespace: namespace, Version: version, Status: status, Series: Series, Unready: Unready,
		Collectors: []prometheus.Collector{
			m.decisions, m.handoffs, m.legEvents, m.transitions, m.checks, m.checkFails,
			m.requests, m.durations, m.sent, m.retries, m.failures, m.refused, m.connections,
			m.hellos, m.sessions, m.passed, m.policy,
		},
	}.Handler()
}
