package load_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"baton/experiments/load"
)

// stall answers at once, but nothing for a second from the request on that it is told.
func stall(from int64) http.HandlerFunc {
	var seen atomic.Int64
	var begin sync.Once
	over := make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		if seen.Add(1) >= from {
			begin.Do(func() { time.AfterFunc(time.Second, func() { close(over) }) })
			<-over
		}
		static(w, r)
	}
}

// TestAStallIsSeenByAllThatWereDueInIt: 200 requests a second, of which those of a second wait for the rest of it. So
// some 100 take longer than half a second, also those that found no connection free. A closed loop sees no more slow
// requests than it has connections.
func TestAStallIsSeenByAllThatWereDueInIt(t *testing.T) {
	tests := []struct {
		name        string
		arrivals    float64
		reuse       bool
		connections int
		least, most int64 // slow requests
		late        int64 // at least
	}{
		{"open loop, connections enough", 200, false, 400, 90, 1 << 40, 0},
		{"open loop, kept connections", 200, true, 400, 90, 1 << 40, 0},
		{"open loop, four connections", 200, true, 4, 90, 1 << 40, 150},
		{"closed loop, four connections", 0, true, 4, 1, 4, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			targets, _ := serve(t, stall(50))
			r, err := load.Run(load.Options{Targets: targets, Path: "/128", Body: body, Reuse: tt.reuse, Even: true,
				Arrivals: tt.arrivals, Connections: tt.connections, Requests: 400, Workers: 1})
			if err != nil || r.Requests != 400 || r.Errors != 0 || r.Missed != 0 {
				t.Fatalf("result %+v, %v", r, err)
			}
			slow := int64(0)
			for _, b := range r.Total.Distribution() {
				if b.From >= int64(500*time.Millisecond) {
					slow += b.Count
				}
			}
			if slow < tt.least || slow > tt.most || r.Late < tt.late {
				t.Errorf("%d requests saw the stall, want %d to %d; %d were late, want %d", slow, tt.least, tt.most, r.Late, tt.late)
			}
		})
	}
}

func TestArrivalsAreCounted(t *testing.T) {
	tests := []struct {
		name                     string
		handler                  http.HandlerFunc
		o                        load.Options
		requests, errors, missed int64
	}{
		{"all answered, by one worker", static, load.Options{Workers: 1, Connections: 50}, 300, 0, 0},
		{"all answered, by three", static, load.Options{Workers: 3, Reuse: true, Even: true}, 300, 0, 0},
		{"none answered", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			load.Options{Connections: 400, Timeout: 300 * time.Millisecond}, 0, 300, 0},
		{"all wrong", http.NotFound, load.Options{Connections: 400}, 0, 300, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			targets, _ := serve(t, tt.handler)
			o := tt.o
			o.Targets, o.Path, o.Body, o.Arrivals, o.Requests = targets, "/128", body, 3000, 300
			r, err := load.Run(o)
			if err != nil || r.Requests != tt.requests || r.Errors != tt.errors || r.Missed != tt.missed {
				t.Errorf("%d answered, %d errors (%v), %d missed, %v; want %d, %d, %d", r.Requests, r.Errors, r.First, r.Missed, err,
					tt.requests, tt.errors, tt.missed)
			}
			if r.Lag.TotalCount() != 300-tt.missed {
				t.Errorf("%d were begun", r.Lag.TotalCount())
			}
		})
	}
}

// TestMissedRequestsAreCounted: the only connection is never answered, and gives up with those that wait for it.
func TestMissedRequestsAreCounted(t *testing.T) {
	targets, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	r, err := load.Run(load.Options{Targets: targets, Path: "/128", Body: body, Arrivals: 1000, Connections: 1, Requests: 100,
		Timeout: 200 * time.Millisecond})
	if err != nil || r.Missed == 0 || r.Requests != 0 || r.Errors+r.Missed != 100 {
		t.Errorf("%d answered, %d errors, %d missed, %v; want 100 of the last two", r.Requests, r.Errors, r.Missed, err)
	}
}

func TestArrivalsEndWithTheDuration(t *testing.T) {
	targets, _ := serve(t, static)
	r, err := load.Run(load.Options{Targets: targets, Path: "/128", Body: body, Arrivals: 500, Even: true, Workers: 2,
		Duration: 200 * time.Millisecond})
	if err != nil || r.Requests != 100 || r.Errors+r.Missed != 0 || r.Elapsed < 200*time.Millisecond {
		t.Errorf("result %+v, %v; want the 100 requests that are due within 200 ms", r, err)
	}
}

func TestThinkTime(t *testing.T) {
	for _, even := range []bool{false, true} {
		targets, seen := serve(t, static)
		r, err := load.Run(load.Options{Targets: targets, Path: "/128", Body: body, Reuse: true, Think: 20 * time.Millisecond, Even: even,
			Connections: 20, Duration: 300 * time.Millisecond})
		// A connection asks 50 times a second and no more often: 20 of them 300 times. Random pauses have 17 as deviation.
		if err != nil || r.Errors != 0 || r.Requests < 1 || r.Requests > 400 || seen.Load() > 20 {
			t.Errorf("even %v: %d requests, %d errors (%v) on %d connections, %v; want about 300 on 20", even, r.Requests, r.Errors, r.First,
				seen.Load(), err)
		}
		if r.Elapsed < 300*time.Millisecond {
			t.Errorf("even %v: ended after %v", even, r.Elapsed)
		}
	}
}

// TestConnectionsMayEndInAPause: the server closes what is idle for 10 ms; no request may fail for that.
func TestConnectionsMayEndInAPause(t *testing.T) {
	for name, o := range map[string]load.Options{
		"think":    {Think: 100 * time.Millisecond, Even: true, Connections: 4, Requests: 12},
		"arrivals": {Arrivals: 20, Even: true, Connections: 4, Requests: 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, static)
			s.Config.IdleTimeout = 10 * time.Millisecond
			s.Start()
			o.Targets, o.Path, o.Body, o.Reuse = targetOf(t, s.Listener.Addr()), "/128", body, true
			r, err := load.Run(o)
			if err != nil || r.Requests != 12 || r.Errors != 0 || r.Reopened == 0 {
				t.Errorf("result %+v, %v; want 12 requests over reopened connections", r, err)
			}
		})
	}
}

func TestFilesTakeTurns(t *testing.T) {
	var long atomic.Int64
	targets, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			long.Add(1)
			w.Write(append(body, body...))
			return
		}
		static(w, r)
	})
	files := []load.File{{Path: "/128", Body: body}, {Path: "/long", Size: 256}, {Path: "/128", Size: -1}}
	r, err := load.Run(load.Options{Targets: targets, Files: files, Reuse: true, Requests: 30, Workers: 1})
	if err != nil || r.Requests != 30 || r.Errors != 0 || long.Load() != 10 || r.Bytes != 20*128+10*256 {
		t.Errorf("result %+v, %v; %d requests for the long file, want 10", r, err, long.Load())
	}
}
