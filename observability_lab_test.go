package baton_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/experiments/experimentstest"
	"baton/lab"
)

const routerConfig = `
control: %[1]s/router.sock
metrics: 127.0.0.1:9464
state: %[2]s/baton
vips:
  - address: "10.9.9.9:80"
    interfaces: [%[3]s]
    routes: [{pool: web}]
pools:
  web:
    surrogates: [{name: s1, address: "10.2.0.2:80"}]
`

// TestPrometheusOfARouter has a Prometheus scrape a router that hands requests off: what promtool says of the answer, what the rules record, and
// the alert when the surrogate is gone.
func TestPrometheusOfARouter(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Program(t)
	l := lab.New(t)
	l.Need("prometheus", "promtool")
	client, router, web := l.Host("client"), l.Host("router"), l.Host("web")
	in := l.Link(lab.End{Host: client, Addrs: []string{"10.1.0.2/24"}}, lab.End{Host: router, Addrs: []string{"10.1.0.1/24"}}, lab.LinkOptions{})
	l.Link(lab.End{Host: web, Addrs: []string{"10.2.0.2/24"}}, lab.End{Host: router, Addrs: []string{"10.2.0.1/24"}}, lab.LinkOptions{})
	client.Route("10.9.9.0/24", "10.1.0.1")
	router.Forward()
	server := serveLab(t, web)

	file := filepath.Join(l.Dir(), "router.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, routerConfig, l.Dir(), l.BPFFS(), in.B.Name), 0o644); err != nil {
		t.Fatal(err)
	}
	daemon, err := router.Start(lab.Program{Path: program, Args: []string{"router", "run", "-c", file}, Name: "baton-router"})
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:9090"
	_, err = router.Start(lab.Program{Path: "prometheus", Args: []string{
		"--config.file=" + prometheusFile(t, map[string]string{"router": "127.0.0.1:9464"}), "--storage.tsdb.path=" + filepath.Join(t.TempDir(), "data"),
		"--web.listen-address=" + address, "--log.level=warn",
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := observer{"http://" + address, router.HTTPClient(10 * time.Second)}
	await := func(expr string) {
		t.Helper()
		lab.Eventually(t, time.Minute, func() error {
			n, err := p.ask(t.Context(), expr)
			if err != nil || n == 0 {
				return fmt.Errorf("%s: %d series, %w\n%s", expr, n, err, daemon.Log())
			}
			return nil
		})
	}
	await(`up{job="baton-router"} == 1 and on () baton_router_surrogate_up{surrogate="s1"} == 1`)
	requests := client.HTTPClient(10 * time.Second)
	for range 8 {
		res, err := requests.Get("http://10.9.9.9/")
		if err != nil {
			t.Fatalf("%v\n%s", err, daemon.Log())
		}
		res.Body.Close()
		requests.CloseIdleConnections()
		time.Sleep(300 * time.Millisecond)
	}
	await(`sum(baton_router_kernel_handoffs_total{surrogate="s1"}) >= 8`)
	await(`instance:baton_router_handoffs:rate5m > 0`)
	for _, q := range dashboards(t) {
		if strings.HasPrefix(q.where, "baton-router.json") {
			if _, err := p.ask(t.Context(), variables.Replace(q.expr)); err != nil {
				t.Errorf("%s: %v", q.where, err)
			}
		}
	}
	text, err := router.Exec(t.Context(), "curl", "-sf", "http://127.0.0.1:9464/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, text, "check", "metrics"); err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	server.Close()
	await(`ALERTS{alertname="BatonRouterPoolDown",pool="web"}`)
}

// serveLab serves a page at a host.
func serveLab(t *testing.T, h *lab.Host) *http.Server {
	t.Helper()
	l, err := h.Listen("tcp", "10.2.0.2:80")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return s
}
