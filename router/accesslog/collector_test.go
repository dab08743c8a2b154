package accesslog

import (
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	logs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	log "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"baton/router/config"
)

// receiver is a collector that answers as it is told to, and then with 200.
type receiver struct {
	t       *testing.T
	mu      sync.Mutex
	answers []func(w http.ResponseWriter)
	got     []*log.LogRecord
	heads   []http.Header
	paths   []string
}

func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Error(err)
			return
		}
		body = unzipped
	}
	data, err := io.ReadAll(body)
	if err != nil {
		c.t.Error(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heads, c.paths = append(c.heads, r.Header), append(c.paths, r.URL.RequestURI())
	if len(c.answers) > 0 {
		answer := c.answers[0]
		c.answers = c.answers[1:]
		answer(w)
		return
	}
	c.got = append(c.got, logRecords(c.t, data)...)
}

func (c *receiver) received() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.got)
}

func status(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { http.Error(w, "no room", code) }
}

func toCollector(t *testing.T, endpoint string) config.AccessLog {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return config.AccessLog{To: config.LogToOTLP, Endpoint: u, Signal: config.SignalLogs, Sample: 1, Queue: 1 << 20}
}

func TestCollector(t *testing.T) {
	c := &receiver{t: t}
	server := httptest.NewTLSServer(c)
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	l := toCollector(t, server.URL+"/v1/logs")
	l.Queue = 16 << 20
	l.CA, l.Gzip, l.Headers = ca, true, [][2]string{{"Authorization", "Bearer x"}}
	w, _ := open(t, access(l))
	const n = 5000 // more than one request carries
	w.Write(numbered(0, n))
	eventually(t, "all are there", func() bool { return c.received() == n })
	for i, r := range c.got {
		if want := fmt.Sprintf("/%d", i); attributes(t, r.Attributes)["url.path"] != want {
			t.Fatalf("record %d is %v", i, r)
		}
	}
	if len(c.heads) < 2 {
		t.Errorf("%d requests", len(c.heads))
	}
	h := c.heads[0]
	if h.Get("Content-Type") != "application/x-protobuf" || h.Get("User-Agent") != "baton-router/1.2.3" || h.Get("Authorization") != "Bearer x" || c.paths[0] != "/v1/logs" {
		t.Errorf("%s with %v", c.paths[0], h)
	}
	eventually(t, "all are counted", func() bool { return w.Stats()[0].Written == n })
}

// TestUntrustedCollector: records do not go to a collector whose certificate is not the expected one.
func TestUntrustedCollector(t *testing.T) {
	server := httptest.NewTLSServer(&receiver{t: t})
	defer server.Close()
	server.Config.ErrorLog = nil
	w, log := open(t, access(toCollector(t, server.URL)))
	w.Write(numbered(0, 1))
	eventually(t, "the certificate is reported", func() bool { return log.count("certificate") > 0 })
	if _, err := Open(access(config.AccessLog{To: config.LogToOTLP, Endpoint: &url.URL{}, CA: "/does/not/exist"}), "", nil); err == nil {
		t.Error("a file of authorities that does not exist is no error")
	}
}

// TestCollectorAnswers: what a collector cannot take now it gets again, and what it refuses is lost, and counted.
func TestCollectorAnswers(t *testing.T) {
	partly := func(w http.ResponseWriter) {
		b, _ := proto.Marshal(&logs.ExportLogsServiceResponse{PartialSuccess: &logs.ExportLogsPartialSuccess{RejectedLogRecords: 4, ErrorMessage: "too old"}})
		_, _ = w.Write(b)
	}
	for _, tt := range []struct {
		name          string
		answer        func(http.ResponseWriter)
		received      int
		written, lost uint64
		report        string
	}{
		{"busy", status(503), 10, 10, 0, "503 Service Unavailable"},
		{"too many", status(429), 10, 10, 0, "429 Too Many Requests"},
		{"not understood", status(400), 0, 0, 10, "no room"},
		{"elsewhere", func(w http.ResponseWriter) { w.Header().Set("Location", "/"); w.WriteHeader(307) }, 0, 0, 10, "307 Temporary Redirect"},
		{"partly", partly, 0, 6, 4, "too old"},
		{"more than there were", func(w http.ResponseWriter) { _, _ = w.Write([]byte{0x0a, 0x03, 0x08, 0xff, 0x7f}) }, 0, 0, 10, "rejected 16383 records"},
		{"nonsense", func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }, 0, 10, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := &receiver{t: t, answers: []func(http.ResponseWriter){tt.answer}}
			server := httptest.NewServer(c)
			defer server.Close()
			w, log := open(t, access(toCollector(t, server.URL)))
			w.Write(numbered(0, 10))
			var s Stats
			eventually(t, "all are accounted for", func() bool { s = w.Stats()[0]; return s.Written+s.Lost["rejected"] == 10 })
			if s.Written != tt.written || s.Lost["rejected"] != tt.lost || c.received() != tt.received {
				t.Errorf("%+v, %d received", s, c.received())
			}
			if tt.report != "" {
				eventually(t, "it is reported once", func() bool { return log.count(tt.report) == 1 })
			}
		})
	}
}

// TestRetryAfter: a collector that says when to come again is left alone until then.
func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "-1": 0, "3600": time.Minute, "Wed, 21 Oct 2026 07:28:00 GMT": 0, strings.Repeat("9", 30): 0,
		"9223372037": time.Minute, "18446744074": time.Minute, "9223372036854775807": time.Minute, // more nanoseconds than fit
	} {
		if got := retryAfter(http.Header{"Retry-After": {header}}); got != want {
			t.Errorf("Retry-After %q is %v, want %v", header, got, want)
		}
	}
	o := &output{}
	o.err = io.EOF // said already
	began := time.Now()
	o.rest(later{io.EOF, time.Minute})
	if wait := o.retry.Sub(began); wait < time.Minute || wait > time.Minute+10*time.Second {
		t.Errorf("the next try is in %v", wait)
	}
}

// TestHangingCollector: one that never answers costs the newest records, and does not keep the router from ending.
func TestHangingCollector(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	defer server.Close()
	defer close(release)
	l := toCollector(t, server.URL)
	l.Queue = 64 << 10
	w, _ := open(t, access(l))
	o := w.now.Load().all[0]
	w.Write(numbered(0, 5000))
	if s := w.Stats()[0]; s.Lost["queue"] == 0 {
		t.Errorf("%+v", s)
	}
	began := time.Now()
	w.Close()
	if took := time.Since(began); took > 2*grace+time.Second {
		t.Errorf("Close took %v", took)
	}
	if s := o.stats(); s.Written != 0 || s.Lost["queue"]+s.Lost["closing"] != 5000 {
		t.Errorf("%+v", s)
	}
}
