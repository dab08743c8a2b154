package longpath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"baton/experiments"
	"baton/experiments/handoff"
	"baton/experiments/load"
	"baton/lab/peers"
)

const (
	large  = "/1g" // of which as much is downloaded as there is time for
	middle = "/1m"
	small  = "/128"
)

// patience is how long nothing may come: without SACK, a window with several losses takes a timeout for each.
const patience = 60 * time.Second

// goodput downloads for a while over one connection.
func goodput() handoff.Measure {
	return handoff.Measure{
		Name: "download", Title: "Goodput of a download in its first seconds", Unit: "Mbit/s",
		Take: func(ctx context.Context, t *handoff.Turn) (experiments.Sample, error) {
			got, took, err := download(ctx, t.Topology, t.Options.Duration)
			if err != nil {
				return experiments.Sample{}, err
			}
			return experiments.Sample{Value: float64(got) * 8 / took.Seconds() / 1e6, Work: 1}, nil
		},
	}
}

// download reads the large file until the time is over, from the request on.
func download(ctx context.Context, t *handoff.Topology, length time.Duration) (got int64, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	client := t.Client.HTTPClient(0)
	client.CheckRedirect = nil // a 302 is followed
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s%s", t.Front.Targets[0], large), nil)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	response, err := client.Do(request)
	if err != nil {
		return 0, 0, fmt.Errorf("download: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, 0, fmt.Errorf("download: %s", response.Status)
	}
	got, err = io.CopyBuffer(io.Discard, struct{ io.Reader }{response.Body}, make([]byte, 1<<20))
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return 0, 0, fmt.Errorf("download: %w", err)
	}
	return got, time.Since(began), nil
}

// object fetches files of a web page's size, each on a connection of its own.
func object() handoff.Measure {
	return loaded(
		handoff.Measure{Name: "1 MiB", Title: "Time for a file of 1 MiB on a new connection, median", Unit: "ms", Less: true},
		load.Options{Path: middle, Connections: 4, Requests: 8},
		func(r load.Result) float64 { return float64(r.Total.ValueAtQuantile(50)) / 1e6 })
}

// firstByte makes small requests, each on a connection of its own.
func firstByte() handoff.Measure {
	return loaded(
		handoff.Measure{Name: "time to first byte", Title: "Time from a client's SYN to the first byte of the answer, median", Unit: "ms", Less: true},
		load.Options{Path: small, Connections: 8, Requests: 40},
		func(r load.Result) float64 { return float64(r.FirstByte.ValueAtQuantile(50)) / 1e6 })
}

// loaded completes a measure that the load generator takes.
func loaded(m handoff.Measure, o load.Options, value func(load.Result) float64) handoff.Measure {
	m.Warm = func(_ context.Context, t *handoff.Turn) error {
		// Each of the client's addresses is asked for once (ARP takes a round trip), and none of the proxies has its first request.
		_, err := ask(t, load.Options{Path: small, Connections: 32, Requests: 64})
		return err
	}
	m.Take = func(_ context.Context, t *handoff.Turn) (experiments.Sample, error) {
		r, err := ask(t, o)
		if err != nil {
			return experiments.Sample{}, err
		}
		return experiments.Loaded(r, value(r), float64(r.Requests))
	}
	return m
}

// ask has the clients ask the contender whose turn it is.
func ask(t *handoff.Turn, o load.Options) (load.Result, error) {
	front := t.Topology.Front
	o.Targets, o.Follow, o.Enter, o.Sources = front.Targets, front.Follow, t.Topology.Client.Do, t.Topology.Sources()
	o.Size, o.Timeout = peers.Files[o.Path], patience
	return load.Run(o)
}
