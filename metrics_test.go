package baton_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	anycast "baton/anycast/metrics"
	"baton/api"
	balance "baton/balance/metrics"
	controller "baton/controller/metrics"
	"baton/controller/northbound"
	"baton/exporter"
	"baton/forwarder"
	nameserver "baton/nameserver/metrics"
	purge "baton/purge/metrics"
	relay "baton/relay/metrics"
	"baton/router/fallback"
	"baton/router/health"
	router "baton/router/metrics"
	"baton/router/passthrough"
)

// exporters are the metrics of each part, of a status in which everything has a value: there is a series of each name.
func exporters() map[string]http.Handler {
	return map[string]http.Handler{
		"router": routerHandler(), "relay": relay.Handler("v1", filled[api.RelayStatus]), "anycast": anycast.Handler("v1", filled[api.AnycastStatus]),
		"balance": balance.Handler("v1", filled[api.BalanceStatus]), "purge": purge.Handler("v1", filled[api.PurgeStatus]),
		"forwarder": exporter.Process[api.ForwarderStatus]{
			Namespace: "baton_forwarder", Version: "v1", Status: filled[api.ForwarderStatus], Series: forwarder.Series,
			Unready: func(*api.ForwarderStatus) []string { return nil },
		}.Handler(),
		"nameserver": nameserver.Handler("v1", filled[api.NameserverStatus]),
		"controller": controllerHandler(),
	}
}

// routerHandler has the router's events too, which are not in its status.
func routerHandler() http.Handler {
	m, vip := router.New(), netip.MustParseAddrPort("10.9.9.9:80")
	m.Decided(vip, router.OutcomeHandoff, time.Millisecond)
	m.HandedOff(vip, "text")
	m.LegEvent("text", "opened")
	m.SurrogateChanged(health.Transition{Surrogate: "text", From: health.State{Phase: health.Checking}, To: health.State{Phase: health.Up}})
	m.Checked("text", time.Millisecond, errors.New("refused"))
	hooks := m.Fallback(vip)
	hooks.Connection(1)
	hooks.Request(fallback.Exchange{Status: 200, Duration: time.Millisecond})
	hooks.Failure("text", fallback.FailureRefused)
	hooks.Refused(400, "")
	hooks.Handshake("no-name")
	m.Passthrough(vip).Session(passthrough.Session{})
	return m.Handler("v1", filled[api.RouterStatus])
}

// controllerHandler has calls of the northbound too.
func controllerHandler() http.Handler {
	north := northbound.New(northbound.Config{Access: northbound.Access{Tokens: []northbound.Token{northbound.NewToken(northbound.Viewer, "secret", "anna")}}})
	for _, host := range []string{"127.0.0.1", "elsewhere.example.net"} { // a call above the caller's role, and one by a name that is not the server's
		r := httptest.NewRequest("PATCH", "/v1/surrogates/se1", strings.NewReader("{}"))
		r.Host = host
		r.Header.Set("Authorization", "Bearer secret")
		north.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	return exporter.Process[api.ControllerStatus]{
		Namespace: "baton_controller", Version: "v1", Status: filled[api.ControllerStatus], Unready: controller.Unready,
		Series: func(s *api.ControllerStatus) []exporter.Number {
			n := exporter.Numbers(controller.Series(s))
			north.Series(&n)
			return n
		},
	}.Handler()
}

// filled returns a status in which each value is set.
func filled[Status any]() (s Status, err error) {
	fill(reflect.ValueOf(&s).Elem(), 0)
	return s, nil
}

// fill sets a value and all below it: lists and maps get one entry.
func fill(v reflect.Value, depth int) {
	switch x := v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(x.AddDate(2020, 0, 0)))
		return
	case netip.AddrPort:
		v.Set(reflect.ValueOf(netip.MustParseAddrPort("192.0.2.7:80")))
		return
	case netip.Addr:
		v.Set(reflect.ValueOf(netip.MustParseAddr("192.0.2.7")))
		return
	}
	if depth > 8 { // a type that contains itself
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth+1)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	default:
		if v.CanInt() {
			v.SetInt(1)
		} else if v.CanUint() {
			v.SetUint(1)
		}
	}
}

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
	for part, h := range exporters() {
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
	for part, h := range exporters() {
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

// guides have the tables of the metrics of a part.
var guides = map[string][]string{"controller": {"docs/controller.md", "docs/northbound.md"}}

// TestMetricsAreDocumented: each name is in its part's guide, without the prefix, as code.
func TestMetricsAreDocumented(t *testing.T) {
	for part, h := range exporters() {
		files := guides[part]
		if files == nil {
			files = []string{"docs/" + part + ".md"}
		}
		var text bytes.Buffer
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(data)
		}
		for _, name := range slices.Sorted(maps.Keys(families(t, exposition(t, h)))) {
			short, ours := strings.CutPrefix(name, "baton_"+part+"_")
			if !ours || short == "build_info" {
				continue
			}
			if !slices.ContainsFunc([]string{"`", "{"}, func(end string) bool {
				return strings.Contains(text.String(), "`"+short+end) || strings.Contains(text.String(), "`"+name+end)
			}) {
				t.Errorf("%s: `%s` is not in it: %s", strings.Join(files, ", "), short, fmt.Sprintf("%.80s", families(t, exposition(t, h))[name].GetHelp()))
			}
		}
	}
}
