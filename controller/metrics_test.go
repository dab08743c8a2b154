package controller

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestMetricsOfTheNorthbound: a scrape and the counters of the control socket have the calls of the northbound.
func TestMetricsOfTheNorthbound(t *testing.T) {
	f := newFixture(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	f.more = ", metrics: " + address
	f.write("")
	f.start()
	get := func(url string) string {
		t.Helper()
		ask := http.Client{Timeout: 5 * time.Second}
		res, err := ask.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("GET %s = %d %s, %v", url, res.StatusCode, body, err)
		}
		return string(body)
	}
	get(fmt.Sprintf("http://127.0.0.1:%d/v1/topology", f.port))
	scraped := get("http://" + address + "/metrics")
	for _, want := range []string{
		`baton_controller_northbound_calls_total{method="topology",result="ok"} 1`,
		"baton_controller_northbound_connections 0",
		"baton_controller_northbound_cut_subscribers_total 0", "baton_controller_northbound_waiting_calls 0",
	} {
		if !strings.Contains(scraped, want) {
			t.Errorf("the scrape lacks %s", want)
		}
	}
	counters, err := f.backend().Counters(t.Context())
	if text, _ := json.Marshal(counters); err != nil || !strings.Contains(string(text), `"northbound_calls_total"`) {
		t.Errorf("the counters are %s, %v", text, err)
	}
}
