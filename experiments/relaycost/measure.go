package relaycost

import (
	"context"
	"strings"
	"time"

	"baton/experiments"
	"baton/experiments/load"
	"baton/lab/peers"
)

const (
	oneName        = "download"
	manyName       = "16 downloads"
	memoryName     = "stream from memory"
	manyMemoryName = "16 streams from memory"
	newName        = "new flows"
	firstName      = "first byte"
	slowName       = "slow first byte"

	many = 16
	gib  = 1 << 30 // bytes
)

func measures() []Measure {
	return []Measure{
		download(oneName, "Bytes a second of a large download that its server sends by sendfile", 1, 3),
		download(manyName, "Bytes a second of 16 large downloads at once", many, many),
		fromMemory(memoryName, "Bytes a second of a stream that its server writes from memory", 1),
		fromMemory(manyMemoryName, "Bytes a second of 16 such streams at once", many),
		newFlows(),
		firstByte(firstName, "Time from a client's SYN to the first byte of the answer, median", 50),
		firstByte(slowName, "Time from a client's SYN to the first byte of the answer, 99th percentile", 99),
	}
}

// load has the clients ask the contender whose turn it is.
func (t *Topology) load(o load.Options) (load.Result, error) {
	o.Targets, o.Enter, o.Sources = append(o.Targets, t.target()), t.Client.Do, t.sources()
	return load.Run(o)
}

// download fetches large files, so many at once, so many in all. Those of a quick run are small.
func download(name, title string, atOnce, all int) Measure {
	options := func(o experiments.Options) load.Options {
		path := "/1g"
		if o.Quick {
			path = "/10m"
		}
		return load.Options{Path: path, Size: peers.Files[path], Connections: atOnce, Requests: int64(all), Timeout: time.Minute}
	}
	return Measure{Name: name, Title: title, Unit: "GiB/s", Per: "GiB",
		Warm: func(_ context.Context, t *Turn) error {
			_, err := t.Topology.load(load.Options{Path: "/10m", Size: peers.Files["/10m"], Connections: atOnce, Requests: int64(atOnce)})
			return err
		},
		Take: func(_ context.Context, t *Turn) (experiments.Sample, error) {
			r, err := t.Topology.load(options(t.Options))
			if err != nil {
				return experiments.Sample{}, err
			}
			return experiments.Loaded(r, r.Throughput()/gib, float64(r.Bytes)/gib)
		}}
}

// fromMemory has iperf3 send: what it writes is copied into buffers of the kernel that are larger than the pages of a file.
func fromMemory(name, title string, atOnce int) Measure {
	return Measure{Name: name, Title: title, Unit: "GiB/s", Per: "GiB", Take: func(ctx context.Context, t *Turn) (experiments.Sample, error) {
		o := peers.Iperf3Options{Reverse: true, Streams: atOnce, Time: t.Options.Duration}
		if t.Options.Quick {
			o.Bytes = 64 << 20
		}
		f, err := peers.Iperf3(ctx, t.Topology.Client, t.Topology.Front.String(), o)
		if err != nil {
			return experiments.Sample{}, err
		}
		return experiments.Sample{Value: f.Rate / 8 / gib, Work: float64(f.Received) / gib}, nil
	}}
}

// short is a request of 100 bytes for an answer of 1 KiB.
func short() load.Options {
	const head = len("GET /1k? HTTP/1.1\r\nHost: x\r\nUser-Agent: baton-load\r\n\r\n")
	body := make([]byte, peers.Files["/1k"])
	peers.Pattern(body, 0)
	return load.Options{Path: "/1k?" + strings.Repeat("x", 100-head), Host: "x", Body: body}
}

// newFlows makes each request on a connection of its own, 64 at a time.
func newFlows() Measure {
	return Measure{Name: newName, Title: "Flows a second, each of a short request and 1 KiB", Unit: "flows/s", Per: "flow",
		Warm: func(_ context.Context, t *Turn) error {
			o := short()
			o.Connections, o.Requests = 64, 256
			_, err := t.Topology.load(o)
			return err
		},
		Take: func(_ context.Context, t *Turn) (experiments.Sample, error) {
			o := short()
			o.Connections, o.Duration = 64, t.Options.Duration
			r, err := t.Topology.load(o)
			if err != nil {
				return experiments.Sample{}, err
			}
			return experiments.Loaded(r, r.Rate(), float64(r.Requests))
		}}
}

// firstBytes are the times of a turn, which two measures tell of.
type firstBytes struct {
	of     *Turn
	result load.Result
}

// firstByte makes one request at a time, each on a connection of its own.
func firstByte(name, title string, percentile float64) Measure {
	ask := func(t *Turn, n int64) (load.Result, error) {
		o := short()
		o.Requests = n
		return t.Topology.load(o)
	}
	return Measure{Name: name, Title: title, Unit: "µs", Less: true,
		Warm: func(_ context.Context, t *Turn) error {
			if t.Topology.first.of == t {
				return nil
			}
			if _, err := ask(t, 20); err != nil {
				return err
			}
			n := int64(2000)
			if t.Options.Quick {
				n = 100
			}
			r, err := ask(t, n)
			t.Topology.first = firstBytes{t, r}
			return err
		},
		Take: func(_ context.Context, t *Turn) (experiments.Sample, error) {
			r := t.Topology.first.result
			s, err := experiments.Loaded(r, float64(0), float64(r.Requests))
			if err != nil {
				return s, err
			}
			s.Value, s.Single = float64(r.FirstByte.ValueAtQuantile(percentile))/1e3, experiments.NewDistribution(r.FirstByte)
			return s, nil
		}}
}
