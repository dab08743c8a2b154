package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"baton/packaging/reference/series"
)

func metricsPage() (string, error) {
	var b strings.Builder
	b.WriteString("# Metrics\n\nAll metrics of the parts, as `/metrics` has them. [Observability](../observability.md) has dashboards and alerts. The values of the label " +
		"`verdict` are in [Verdicts](verdicts.md).\n")
	exporters := series.Exporters()
	for _, part := range slices.Sorted(maps.Keys(exporters)) {
		all, err := families(exporters[part])
		if err != nil {
			return "", fmt.Errorf("%s: %w", part, err)
		}
		fmt.Fprintf(&b, "\n## %s\n\n| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n", strings.ToUpper(part[:1])+part[1:])
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !strings.HasPrefix(name, "baton_") {
				continue // of the process and of Go, as in all programs
			}
			f := all[name]
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", code(name), strings.ToLower(f.GetType().String()), labels(f), cell(f.GetHelp()))
		}
	}
	return b.String(), nil
}

// families are the metrics that a part answers to a scrape.
func families(h http.Handler) (map[string]*dto.MetricFamily, error) {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		return nil, fmt.Errorf("GET /metrics: %d %s", rec.Code, rec.Body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(rec.Body)
}

func labels(f *dto.MetricFamily) string {
	names := make(map[string]bool)
	for _, m := range f.Metric {
		for _, l := range m.Label {
			names[code(l.GetName())] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}
