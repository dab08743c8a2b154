package baton_test

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"baton/packaging/reference/series"
)

// exposition is what a part answers to a scrape.
func exposition(t *testing.T, h http.Handler) string {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("GET /metrics = %d %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

// families are the metrics of an exposition by name.
func families(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// promtool runs Debian's promtool, or skips the test.
func promtool(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("SKIP: promtool is missing: packaging/deps.sh installs it")
	}
	c := exec.CommandContext(t.Context(), "promtool", args...)
	c.Stdin = strings.NewReader(input)
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestMetricsAreClean has promtool judge what each part answers.
func TestMetricsAreClean(t *testing.T) {
	for part, h := range series.Exporters() {
		text := exposition(t, h)
		if out, err := promtool(t, text, "check", "metrics"); err != nil || strings.TrimSpace(out) != "" {
			t.Errorf("%s: %v\n%s", part, err, out)
		}
		if ours := strings.Count(text, "\n# TYPE baton_"); ours < 10 {
			t.Errorf("%s: only %d metrics", part, ours)
		}
	}
}

// unitEnds are how a name that holds a unit may end. See prometheus.io/docs/practices/naming.
var unitEnds = map[string][]string{
	"byte":      {"_bytes", "_bytes_total", "_bytes_per_second"},
	"seconds":   {"_seconds", "_seconds_total", "_bytes_per_second"},
	"timestamp": {"_timestamp_seconds"},
	"rtt":       {"_seconds"}, "duration": {"_seconds"}, "load": {"_ratio", "_loaded_timestamp_seconds", "_reloads_total", "_overload_bytes_per_second"},
	"loss": {"_ratio"}, "share": {"_ratio"},
}

// TestMetricsHaveUnits: base units, at the end of the name. promtool does not look for all of it.
func TestMetricsHaveUnits(t *testing.T) {
	for part, h := range series.Exporters() {
		for name, f := range families(t, exposition(t, h)) {
			if !strings.HasPrefix(name, "baton_") {
				continue
			}
			if !strings.HasPrefix(name, "baton_"+part+"_") {
				t.Errorf("%s is not of the part %s", name, part)
			}
			if (f.GetType() == dto.MetricType_COUNTER) != strings.HasSuffix(name, "_total") {
				t.Errorf("%s is a %v", name, f.GetType())
			}
			for unit, ends := range unitEnds {
				if strings.Contains(name, unit) && !slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(name, end) }) {
					t.Errorf("%s does not end in %s", name, strings.Join(ends, " or "))
				}
			}
			if !strings.HasSuffix(f.GetHelp(), ".") {
				t.Errorf("%s has the help %q", name, f.GetHelp())
			}
		}
	}
}
