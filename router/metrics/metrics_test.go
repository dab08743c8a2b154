package metrics

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"baton/api"
	"baton/policy"
	"baton/router/fallback"
	"baton/router/health"
	"baton/router/outcome"
)

var vip = netip.MustParseAddrPort("10.9.9.9:80")

// status has at least one series of each name.
func status() api.RouterStatus {
	return api.RouterStatus{
		Process:  api.Process{Loaded: time.Unix(1700000000, 0), Reloads: 1, ReloadsFailed: 2},
		Packets:  map[string]uint64{"forwarded": 1 << 40, "drop_nomem": 0},
		Sessions: 3, Places: 25, Limit: 131072,
		AccessLogs: []api.RouterAccessLog{
			{Output: "stdout", Written: 9, Skipped: 8, Lost: map[string]uint64{"queue": 7, "size": 0}},
			{Output: "otlp http://c:4318/v1/logs", Error: "refused"},
		},
		Pools: []api.RouterPool{{Name: "video", Surrogates: []api.RouterSurrogate{
			{
				Name: "s1", Up: true, IdleLegs: 16, Sessions: 3, OpeningLegs: 1, Handoffs: 4, Recycled: 5, Failed: 6, BytesTo: 7, BytesFrom: 8,
			},
			{Name: "s2", Draining: true, Certificates: []api.RouterCertificate{
				{Server: "a.test", Expires: time.Unix(1800000000, 0), Warnings: []string{"it is for b.test"}}, {Server: "b.test", Warnings: []string{"refused"}},
			}},
		}}},
		VIPs: []api.RouterVIP{{Address: vip, Certificates: []api.RouterCertificate{{File: "/a.pem", Expires: time.Unix(1900000000, 0)}}, LeftOut: 3,
			Controller: &api.RouterController{
				Connected: true, IdleLegs: 8, HandedOver: 11, Proxied: map[string]uint64{"undone": 2},
			},
			Proxied: &api.RouterProxied{Connections: map[string]uint64{"interface": 50, "no leg": 0}, Requests: 51}}},
		Overlaps: []api.RouterOverlap{{VIP: vip, Pool: "video", Other: "shop", Names: []string{"*.test", "a.test"}}},
	}
}

// exercised has at least one series in each family of events.
func exercised() *Metrics {
	m := New()
	m.Decided(vip, outcome.Spliced, 30*time.Microsecond)
	m.HandedOff(vip, "s1")
	for _, d := range []policy.Decision{
		{Method: policy.ByZone, Choices: make([]policy.Choice, 1)}, {Method: policy.ByDefault, Choices: make([]policy.Choice, 1), Spills: 2},
		{Method: policy.ByDefault, Bypass: "origin.test"}, {},
	} {
		m.PolicyDecided("video", &d)
	}
	m.LegEvent("s1", "opened")
	m.SurrogateChanged(health.Transition{Surrogate: "s1", From: health.State{Phase: health.Checking}, To: health.State{Phase: health.Up}})
	m.SurrogateChanged(health.Transition{Surrogate: "s1", From: health.State{Phase: health.Up}, To: health.State{Phase: health.Up, Draining: true}})
	m.Checked("s1", time.Millisecond, nil)
	m.Checked("s1", time.Second, errors.New("status 500"))
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

func get(m *Metrics, path string, s api.RouterStatus) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	m.Handler("v1", func() (api.RouterStatus, error) { return s, nil }).ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
	return rec
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	rec := get(m, "/metrics", status())
	if rec.Code != http.StatusOK {
		t.Fatalf("GET /metrics = %d %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

func TestSeries(t *testing.T) {
	got := strings.Split(scrape(t, exercised()), "\n")
	for _, want := range []string{
		`baton_router_build_info{version="v1"} 1`,
		`baton_router_packets_total{verdict="forwarded"} 1.099511627776e+12`,
		`baton_router_packets_total{verdict="drop_nomem"} 0`,
		`baton_router_sessions 3`,
		`baton_router_proxied_connections_total{reason="interface",vip="10.9.9.9:80"} 50`,
		`baton_router_proxied_connections_total{reason="no leg",vip="10.9.9.9:80"} 0`,
		`baton_router_proxied_requests_total{vip="10.9.9.9:80"} 51`,
		`baton_router_session_places 25`,
		`baton_router_sessions_limit 131072`,
		`baton_router_kernel_handoffs_total{surrogate="s1"} 4`,
		`baton_router_legs_recycled_total{surrogate="s1"} 5`,
		`baton_router_handoffs_failed_total{surrogate="s1"} 6`,
		`baton_router_to_surrogate_bytes_total{surrogate="s1"} 7`,
		`baton_router_from_surrogate_bytes_total{surrogate="s1"} 8`,
		`baton_router_legs{pool="video",state="idle",surrogate="s1"} 16`,
		`baton_router_legs{pool="video",state="spliced",surrogate="s1"} 3`,
		`baton_router_legs{pool="video",state="opening",surrogate="s1"} 1`,
		`baton_router_surrogate_up{pool="video",surrogate="s1"} 1`,
		`baton_router_surrogate_up{pool="video",surrogate="s2"} 0`,
		`baton_router_surrogate_draining{pool="video",surrogate="s2"} 1`,
		`baton_router_own_certificate_expires_timestamp_seconds{file="/a.pem",vip="10.9.9.9:80"} 1.9e+09`,
		`baton_router_controller_up{vip="10.9.9.9:80"} 1`,
		`baton_router_reactive_legs{vip="10.9.9.9:80"} 8`,
		`baton_router_reactive_sessions_total{reason="",result="handed_over",vip="10.9.9.9:80"} 11`,
		`baton_router_reactive_sessions_total{reason="undone",result="proxied",vip="10.9.9.9:80"} 2`,
		`baton_router_certificate_overlaps{other="shop",pool="video",vip="10.9.9.9:80"} 2`,
		`baton_router_certificate_warnings{pool="video",server="a.test",surrogate="s2"} 1`,
		`baton_router_certificate_warnings{pool="video",server="b.test",surrogate="s2"} 1`,
		`baton_router_certificate_expires_timestamp_seconds{pool="video",server="a.test",surrogate="s2"} 1.8e+09`,
		`baton_router_decision_duration_seconds_bucket{outcome="spliced",vip="10.9.9.9:80",le="2e-05"} 0`,
		`baton_router_decision_duration_seconds_bucket{outcome="spliced",vip="10.9.9.9:80",le="5e-05"} 1`,
		`baton_router_handoffs_total{surrogate="s1",vip="10.9.9.9:80"} 1`,
		`baton_router_policy_decisions_total{method="zone",pool="video",result="served"} 1`,
		`baton_router_policy_decisions_total{method="default",pool="video",result="spilled"} 1`,
		`baton_router_policy_decisions_total{method="default",pool="video",result="bypassed"} 1`,
		`baton_router_policy_decisions_total{method="none",pool="video",result="refused"} 1`,
		`baton_router_leg_events_total{event="opened",surrogate="s1"} 1`,
		`baton_router_surrogate_transitions_total{phase="up",surrogate="s1"} 1`,
		`baton_router_health_check_duration_seconds_count{surrogate="s1"} 2`,
		`baton_router_health_check_failures_total{surrogate="s1"} 1`,
		`baton_router_access_log_records_total{output="stdout",result="written"} 9`,
		`baton_router_access_log_records_total{output="stdout",result="skipped"} 8`,
		`baton_router_access_log_records_total{output="stdout",result="lost_queue"} 7`,
		`baton_router_access_log_records_total{output="stdout",result="lost_size"} 0`,
		`baton_router_hosts_left_out 3`,
		`baton_router_access_log_up{output="stdout"} 1`,
		`baton_router_access_log_up{output="otlp http://c:4318/v1/logs"} 0`,
		`baton_router_config_reloads_total{result="ok"} 1`,
		`baton_router_config_reloads_total{result="failed"} 2`,
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

func TestForget(t *testing.T) {
	inStatus := strings.Split(scrape(t, New()), "\n")
	m := exercised()
	m.Forget("s1")
	for line := range strings.Lines(scrape(t, m)) {
		if strings.Contains(line, `surrogate="s1"`) && !slices.Contains(inStatus, strings.TrimSuffix(line, "\n")) {
			t.Errorf("still there: %s", line)
		}
	}
}

func TestHealthz(t *testing.T) {
	up := api.RouterPool{Name: "default", Surrogates: []api.RouterSurrogate{{Up: true}, {}}}
	down := api.RouterPool{Name: "video", Surrogates: []api.RouterSurrogate{{}, {Up: true, Draining: true}, {}}}
	attached := []api.RouterInterface{{Name: "eth0", Attached: true}}
	handoff, proxy := []api.RouterVIP{{Mode: "handoff"}}, []api.RouterVIP{{Mode: "proxy"}}
	tests := []struct {
		name    string
		status  api.RouterStatus
		code    int
		reasons []string
	}{
		{"ready", api.RouterStatus{Interfaces: attached, VIPs: handoff, Pools: []api.RouterPool{up}}, 200, nil},
		{"nothing to attach", api.RouterStatus{VIPs: proxy, Pools: []api.RouterPool{up}}, 200, nil},
		{"not attached", api.RouterStatus{VIPs: handoff, Pools: []api.RouterPool{up}}, 503, []string{"the data path is not attached"}},
		{"a pool is down", api.RouterStatus{Interfaces: attached, Pools: []api.RouterPool{up, down}}, 503,
			[]string{"no surrogate of pool video is up (of 3)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rec := get(New(), "/healthz", tt.status)
			var got struct {
				Ready   bool
				Reasons []string
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
				t.Fatalf("%v in %s", err, rec.Body)
			}
			if rec.Code != tt.code || got.Ready != (tt.code == 200) || !slices.Equal(got.Reasons, tt.reasons) {
				t.Errorf("GET /healthz = %d %+v, want %d %q", rec.Code, got, tt.code, tt.reasons)
			}
		})
	}
}
