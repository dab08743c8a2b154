package https

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"baton/experiments"
	"baton/lab"
)

// The names of the cases: each measure belongs to one.
const (
	costs   = "costs"
	restart = "restart"
)

// skips reports whether a measure is not taken in a case.
func skips(c experiments.Case, measure string) bool {
	return (c.Name == restart) != (measure == brokenName)
}

const (
	brokenName    = "broken"
	downloads     = 1000
	dialling      = 32               // clients that begin at the same time
	restartWithin = 30 * time.Second // what has not ended then is broken
)

// paced are the paths of a file of 1 MiB that takes ten seconds, and one for quick runs.
const (
	paced      = "/paced/1m"
	pacedQuick = "/quick/1m"
)

// pacing has nginx send slowly.
const pacing = "location /paced/ { rewrite ^/paced(/.*) $1 break; limit_rate 100k; }\nlocation /quick/ { rewrite ^/quick(/.*) $1 break; limit_rate 400k; }\n"

// broken counts the downloads that do not survive that the contender is killed and started again.
func broken() measure {
	return measure{
		Name: brokenName, Title: "Downloads that break when the contender is killed and started again", Unit: "downloads", Less: true,
		Take: func(ctx context.Context, t *turn) (experiments.Sample, error) {
			n, path := downloads, paced
			if t.Options.Quick {
				n, path = downloads/10, pacedQuick
			}
			all, err := t.Topology.begin(ctx, n, path)
			defer func() {
				for _, c := range all {
					c.Close()
				}
			}()
			if err != nil {
				return experiments.Sample{}, err
			}
			if err := t.Topology.again(); err != nil {
				return experiments.Sample{}, err
			}
			s := experiments.Sample{Work: float64(n)}
			for _, err := range finish(all) {
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

// begin starts downloads, and returns when all have begun.
func (t *Topology) begin(ctx context.Context, n int, path string) ([]net.Conn, error) {
	var (
		work   sync.WaitGroup
		mu     sync.Mutex
		all    []net.Conn
		failed error
	)
	tokens := make(chan struct{}, dialling)
	for i := range n {
		work.Go(func() {
			tokens <- struct{}{}
			defer func() { <-tokens }()
			c, err := t.ask(ctx, i%len(t.Surrogates), path)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = fmt.Errorf("begin a download: %w", err)
				return
			}
			all = append(all, c)
		})
	}
	work.Wait()
	return all, failed
}

// ask sends a request for a file.
func (t *Topology) ask(ctx context.Context, name int, path string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := t.Client.Dial(ctx, "tcp", t.target(name).String())
	if err != nil {
		return nil, err
	}
	secured := tls.Client(c, &tls.Config{ServerName: t.names()[name], RootCAs: t.authority.Pool, NextProtos: []string{"http/1.1"}})
	if err = secured.HandshakeContext(ctx); err == nil {
		_, err = io.WriteString(secured, request(path))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return secured, nil
}

// finish reads the downloads to their ends.
func finish(all []net.Conn) []error {
	errs := make([]error, len(all))
	var work sync.WaitGroup
	for i, c := range all {
		work.Go(func() {
			_ = c.SetDeadline(time.Now().Add(restartWithin)) // fails only on a closed connection
			errs[i] = receive(c, "/1m")
		})
	}
	work.Wait()
	return errs
}

// runs registers a contender's process, unless it will be killed.
func runs(t *turn, p *lab.Process, version string) {
	if t.Case.Name == restart {
		t.Uses(version)
		return
	}
	t.Runs(p, version)
}
