package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"baton/anycast/config"
	"baton/document"
)

// maxMetrics limits the size of a Prometheus response, in bytes.
const maxMetrics = 16 << 20

// newMeasure returns a function that takes one measurement.
func newMeasure(m *config.Measure) func(ctx context.Context) (float64, error) {
	switch {
	case m.Metrics != nil:
		return measureMetrics(m)
	case m.Device != "":
		return func(context.Context) (float64, error) { return sent(m.Device) }
	}
	return func(ctx context.Context) (float64, error) {
		out, err := run(ctx, m.Command)
		if err != nil {
			return 0, err
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
		if err != nil {
			return 0, fmt.Errorf("it printed %.60q, which is no number", out)
		}
		return v, nil
	}
}

func measureMetrics(m *config.Measure) func(ctx context.Context) (float64, error) {
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context) (float64, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Metrics.String(), nil)
		if err != nil {
			return 0, err
		}
		request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
		response, err := client.Do(request)
		if err != nil {
			return 0, late(ctx, err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("status %d", response.StatusCode)
		}
		v, err := sum(io.LimitReader(response.Body, maxMetrics), m.Metric, m.Labels)
		return v, late(ctx, err)
	}
}

// sum adds up the series of a metric that have the given labels.
func sum(exposition io.Reader, metric string, labels map[string]string) (float64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(exposition)
	if err != nil {
		return 0, fmt.Errorf("read the metrics: %w", err)
	}
	family := families[metric]
	if family == nil {
		if meant := document.Nearest(metric, slices.Collect(maps.Keys(families))); meant != "" {
			return 0, fmt.Errorf("there is no metric %s: did you mean %s?", metric, meant)
		}
		return 0, fmt.Errorf("there is no metric %s", metric)
	}
	total, found := 0.0, false
	for _, series := range family.GetMetric() {
		if !has(series, labels) {
			continue
		}
		v, err := value(series)
		if err != nil {
			return 0, fmt.Errorf("metric %s %w", metric, err)
		}
		total, found = total+v, true
	}
	if !found {
		return 0, fmt.Errorf("no series of %s has the labels", metric)
	}
	return total, nil
}

func has(series *dto.Metric, labels map[string]string) bool {
	missing := maps.Clone(labels)
	for _, l := range series.GetLabel() {
		if want, required := missing[l.GetName()]; required && want == l.GetValue() {
			delete(missing, l.GetName())
		}
	}
	return len(missing) == 0
}

func value(series *dto.Metric) (float64, error) {
	switch {
	case series.Gauge != nil:
		return series.Gauge.GetValue(), nil
	case series.Counter != nil:
		return series.Counter.GetValue(), nil
	case series.Untyped != nil:
		return series.Untyped.GetValue(), nil
	}
	return 0, errors.New("is a histogram or a summary")
}

// sent returns the bytes that an interface has sent.
func sent(device string) (float64, error) {
	text, err := os.ReadFile(filepath.Join("/sys/class/net", device, "statistics/tx_bytes"))
	if err != nil {
		return 0, fmt.Errorf("read what %s has sent: %w", device, err)
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read what %s has sent: %w", device, err)
	}
	return float64(v), nil
}
