package baton_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"baton/packaging/reference/series"
)

// asked is an expression of a dashboard or a rule.
type asked struct{ where, expr string }

// dashboards are the expressions of all dashboards.
func dashboards(t *testing.T) (all []asked) {
	t.Helper()
	files, err := filepath.Glob("packaging/grafana/*.json")
	if err != nil || len(files) != 9 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Title, UID string
			Panels     []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				all = append(all, asked{fmt.Sprintf("%s, %q", filepath.Base(file), p.Title), target.Expr})
			}
		}
	}
	return all
}

// ruleFile is a file of rules.
type ruleFile struct {
	Groups []struct {
		Rules []struct{ Record, Alert, Expr string }
	}
}

func rules(t *testing.T) (all []asked, records, alerts []string) {
	t.Helper()
	for _, file := range []string{"packaging/prometheus/records.yaml", "packaging/prometheus/alerts.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var f ruleFile
		if err := yaml.Unmarshal(text, &f); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, g := range f.Groups {
			for _, r := range g.Rules {
				all = append(all, asked{filepath.Base(file) + ", " + r.Record + r.Alert, r.Expr})
				if r.Record != "" {
					records = append(records, r.Record)
				} else {
					alerts = append(alerts, r.Alert)
				}
			}
		}
	}
	return all, records, alerts
}

// variables are what Grafana puts in for those of the dashboards.
var variables = strings.NewReplacer("$__rate_interval", "10s", "$instance", ".*")

// TestDashboardsAreGenerated: the files are what the generator writes.
func TestDashboardsAreGenerated(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "run", "./packaging/dashboards", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, _ := filepath.Glob(dir + "/*.json")
	if len(files) != 9 {
		t.Errorf("%d files", len(files))
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("packaging/grafana", filepath.Base(file)))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is not up to date: make dashboards", filepath.Base(file))
		}
	}
}

// TestQueriesParse has promtool parse each query of the dashboards, as the expression of a rule.
func TestQueriesParse(t *testing.T) {
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	type group struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	}
	var g []group
	for i, q := range dashboards(t) {
		g = append(g, group{fmt.Sprintf("%d %s", i, q.where), []rule{{fmt.Sprintf("q:%d", i), variables.Replace(q.expr)}}})
	}
	text, err := yaml.Marshal(map[string]any{"groups": g})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, "", "check", "rules", file); err != nil || !strings.Contains(out, fmt.Sprintf("SUCCESS: %d rules found", len(g))) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRules has promtool check the rules and run their tests, of which each alert has one.
func TestRules(t *testing.T) {
	_, _, alerts := rules(t)
	tests, err := os.ReadFile("packaging/prometheus/tests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range alerts {
		if !strings.Contains(string(tests), "\n  - name: "+name+"\n") {
			t.Errorf("%s has no test", name)
		}
	}
	if out, err := promtool(t, "", "check", "rules", "packaging/prometheus/records.yaml", "packaging/prometheus/alerts.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := promtool(t, "", "test", "rules", "packaging/prometheus/tests.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

var (
	metricName = regexp.MustCompile(`\bbaton_[a-z0-9_]+\b`)
	selector   = regexp.MustCompile(`\b(baton_[a-z0-9_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)(=|!=|=~|!~)"`)
	grouping   = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
)

// TestNamesExist: the dashboards and rules ask for metrics and labels that a part exports.
func TestNamesExist(t *testing.T) {
	known := make(map[string]map[string]bool) // labels of metrics
	for _, h := range series.Exporters() {
		for name, f := range families(t, exposition(t, h)) {
			labels := map[string]bool{"job": true, "instance": true, "datapath": true}
			for _, m := range f.Metric {
				for _, l := range m.Label {
					labels[l.GetName()] = true
				}
			}
			for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
				known[name+suffix] = labels
			}
			known[name+"_bucket"]["le"] = true
		}
	}
	all, records, _ := rules(t)
	for _, q := range append(all, dashboards(t)...) {
		expr := q.expr
		for _, r := range records {
			expr = strings.ReplaceAll(expr, r, "")
		}
		expr = regexp.MustCompile(`__name__=~"[^"]*"`).ReplaceAllString(expr, "")
		union := make(map[string]bool)
		names := metricName.FindAllString(expr, -1)
		for _, name := range names {
			if known[name] == nil {
				t.Errorf("%s: there is no metric %s", q.where, name)
			}
			for label := range known[name] {
				union[label] = true
			}
		}
		for _, s := range selector.FindAllStringSubmatch(expr, -1) {
			for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
				if known[s[1]] != nil && !known[s[1]][m[1]] {
					t.Errorf("%s: %s has no label %s", q.where, s[1], m[1])
				}
			}
		}
		for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
			for label := range strings.SplitSeq(g[1], ",") {
				if label = strings.TrimSpace(label); len(names) > 0 && !union[label] {
					t.Errorf("%s: none of its metrics has a label %s", q.where, label)
				}
			}
		}
	}
}

// observer is a Prometheus.
type observer struct {
	url    string
	client *http.Client
}

// ask returns how many series an expression has.
func (s observer) ask(ctx context.Context, expr string) (int, error) {
	var answer struct {
		Status, Error string
		Data          struct{ Result []any }
	}
	if err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &answer); err != nil {
		return 0, err
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("%s: %s", expr, answer.Error)
	}
	return len(answer.Data.Result), nil
}

func (s observer) get(ctx context.Context, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+path, nil)
	if err != nil {
		return err
	}
	res, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// prometheusFile is a configuration of Prometheus: it scrapes the parts each second, and has the rules of packaging.
func prometheusFile(t *testing.T, targets map[string]string) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	text := "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [" + here + "/packaging/prometheus/records.yaml, " + here + "/packaging/prometheus/alerts.yaml]\nscrape_configs:\n"
	for part, address := range targets {
		text += fmt.Sprintf("  - job_name: baton-%s\n    static_configs: [{targets: [%q]}]\n", part, address)
	}
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// prometheus starts one that scrapes the parts each second, with the rules of packaging.
func prometheus(t *testing.T, targets map[string]string) observer {
	t.Helper()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("SKIP: prometheus is missing: packaging/deps.sh installs it")
	}
	file := prometheusFile(t, targets)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	ctx, stop := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, "prometheus", "--config.file="+file, "--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+address, "--log.level=warn")
	var log strings.Builder
	c.Stderr = &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = c.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return observer{"http://" + address, http.DefaultClient}
}

// TestPrometheus has a Prometheus scrape all parts, and asks it what the dashboards ask.
func TestPrometheus(t *testing.T) {
	targets := make(map[string]string)
	for part, h := range series.Exporters() {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		targets[part] = s.Listener.Addr().String()
	}
	p := prometheus(t, targets)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := 0; n < len(targets); {
		var err error
		if n, err = p.ask(ctx, `count_over_time(up[1m]) >= 4 and up == 1`); ctx.Err() != nil {
			t.Fatalf("%d of %d scraped: %v", n, len(targets), err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	for _, q := range dashboards(t) {
		n, err := p.ask(ctx, variables.Replace(q.expr))
		filters := slices.ContainsFunc([]string{"== 0", "> 0", "drop_", "ALERTS"}, func(f string) bool { return strings.Contains(q.expr, f) })
		if err != nil || n == 0 && !filters {
			t.Errorf("%s: %d series, %v: %s", q.where, n, err, q.expr)
		}
	}
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := p.get(ctx, "/api/v1/rules", &answer); err != nil {
		t.Fatal(err)
	}
	healthy := 0
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				t.Errorf("%s: %s %s", r.Name, r.Health, r.LastError)
			}
			healthy++
		}
	}
	if all, _, _ := rules(t); healthy != len(all) {
		t.Errorf("%d rules of %d", healthy, len(all))
	}
}
