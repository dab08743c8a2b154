package handoff

import (
	"context"
	"time"

	"baton/experiments"
	"baton/experiments/load"
	"baton/lab/peers"
)

// small is the file of every measure but bulk.
const small = "/128"

// Measure is a measure of every contender.
type Measure = experiments.Measure[*Topology]

// Bulk downloads a large file, three times, one after the other. A quick run takes a file that is a tenth.
func Bulk() Measure {
	return measure(
		Measure{Name: "bulk", Title: "Bytes a second of a large download", Unit: "GB/s", Per: "GiB"},
		func(o experiments.Options) load.Options {
			path := bulkFile(o)
			return load.Options{Path: path, Size: peers.Files[path], Requests: 3}
		},
		func(r load.Result) float64 { return r.Throughput() / 1e9 },
		func(r load.Result) float64 { return float64(r.Bytes) / (1 << 30) })
}

func bulkFile(o experiments.Options) string {
	if o.Quick {
		return "/100m"
	}
	return "/1g"
}

// KeepAlive makes many requests on each of 50 connections.
func KeepAlive() Measure {
	return measure(
		Measure{Name: "keep-alive", Title: "Requests a second on connections that are kept", Unit: "requests/s", Per: "request"},
		func(o experiments.Options) load.Options {
			return load.Options{Path: small, Body: body(), Reuse: true, Connections: 50, Duration: o.Duration}
		},
		load.Result.Rate, requests)
}

// ConnectionPerRequest makes each request on a new connection, 64 at a time.
func ConnectionPerRequest() Measure {
	return measure(
		Measure{Name: "connection per request", Title: "Requests a second, each on a connection of its own", Unit: "requests/s", Per: "request"},
		func(o experiments.Options) load.Options {
			return load.Options{Path: small, Body: body(), Connections: 64, Duration: o.Duration}
		},
		load.Result.Rate, requests)
}

// FirstByte makes one request at a time, each on a new connection.
func FirstByte() Measure {
	return measure(
		Measure{Name: "time to first byte", Title: "Time from a client's SYN to the first byte of the answer, median", Unit: "µs",
			Per: "request", Less: true},
		func(o experiments.Options) load.Options {
			n := int64(1000)
			if o.Quick {
				n = 100
			}
			return load.Options{Path: small, Body: body(), Requests: n}
		},
		func(r load.Result) float64 { return float64(r.FirstByte.ValueAtQuantile(50)) / 1e3 }, requests)
}

// Measures are all of them.
func Measures() []Measure {
	return []Measure{Bulk(), KeepAlive(), ConnectionPerRequest(), FirstByte()}
}

func body() []byte {
	b := make([]byte, peers.Files[small])
	peers.Pattern(b, 0)
	return b
}

func requests(r load.Result) float64 { return float64(r.Requests) }

// measure completes m: ask runs the clients, value is the figure in m's unit, work the divisor of CPU time.
func measure(m Measure, ask func(experiments.Options) load.Options, value, work func(load.Result) float64) Measure {
	m.Warm = func(_ context.Context, t *Turn) error {
		// Costs of the first requests: neighbours, caches, connections to the surrogates.
		o := ask(t.Options)
		o.Requests, o.Duration = max(int64(o.Connections)*4, 20), 0
		if o.Size > 1<<20 {
			o.Path, o.Size, o.Requests = "/1m", peers.Files["/1m"], 4
		}
		_, err := t.Topology.load(o)
		return err
	}
	m.Take = func(_ context.Context, t *Turn) (experiments.Sample, error) {
		r, err := t.Topology.load(ask(t.Options))
		if err != nil {
			return experiments.Sample{}, err
		}
		return experiments.Loaded(r, value(r), work(r))
	}
	return m
}

// load runs the clients against the current contender.
func (t *Topology) load(o load.Options) (load.Result, error) {
	o.Targets, o.Follow, o.Enter, o.Sources = t.Front.Targets, t.Front.Follow, t.Client.Do, t.Sources()
	return load.Run(o)
}

// CacheFiles loads a large file into the page cache, which the surrogates share, before any measurement.
func (t *Topology) CacheFiles(path string) error {
	r, err := load.Run(load.Options{Targets: t.Addresses(), Path: path, Size: peers.Files[path], Requests: 1,
		Timeout: time.Minute, Enter: t.Client.Do})
	if err != nil {
		return err
	}
	return r.First
}
