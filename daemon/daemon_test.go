package daemon_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/api"
	"baton/daemon"
	"baton/exporter"
)

// vacant is an address that nobody listens on.
func vacant(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func backend() api.Backend {
	return api.Backend{Part: api.PurgeBackend{}, Counters: func(context.Context) ([]api.Counter, error) { return []api.Counter{{Name: "n", Value: 1}}, nil }}
}

// TestServe: both are answered, one alone too, and nothing is left when the context has ended.
func TestServe(t *testing.T) {
	for name, address := range map[string]string{"both": vacant(t), "control alone": ""} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "control.sock")
			l, err := daemon.Listen(path, address)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan struct{})
			var log strings.Builder
			go func() {
				defer close(ended)
				numbers := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "some") })
				l.Serve(ctx, backend(), numbers, slog.New(slog.NewTextHandler(&log, nil)))
			}()
			c := api.NewClient(path)
			defer c.Close()
			if got, err := c.Counters(t.Context()); err != nil || len(got) != 1 {
				t.Errorf("Counters = %v, %v, want one", got, err)
			}
			if address != "" {
				r, err := http.Get("http://" + address)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(r.Body)
				r.Body.Close()
				if err != nil || string(body) != "some" {
					t.Errorf("metrics: %q, %v", body, err)
				}
			}
			cancel()
			<-ended
			if log.Len() > 0 {
				t.Errorf("it says %s", &log)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the control socket is left: %v", err)
			}
			if err := l.Close(); err != nil {
				t.Errorf("Close after Serve = %v", err)
			}
		})
	}
}

// TestServeSaysWhatIsLost: a listener that is lost ends neither the other one nor Serve.
func TestServeSaysWhatIsLost(t *testing.T) {
	l, err := daemon.Listen(filepath.Join(t.TempDir(), "control.sock"), vacant(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	l.Serve(t.Context(), backend(), http.NotFoundHandler(), slog.New(slog.NewTextHandler(&log, nil)))
	for _, want := range []string{"the control socket is not served any more", "metrics are not served any more"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("without %q: %s", want, &log)
		}
	}
}

// TestListenRefuses: the message says which of the two it is about, and the other one is not left open.
func TestListenRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	first, err := daemon.Listen(path, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.Listen(path, ""); !errors.Is(err, api.ErrInUse) || !strings.HasPrefix(err.Error(), "control: ") {
		t.Errorf("a second one: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	l, err := daemon.Listen(path, taken.Addr().String())
	if err == nil || !strings.HasPrefix(err.Error(), "metrics: ") {
		t.Errorf("metrics at an address that is taken: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the control socket is left: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close of none = %v", err)
	}
}

func TestCounters(t *testing.T) {
	series := func(n *uint64) []exporter.Number {
		var out exporter.Numbers
		out.Counter("things_total", "Things.", *n, "of", "a")
		out.Gauge("level", "Where.", 4)
		return out
	}
	got, err := daemon.Counters(func() (uint64, error) { return 3, nil }, series)(t.Context())
	want := []api.Counter{{Name: "things_total", Help: "Things.", Labels: map[string]string{"of": "a"}, Value: 3}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	lost := errors.New("lost")
	if got, err := daemon.Counters(func() (uint64, error) { return 3, lost }, series)(t.Context()); !errors.Is(err, lost) || got != nil {
		t.Errorf("without a status: %v, %v", got, err)
	}
}
