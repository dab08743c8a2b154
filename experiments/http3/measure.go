package http3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"baton/experiments"
	"baton/lab/peers"
)

const longest = int64(time.Minute)

// download is a response that is being read.
type download struct {
	firstByte time.Duration
	body      io.ReadCloser
	closers   []io.Closer
}

func (d *download) close() {
	d.body.Close()
	for _, c := range d.closers {
		c.Close()
	}
}

// open makes a connection to the server of quic-go, from a port of its own, and asks for a file.
func (t *Topology) open(ctx context.Context, path string) (*download, error) {
	s := t.servers[0]
	to := net.UDPAddrFromAddrPort(t.target(s, plain))
	began := time.Now()
	socket, err := t.client.ListenPacket("udp4", ":0")
	if err != nil {
		return nil, err
	}
	transport := &quic.Transport{Conn: socket}
	client := &http3.Transport{
		TLSClientConfig: &tls.Config{RootCAs: t.authority.Pool, ServerName: s.name(plain)}, DisableCompression: true,
		Dial: func(ctx context.Context, _ string, c *tls.Config, q *quic.Config) (*quic.Conn, error) {
			return transport.DialEarly(ctx, to, c, q)
		},
	}
	d := &download{closers: []io.Closer{client, transport, socket}, body: http.NoBody}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.name(plain)+path, nil)
	if err != nil {
		d.close()
		return nil, err
	}
	response, err := client.RoundTrip(request)
	if err != nil {
		d.close()
		return nil, err
	}
	d.firstByte, d.body = time.Since(began), response.Body
	if response.StatusCode != http.StatusOK {
		d.close()
		return nil, errors.New(response.Status)
	}
	return d, nil
}

// warm makes connections, so that routes and neighbours are known.
func warm(ctx context.Context, t *turn) error {
	for range 10 {
		if _, err := t.Topology.get(ctx); err != nil {
			return err
		}
	}
	return nil
}

// get gets the small file, and returns the time to its first byte.
func (t *Topology) get(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d, err := t.open(ctx, small)
	if err != nil {
		return 0, err
	}
	defer d.close()
	return d.firstByte, peers.CheckPattern(d.body, peers.Files[small])
}

// firstByte makes one connection at a time.
func firstByte() measure {
	return measure{
		Name: "first byte", Title: "Time from a client's first datagram to the response, on a new connection, median", Unit: "µs", Per: "connection", Less: true, Warm: warm,
		Take: func(ctx context.Context, t *turn) (experiments.Sample, error) {
			n := 500
			if t.Options.Quick {
				n = 30
			}
			times := hdrhistogram.New(1, longest, 3)
			for range n {
				took, err := t.Topology.get(ctx)
				if err != nil {
					return experiments.Sample{}, err
				}
				_ = times.RecordValue(took.Nanoseconds()) // within its range
			}
			return experiments.Sample{Value: float64(times.ValueAtQuantile(50)) / 1e3, Work: float64(n), Single: experiments.NewDistribution(times)}, nil
		},
	}
}

// bulk downloads a large file; a quick run takes a tenth of it.
func bulk() measure {
	return measure{
		Name: "bulk", Title: "Bytes a second of a large download by HTTP/3", Unit: "GB/s", Per: "GiB", Warm: warm,
		Take: func(ctx context.Context, t *turn) (experiments.Sample, error) {
			path := "/1g"
			if t.Options.Quick {
				path = "/100m"
			}
			ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
			defer cancel()
			began := time.Now()
			d, err := t.Topology.open(ctx, path)
			if err != nil {
				return experiments.Sample{}, err
			}
			defer d.close()
			n, err := io.Copy(io.Discard, d.body)
			if err == nil && n != peers.Files[path] {
				err = fmt.Errorf("%d bytes of %d", n, peers.Files[path])
			}
			if err != nil {
				return experiments.Sample{}, err
			}
			took := time.Since(began)
			return experiments.Sample{Value: float64(n) / took.Seconds() / 1e9, Work: float64(n) / (1 << 30)}, nil
		},
	}
}

const (
	restartWithin = 15 * time.Second // what has not ended then is broken
	dialling      = 32               // clients that begin at the same time
)

// broken counts the downloads that do not survive that the contender is killed and started again.
func broken() measure {
	return measure{
		Name: "broken", Title: "Downloads that break when the contender is killed and started again", Unit: "downloads", Less: true,
		Take: func(ctx context.Context, t *turn) (experiments.Sample, error) {
			n := 1000
			if t.Options.Quick {
				n = 100
			}
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			all, err := t.Topology.begin(ctx, n, parts(&t.Options))
			defer func() {
				for _, d := range all {
					d.close()
				}
			}()
			if err != nil {
				return experiments.Sample{}, err
			}
			if err := t.Topology.again(t); err != nil {
				return experiments.Sample{}, err
			}
			within := restartWithin
			if t.Options.Quick {
				within /= 3
			}
			late := time.AfterFunc(within, cancel)
			defer late.Stop()
			s := experiments.Sample{Work: float64(n)}
			for _, err := range finish(all, parts(&t.Options)*partBytes) {
				if err != nil {
					s.Value++
					s.Errors++
					s.First = err.Error()
				}
			}
			return s, nil
		},
	}
}

// begin starts paced downloads, and returns when all have begun.
func (t *Topology) begin(ctx context.Context, n, parts int) ([]*download, error) {
	var (
		work   sync.WaitGroup
		mu     sync.Mutex
		all    []*download
		failed error
	)
	tokens := make(chan struct{}, dialling)
	for range n {
		work.Go(func() {
			tokens <- struct{}{}
			defer func() { <-tokens }()
			d, err := t.open(ctx, fmt.Sprintf("%s?parts=%d", paced, parts))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = fmt.Errorf("begin a download: %w", err)
				return
			}
			all = append(all, d)
		})
	}
	work.Wait()
	return all, failed
}

// finish reads the downloads to their ends.
func finish(all []*download, size int) []error {
	errs := make([]error, len(all))
	var work sync.WaitGroup
	for i, d := range all {
		work.Go(func() { errs[i] = peers.CheckPattern(d.body, int64(size)) })
	}
	work.Wait()
	return errs
}
