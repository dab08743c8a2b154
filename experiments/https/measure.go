package https

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"baton/experiments"
	"baton/lab/peers"
)

type measure = experiments.Measure[*Topology]

const (
	small      = "/128"
	concurrent = 16 // clients that begin sessions at the same time
	longest    = int64(time.Minute)
)

// session makes a session to a server by its number and reads a file. It returns the time from the SYN to the end of the handshake.
func (t *Topology) session(ctx context.Context, name int, path string) (time.Duration, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := t.Client.Dial(ctx, "tcp", t.target(name).String())
	if err != nil {
		return 0, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // fails only on a closed connection
	secured := tls.Client(c, &tls.Config{ServerName: t.names()[name], RootCAs: t.authority.Pool, NextProtos: []string{"http/1.1"}})
	if err := secured.HandshakeContext(ctx); err != nil {
		return 0, fmt.Errorf("handshake: %w", err)
	}
	took := time.Since(began)
	if _, err := io.WriteString(secured, request(path)); err != nil {
		return 0, err
	}
	return took, receive(secured, path)
}

func request(path string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
}

// receive reads the answer, which must be a file.
func receive(c net.Conn, path string) error {
	response, err := http.ReadResponse(bufio.NewReaderSize(c, 64<<10), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	if size := peers.Files[path]; size > 1<<20 {
		n, err := io.Copy(io.Discard, response.Body)
		if err == nil && n != size {
			err = fmt.Errorf("%d bytes of %d", n, size)
		}
		return err
	}
	return peers.CheckPattern(response.Body, peers.Files[path])
}

func (t *Topology) visit(ctx context.Context, name int) error {
	_, err := t.session(ctx, name, small)
	return err
}

// settled is how long sessions are made before a measure: Baton opens legs ahead of the demand that it has seen.
const settled = 600 * time.Millisecond

// warm makes sessions to each server in turn.
func warm(ctx context.Context, t *turn) error {
	began := time.Now()
	for i := 0; i < 20 || !t.Options.Quick && time.Since(began) < settled; i++ {
		if err := t.Topology.visit(ctx, i%len(t.Topology.Surrogates)); err != nil {
			return err
		}
	}
	return nil
}

// handshake makes one session at a time.
func handshake() measure {
	return measure{
		Name: "handshake", Title: "Time from a client's SYN to the end of the TLS handshake, median", Unit: "µs", Per: "session", Less: true, Warm: warm,
		Take: func(ctx context.Context, t *turn) (experiments.Sample, error) {
			n := 500
			if t.Options.Quick {
				n = 30
			}
			times := hdrhistogram.New(1, longest, 3)
			for i := range n {
				took, err := t.Topology.session(ctx, i%len(t.Topology.Surrogates), small)
				if err != nil {
					return experiments.Sample{}, err
				}
				_ = times.RecordValue(took.Nanoseconds()) // within its range
			}
			return experiments.Sample{Value: float64(times.ValueAtQuantile(50)) / 1e3, Work: float64(n), Single: experiments.NewDistribution(times)}, nil
		},
	}
}

// sessions makes sessions as fast as the processors can.
func sessions() measure {
	return measure{
		Name: "sessions", Title: "New TLS sessions a second, with a request each", Unit: "sessions/s", Per: "session", Warm: warm,
		Take: func(ctx context.Context, t *turn) (experiments.Sample, error) {
			var (
				work     sync.WaitGroup
				mu       sync.Mutex
				done     atomic.Int64
				failures atomic.Int64
				first    error
			)
			times := hdrhistogram.New(1, longest, 3)
			began := time.Now()
			for i := range concurrent {
				work.Go(func() {
					for time.Since(began) < t.Options.Duration {
						took, err := t.Topology.session(ctx, i%len(t.Topology.Surrogates), small)
						mu.Lock()
						if err != nil {
							failures.Add(1)
							first = errors.Join(first, err)
						} else {
							done.Add(1)
							_ = times.RecordValue(took.Nanoseconds())
						}
						mu.Unlock()
					}
				})
			}
			work.Wait()
			n := float64(done.Load())
			if n == 0 {
				return experiments.Sample{}, fmt.Errorf("no session: %w", first)
			}
			s := experiments.Sample{Value: n / time.Since(began).Seconds(), Work: n, Errors: failures.Load(), Single: experiments.NewDistribution(times)}
			if first != nil {
				s.First = first.Error()
			}
			return s, nil
		},
	}
}

// bulk downloads a large file; a quick run takes a tenth of it.
func bulk() measure {
	return measure{
		Name: "bulk", Title: "Bytes a second of a large download by TLS", Unit: "GB/s", Per: "GiB", Warm: warm,
		Take: func(ctx context.Context, t *turn) (experiments.Sample, error) {
			path := "/1g"
			if t.Options.Quick {
				path = "/100m"
			}
			times := hdrhistogram.New(1, longest, 3)
			began := time.Now()
			if _, err := t.Topology.session(ctx, 0, path); err != nil {
				return experiments.Sample{}, err
			}
			took := time.Since(began)
			_ = times.RecordValue(took.Nanoseconds())
			size := float64(peers.Files[path])
			return experiments.Sample{Value: size / took.Seconds() / 1e9, Work: size / (1 << 30), Single: experiments.NewDistribution(times)}, nil
		},
	}
}
