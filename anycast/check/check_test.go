package check

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"baton/anycast/config"
	"baton/anycast/level"
)

func TestVerdict(t *testing.T) {
	tests := []struct{ name, answers, want string }{
		{"up after three in a row", "+++", "??u"},
		{"down after two in a row", "--", "?d"},
		{"a row is broken", "++-+++", "?????u"},
		{"a failure between", "+++-+-", "??uuuu"},
		{"two failures", "+++--", "??uud"},
		{"and up again", "--++-+++", "?dddddd" + "u"},
		{"a long time up, then down", "+++++++++--", "??uuuuuuu" + "ud"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := newVerdict(3, 2)
			got := ""
			for i, a := range tt.answers {
				var err error
				if a == '-' {
					err = errors.New("no answer")
				}
				before := v.health
				if changed := v.record(err, time.Unix(int64(i), 0)); changed != (before != v.health) {
					t.Errorf("answer %d: changed is %v, from %v to %v", i, changed, before, v.health)
				}
				got += map[level.Health]string{level.Unknown: "?", level.Up: "u", level.Down: "d"}[v.health]
			}
			if got != tt.want {
				t.Errorf("%s makes %s, want %s", tt.answers, got, tt.want)
			}
		})
	}
}

func TestRate(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var r rate
	for i, step := range []struct {
		value float64
		at    time.Time
		want  float64 // negative: not ready
	}{
		{100, at(0), -1}, {150, at(10), 5}, {150, at(20), 0}, {20, at(30), -1}, {40, at(34), 5}, {50, at(34), -1}, {60, at(35), 10},
	} {
		got, ready, err := r.add(step.value, step.at)
		if err != nil || ready != (step.want >= 0) || ready && got != step.want {
			t.Errorf("step %d: %v, %v, %v; want %v", i, got, ready, err, step.want)
		}
	}
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, _, err := r.add(bad, at(40)); err == nil {
			t.Errorf("%v is taken for a load", bad)
		}
	}
}

const exposition = `# TYPE requests counter
requests{host="www",code="200"} 10
requests{host="www",code="500"} 2
requests{host="api",code="200"} 5
# TYPE active gauge
active 7
plain 3
# TYPE took histogram
took_bucket{le="+Inf"} 4
took_sum 1
took_count 4
`

func TestSum(t *testing.T) {
	tests := []struct {
		name, text, metric string
		labels             map[string]string
		want               float64
		err                string
	}{
		{"all series", exposition, "requests", nil, 17, ""},
		{"those with a label", exposition, "requests", map[string]string{"host": "www"}, 12, ""},
		{"with two", exposition, "requests", map[string]string{"host": "www", "code": "500"}, 2, ""},
		{"gauge", exposition, "active", nil, 7, ""},
		{"untyped", exposition, "plain", nil, 3, ""},
		{"no such series", exposition, "requests", map[string]string{"host": "ftp"}, 0, "no series of requests has the labels"},
		{"no such metric", exposition, "nothing", nil, 0, "there is no metric nothing"},
		{"a misspelt metric", exposition, "reqests", nil, 0, "there is no metric reqests: did you mean requests?"},
		{"histogram", exposition, "took", nil, 0, "is a histogram"},
		{"not an exposition", "<html>", "requests", nil, 0, "read the metrics"},
		{"cut off", "requests 1", "requests", nil, 0, "read the metrics"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := sum(strings.NewReader(tt.text), tt.metric, tt.labels)
			if tt.err == "" && (err != nil || got != tt.want) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("sum: %v, %v; want %v, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

// FuzzSum holds that an exposition gives a number or an error, never both.
func FuzzSum(f *testing.F) {
	f.Add(exposition)
	f.Add("requests NaN\n")
	f.Add("requests{host=\"\\\"} 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := sum(strings.NewReader(text), "requests", map[string]string{"host": "www"})
		if err != nil && v != 0 {
			t.Errorf("%v and %v", v, err)
		}
	})
}

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestProbe(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Host)) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/bad", http.StatusFound) })
	mux.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/host", func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "www.example.org" {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = w.Write([]byte("short"))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	pidFile := filepath.Join(t.TempDir(), "pid")
	at := func(path string) *url.URL { return mustURL(t, server.URL+path) }
	tests := []struct {
		name  string
		check config.Check
		err   string
	}{
		{"200", config.Check{HTTP: at("/ok")}, ""},
		{"a redirect, which is not followed", config.Check{HTTP: at("/moved")}, ""},
		{"503", config.Check{HTTP: at("/bad")}, "status 503"},
		{"no answer", config.Check{HTTP: at("/slow")}, "no answer in time"},
		{"name of the host", config.Check{HTTP: at("/host"), Host: "www.example.org"}, ""},
		{"another name", config.Check{HTTP: at("/host")}, "status 404"},
		{"cut off", config.Check{HTTP: at("/cut")}, "read the body"},
		{"TCP", config.Check{TCP: server.Listener.Addr().String()}, ""},
		{"TCP refused", config.Check{TCP: closed.Addr().String()}, "connection refused"},
		{"command", config.Check{Command: []string{"/bin/true"}}, ""},
		{"command fails", config.Check{Command: []string{"/bin/sh", "-c", "echo disk full >&2; echo more; exit 3"}}, `exit status 3: "disk full"`},
		{"command is not there", config.Check{Command: []string{"/nonexistent"}}, "no such file"},
		{"command and its child do not end", config.Check{Command: []string{"/bin/sh", "-c", "sleep 60 & echo $! >" + pidFile + "; wait"}}, "did not end in time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limit := 10 * time.Second
			if strings.Contains(tt.err, "in time") {
				limit = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := newProbe(&tt.check)(ctx)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	poll(t, "the command's child is gone", func() bool { return !runs(child) })
}

// runs reports whether a process is there, and no zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func poll(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func TestMeasure(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(exposition))
	}))
	defer server.Close()
	tests := []struct {
		name    string
		measure config.Measure
		want    float64
		err     string
	}{
		{"metrics", config.Measure{Metrics: mustURL(t, server.URL+"/metrics"), Metric: "active"}, 7, ""},
		{"metrics elsewhere", config.Measure{Metrics: mustURL(t, server.URL+"/"), Metric: "active"}, 0, "status 404"},
		{"command", config.Measure{Command: []string{"/bin/echo", " 0.5 "}}, 0.5, ""},
		{"command without a number", config.Measure{Command: []string{"/bin/echo", "half"}}, 0, "is no number"},
		{"command fails", config.Measure{Command: []string{"/bin/false"}}, 0, "exit status 1"},
		{"no such interface", config.Measure{Device: "nonexistent0"}, 0, "read what nonexistent0 has sent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := newMeasure(&tt.measure)(t.Context())
			if tt.err == "" && (err != nil || got != tt.want) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%v, %v; want %v, %q", got, err, tt.want, tt.err)
			}
		})
	}
	if v, err := sent("lo"); err != nil || v < 0 {
		t.Errorf("lo has sent %v, %v", v, err)
	}
}

// TestChecker follows a service that dies and comes back, and a load that goes up and is lost.
func TestChecker(t *testing.T) {
	var broken, silent atomic.Bool
	var value atomic.Int64
	value.Store(50)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/metrics" && silent.Load(), r.URL.Path == "/" && broken.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/metrics":
			_, _ = w.Write([]byte("active " + strconv.FormatInt(value.Load(), 10) + "\n"))
		}
	}))
	defer server.Close()
	var changes atomic.Int32
	c := New(Options{
		Checks: []config.Check{{Name: "web", HTTP: mustURL(t, server.URL+"/"), Interval: 5 * time.Millisecond, Timeout: 5 * time.Second, Rise: 2, Fall: 2}},
		Measures: []config.Measure{
			{Name: "active", Metrics: mustURL(t, server.URL+"/metrics"), Metric: "active", Capacity: 100, Interval: 5 * time.Millisecond, Timeout: 5 * time.Second},
			{Name: "low", Command: []string{"/bin/echo", "0.1"}, Capacity: 1, Interval: 20 * time.Millisecond, Timeout: 5 * time.Second},
		},
		Stale: time.Hour, Changed: func() { changes.Add(1) },
	})
	defer c.Close()
	poll(t, "the site is up", func() bool { return c.Health().Health == level.Up })
	poll(t, "the load is half of the capacity", func() bool { l, _ := c.Load(time.Now()); return l == 0.5 })
	broken.Store(true)
	poll(t, "the site is down", func() bool { return c.Health().Health == level.Down })
	if got := c.Health().Cause; got != "check web: status 503" {
		t.Errorf("cause %q", got)
	}
	broken.Store(false)
	poll(t, "the site is up again", func() bool { return c.Health().Health == level.Up && c.Health().Cause == "" })
	if n := changes.Load(); n != 3 {
		t.Errorf("%d changes were reported, want 3", n)
	}
	value.Store(1 << 40)
	poll(t, "the load is believed up to a bound", func() bool { l, _ := c.Load(time.Now()); return l == mostShare })
	silent.Store(true)
	poll(t, "the failure is reported", func() bool { _, s := c.Load(time.Now()); return s[0].Error == "status 503" })
	if l, _ := c.Load(time.Now().Add(2 * time.Hour)); l >= 0 {
		t.Errorf("load %v of two hours ago", l)
	}
}
