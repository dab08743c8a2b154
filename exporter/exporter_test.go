package exporter_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/exporter"
)

type status struct{ sick string }

func process(s status, failure error) exporter.Process[status] {
	return exporter.Process[status]{
		Namespace: "p", Version: "v1", Status: func() (status, error) { return s, failure },
		Series: func(*status) []exporter.Number {
			var n exporter.Numbers
			n.Counter("things_total", "Things.", 3, "of", "a")
			n.Counter("things_total", "Things.", 4, "of", "b")
			n.Counter("broken_total", "A label that Prometheus refuses.", 1, "\xff", "x")
			n.Yes("well", "Whether.", true)
			n.GaugeInt("level", "Where.", -2)
			n.Seconds("wait", "How long.", 1500*time.Millisecond)
			return n
		},
		Unready: func(s *status) []string {
			if s.sick == "" {
				return nil
			}
			return []string{s.sick}
		},
	}
}

func get(p exporter.Process[status], path string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	p.Handler().ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
	return rec
}

// TestMetrics: every number is exported with its kind, and an invalid one does not suppress the others.
func TestMetrics(t *testing.T) {
	text := get(process(status{}, nil), "/metrics").Body.String()
	for _, want := range []string{
		`p_things_total{of="a"} 3`, `p_things_total{of="b"} 4`, "# TYPE p_things_total counter", "p_well 1", "p_level -2", "p_wait 1.5",
		"# TYPE p_wait gauge", `p_build_info{version="v1"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("without %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "broken") {
		t.Error("an invalid label was exported")
	}
	if text := get(process(status{}, errors.New("lost")), "/metrics").Body.String(); !strings.Contains(text, "p_build_info") || strings.Contains(text, "p_things") {
		t.Errorf("without a status:\n%s", text)
	}
}

func TestHealth(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    exporter.Process[status]
		code int
		body string
	}{
		{"well", process(status{}, nil), 200, `{"ready":true,"reasons":[]}`},
		{"sick", process(status{"it coughs"}, nil), 503, `{"ready":false,"reasons":["it coughs"]}`},
		{"unknown", process(status{}, errors.New("lost")), 503, `{"ready":false,"reasons":["lost"]}`},
	} {
		if rec := get(tt.p, "/healthz"); rec.Code != tt.code || strings.TrimSpace(rec.Body.String()) != tt.body {
			t.Errorf("%s: %d %s", tt.name, rec.Code, rec.Body)
		}
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- exporter.Serve(ctx, l, process(status{"it coughs"}, nil).Handler()) }()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
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

// TestCollectors: numbers that are not in the status are exported as well.
func TestCollectors(t *testing.T) {
	p := process(status{}, nil)
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "p", Name: "took_seconds", Help: "How long."})
	took.Observe(1)
	p.Collectors = []prometheus.Collector{took}
	if text := get(p, "/metrics").Body.String(); !strings.Contains(text, "p_took_seconds_count 1\n") {
		t.Errorf("without the histogram:\n%s", text)
	}
}
