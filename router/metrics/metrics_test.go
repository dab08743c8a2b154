package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"baton/router/fallback"
	"baton/router/health"
)

var vip = netip.MustParseAddrPort("10.9.9.9:80")

// exercised has at least one series in each family.
func exercised() *Metrics {
	m := New(Options{
		Version: "v1",
		Kernel: func() []Counter {
			return []Counter{
				{Name: "dropped_packets", Help: "Packets dropped, by reason.", Labels: map[string]string{"reason": "bad_checksum", "vip": "a"}, Value: 3},
				{Name: "dropped_packets", Help: "Packets dropped, by reason.", Labels: map[string]string{"vip": "a", "reason": "no_flow"}, Value: 1 << 40},
				{Name: "spliced_bytes_total", Help: "Octets through splices.", Value: 7},
				{Name: "splices", Help: "Splices held.", Value: 5, Gauge: true},
			}
		},
		Legs: func() []Legs { return []Legs{{"video", "s1", 16, 3, 1}} },
		Surrogates: func() []SurrogateState {
			return []SurrogateState{{"video", "s1", health.State{Up: true}}, {"video", "s2", health.State{Draining: true}}}
		},
		Ready: func() Readiness { return Readiness{} },
	})
	m.Decided(vip, OutcomeHandoff, 30*time.Microsecond)
	m.HandedOff(vip, "s1")
	m.LegEvent("s1", "opened")
	m.SurrogateChanged(health.Transition{Surrogate: "s1", From: health.State{Phase: health.Checking}, To: health.State{Phase: health.Up}})
	m.SurrogateChanged(health.Transition{Surrogate: "s1", From: health.State{Phase: health.Up}, To: health.State{Phase: health.Up, Draining: true}})
	m.Checked("s1", time.Millisecond, nil)
	m.Checked("s1", time.Second, errors.New("status 500"))
	m.Reloaded(time.Unix(1700000000, 0), nil)
	m.Reloaded(time.Unix(1800000000, 0), errors.New("line 3"))
	h := m.Fallback(vip)
	h.Connection(1)
	h.Connection(1)
	h.Connection(-1)
	h.Request(fallback.Exchange{Surrogate: "s1", Status: 206, Sent: 1000, Retries: 2, Duration: time.Millisecond})
	h.Request(fallback.Exchange{})
	h.Failure("s1", fallback.FailureRefused)
	h.Refused(400, "repeated Host")
	return m
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("GET /metrics = %d %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

func TestSeries(t *testing.T) {
	got := strings.Split(scrape(t, exercised()), "\n")
	for _, want := range []string{
		`baton_router_build_info{version="v1"} 1`,
		`baton_router_dropped_packets_total{reason="bad_checksum",vip="a"} 3`,
		`baton_router_dropped_packets_total{reason="no_flow",vip="a"} 1.099511627776e+12`,
		`baton_router_spliced_bytes_total 7`,
		`# TYPE baton_router_splices gauge`,
		`baton_router_splices 5`,
		`baton_router_legs{pool="video",state="idle",surrogate="s1"} 16`,
		`baton_router_legs{pool="video",state="spliced",surrogate="s1"} 3`,
		`baton_router_legs{pool="video",state="opening",surrogate="s1"} 1`,
		`baton_router_surrogate_up{pool="video",surrogate="s1"} 1`,
		`baton_router_surrogate_up{pool="video",surrogate="s2"} 0`,
		`baton_router_surrogate_draining{pool="video",surrogate="s2"} 1`,
		`baton_router_decision_duration_seconds_bucket{outcome="handoff",vip="10.9.9.9:80",le="2e-05"} 0`,
		`baton_router_decision_duration_seconds_bucket{outcome="handoff",vip="10.9.9.9:80",le="5e-05"} 1`,
		`baton_router_handoffs_total{surrogate="s1",vip="10.9.9.9:80"} 1`,
		`baton_router_leg_events_total{event="opened",surrogate="s1"} 1`,
		`baton_router_surrogate_transitions_total{phase="up",surrogate="s1"} 1`,
		`baton_router_health_check_duration_seconds_count{surrogate="s1"} 2`,
		`baton_router_health_check_failures_total{surrogate="s1"} 1`,
		`baton_router_config_reloads_total{result="ok"} 1`,
		`baton_router_config_reloads_total{result="failed"} 1`,
		`baton_router_config_loaded_timestamp_seconds 1.7e+09`,
		`baton_router_fallback_connections{vip="10.9.9.9:80"} 1`,
		`baton_router_fallback_requests_total{code="2xx",vip="10.9.9.9:80"} 1`,
		`baton_router_fallback_requests_total{code="0xx",vip="10.9.9.9:80"} 1`,
		`baton_router_fallback_sent_bytes_total{vip="10.9.9.9:80"} 1000`,
		`baton_router_fallback_retries_total{vip="10.9.9.9:80"} 2`,
		`baton_router_fallback_surrogate_failures_total{kind="refused",surrogate="s1"} 1`,
		`baton_router_fallback_refused_total{code="400",vip="10.9.9.9:80"} 1`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no line %s", want)
		}
	}
}

func TestNamesAreClean(t *testing.T) {
	text := scrape(t, exercised())
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, namespace) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok &&
			!strings.HasPrefix(name, namespace+"_") && !strings.HasPrefix(name, "go_") &&
			!strings.HasPrefix(name, "process_") && !strings.HasPrefix(name, "promhttp_") {
			t.Errorf("name without the prefix: %s", name)
		}
	}
}

// TestBadCounterKeepsTheRest: one name that Prometheus does not take must not blind the operator.
func TestBadCounterKeepsTheRest(t *testing.T) {
	m := New(Options{Kernel: func() []Counter {
		return []Counter{
			{Name: "good", Help: "Good."}, {Name: "twice", Help: "Twice.", Value: 1}, {Name: "twice", Help: "Twice.", Value: 2},
			{Name: "label", Help: "Label.", Labels: map[string]string{"not a label\xff": "x"}},
		}
	}})
	text := scrape(t, m)
	for _, want := range []string{"baton_router_good_total 0\n", "baton_router_twice_total 1\n", "go_goroutines "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the scrape", want)
		}
	}
	if strings.Contains(text, "baton_router_label") {
		t.Error("a counter with an impossible label is shown")
	}
}

func TestForget(t *testing.T) {
	m := exercised()
	m.Forget("s1")
	for line := range strings.Lines(scrape(t, m)) {
		if strings.Contains(line, `surrogate="s1"`) && !strings.Contains(line, "_up{") && !strings.Contains(line, "_draining{") && !strings.Contains(line, "_legs{") {
			t.Errorf("still there: %s", line)
		}
	}
}

func TestHealthz(t *testing.T) {
	up, down := PoolReadiness{"default", 2, 2}, PoolReadiness{"video", 0, 3}
	tests := []struct {
		name    string
		ready   func() Readiness
		status  int
		reasons []string
	}{
		{"ready", func() Readiness { return Readiness{Attached: true, Pools: []PoolReadiness{up}} }, 200, nil},
		{"nobody says", nil, 503, []string{"the data path is not attached"}},
		{"not attached", func() Readiness {
			return Readiness{Reasons: []string{"eth0: no such device"}, Pools: []PoolReadiness{up}}
		}, 503,
			[]string{"eth0: no such device", "the data path is not attached"}},
		{"a pool is down", func() Readiness { return Readiness{Attached: true, Pools: []PoolReadiness{up, down}} }, 503,
			[]string{"no surrogate of pool video is up (of 3)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			New(Options{Ready: tt.ready}).Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/healthz", nil))
			var got struct {
				Ready   bool
				Reasons []string
				Pools   []PoolReadiness
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
				t.Fatalf("%v in %s", err, rec.Body)
			}
			if rec.Code != tt.status || got.Ready != (tt.status == 200) || !slices.Equal(got.Reasons, tt.reasons) {
				t.Errorf("GET /healthz = %d %+v, want %d %q", rec.Code, got, tt.status, tt.reasons)
			}
			if strings.Contains(rec.Body.String(), "null") {
				t.Errorf("null in %s, want empty lists", rec.Body)
			}
		})
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- exercised().Serve(ctx, l) }()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr, Timeout: 10 * time.Second}
	for path, want := range map[string]int{"/metrics": 200, "/healthz": 503, "/": 404} {
		res, err := client.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", path, res.StatusCode, want)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	if c, err := net.Dial("tcp4", l.Addr().String()); err == nil {
		c.Close()
		t.Error("the listener is still open")
	}
}
