package health

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"baton/document"
)

// TestWatch: the first answer counts at once, then rise and fall do.
func TestWatch(t *testing.T) {
	var status, asked atomic.Int32
	status.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "cdn.test" || r.URL.Path != "/healthz" || r.URL.RawQuery != "x=1" {
			t.Errorf("asked for %s of %s", r.URL, r.Host)
		}
		asked.Add(1)
		w.WriteHeader(int(status.Load()))
	}))
	defer server.Close()
	c := Default
	c.Path, c.Host, c.Interval, c.Timeout, c.Rise, c.Fall = "/healthz?x=1", "cdn.test", 10*time.Millisecond, 5*time.Second, 2, 3
	at := netip.MustParseAddrPort(strings.TrimPrefix(server.URL, "http://"))
	ctx, cancel := context.WithCancel(t.Context())
	reports, ended := make(chan error, 100), make(chan struct{})
	go func() {
		defer close(ended)
		c.Watch(ctx, at, func(err error) { reports <- err })
	}()
	if err := <-reports; err != nil || asked.Load() > 1 {
		t.Fatalf("%v after %d questions", err, asked.Load())
	}
	status.Store(http.StatusServiceUnavailable)
	before := asked.Load()
	var err error
	for err == nil {
		err = <-reports
	}
	if n := asked.Load() - before; n < 3 || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v after %d questions", err, n)
	}
	status.Store(http.StatusFound)
	for err != nil {
		err = <-reports
	}
	cancel()
	<-ended
}

func TestWhere(t *testing.T) {
	for _, tt := range []struct {
		c    Check
		at   string
		want string
	}{
		{Check{Scheme: "http", Path: "/"}, "192.0.2.1:0", "http://192.0.2.1:80/"},
		{Check{Scheme: "https", Path: "/"}, "192.0.2.1:0", "https://192.0.2.1:443/"},
		{Check{Scheme: "http", Path: "/a?b=c"}, "[2001:db8::1]:8080", "http://[2001:db8::1]:8080/a?b=c"},
		{Check{Scheme: "http", Path: "/", Port: 81}, "192.0.2.1:8080", "http://192.0.2.1:81/"},
	} {
		if got := tt.c.at(netip.MustParseAddrPort(tt.at)).String(); got != tt.want {
			t.Errorf("%+v at %s: %s, want %s", tt.c, tt.at, got, tt.want)
		}
	}
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"{path: /healthz, interval: 1s, timeout: 500ms, rise: 1, fall: 1, port: 8080, host: a.test, scheme: https}", ""},
		{"{}", ""},
		{"{path: healthz}", "is not the path of a URL"},
		{"{scheme: ftp}", "is no scheme of a check"},
		{"{interval: 1s, timeout: 2s}", "health.timeout: 2s is longer than interval, 1s"},
		{"{fall: 0}", "health.fall"},
		{"{file: /x}", "health.file"},
	} {
		_, err := document.ParseAs("x.yaml", []byte("health: "+tt.text), document.Rules{Bytes: 1 << 10, Nodes: 100, Root: "a mapping"}, func(d *document.Decoder, root *document.Node) *Check {
			var c *Check
			d.Fields("", root, []document.Key{{Name: "health", Decode: func(path string, n *document.Node) { c = Decode(d, path, n) }}})
			return c
		})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
	}
}
