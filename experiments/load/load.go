// Package load is an HTTP/1.1 load generator that costs little: epoll on raw non-blocking sockets, no goroutine, no
// allocation and no timer per request. net/http spends several times the processor time of the data path that is to
// be measured here.
//
// One engine measures all that the handoff experiment asks for:
//
//	one request per connection   Reuse false; the client closes first, with a FIN, after the whole response
//	keep-alive                   Reuse true
//	bulk                         Reuse false, a large Size, few Connections
//	time to first byte           Reuse false, Connections 1
package load

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"
)

// Options describe a run. It ends after Duration or Requests, whichever comes first.
type Options struct {
	Targets     []netip.AddrPort // taken by turns, connection by connection
	Sources     []netip.Addr     // local addresses, taken by turns; empty: the kernel's choice
	Path        string           // default: "/"
	Host        string           // Host header; default: the first target's address
	Size        int64            // bytes that every body must have; -1: any
	Body        []byte           // what every body must be; nil: only its length counts
	Reuse       bool             // many requests on each connection
	Follow      bool             // a 302 is followed, once, on a new connection, and counts as part of its request
	Connections int              // open at the same time; default: 1
	Workers     int              // threads that share the connections; default: one a processor
	Duration    time.Duration
	Requests    int64
	Timeout     time.Duration // of one request; default: 5 s without a byte

	// Enter runs f on a thread that is in the clients' network namespace; nil: in this one.
	Enter func(f func() error) error
}

// Result is what a run measured. Times are nanoseconds.
type Result struct {
	Requests int64 // answered as they should be
	Bytes    int64 // of their bodies
	Errors   int64
	Reopened int64 // connections that the server ended between requests, with Reuse
	First    error // the first of the Errors
	Elapsed  time.Duration

	Connect   *hdrhistogram.Histogram // SYN sent to connected
	FirstByte *hdrhistogram.Histogram // begin of connect (or, on an open connection, of the request) to first byte
	Total     *hdrhistogram.Histogram // the same to the last byte
}

// Rate is requests a second.
func (r Result) Rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// Throughput is bytes of bodies a second.
func (r Result) Throughput() float64 { return float64(r.Bytes) / r.Elapsed.Seconds() }

// Run loads the targets and returns when every request has ended. An error means that the run could not take place;
// requests that failed are counted in the result.
func Run(o Options) (Result, error) {
	if err := o.complete(); err != nil {
		return Result{}, fmt.Errorf("load: %w", err)
	}
	results := make([]Result, o.Workers)
	var g errgroup.Group
	for i := range results {
		g.Go(func() error {
			return o.Enter(func() (err error) {
				results[i], err = o.work(i)
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return Result{}, fmt.Errorf("load: %w", err)
	}
	total := results[0]
	for _, r := range results[1:] {
		total.add(r)
	}
	return total, nil
}

// work is the share of one worker: its part of the connections and of the requests.
func (o Options) work(i int) (Result, error) {
	o.Connections = share(o.Connections, i, o.Workers)
	o.Requests = share(o.Requests, i, o.Workers)
	e, err := newEngine(o)
	if err != nil {
		return Result{}, err
	}
	defer e.close()
	e.opened = i
	return e.run()
}

// share is the i-th of n nearly equal parts.
func share[N int | int64](whole N, i, n int) N {
	return whole*N(i+1)/N(n) - whole*N(i)/N(n)
}

func (r *Result) add(other Result) {
	r.Requests += other.Requests
	r.Bytes += other.Bytes
	r.Errors += other.Errors
	r.Reopened += other.Reopened
	if r.First == nil {
		r.First = other.First
	}
	r.Elapsed = max(r.Elapsed, other.Elapsed)
	r.Connect.Merge(other.Connect)
	r.FirstByte.Merge(other.FirstByte)
	r.Total.Merge(other.Total)
}

func (o *Options) complete() error {
	if len(o.Targets) == 0 {
		return errors.New("no targets")
	}
	if o.Duration <= 0 && o.Requests <= 0 {
		return errors.New("neither a duration nor a number of requests")
	}
	for _, t := range o.Targets {
		for _, s := range o.Sources {
			if s.Is4() != t.Addr().Is4() {
				return fmt.Errorf("source %v and target %v are of different families", s, t)
			}
		}
	}
	if o.Requests <= 0 {
		o.Requests = 1 << 40
	}
	if o.Duration <= 0 {
		o.Duration = 1 << 62
	}
	if o.Connections <= 0 {
		o.Connections = 1
	}
	if o.Workers <= 0 {
		o.Workers = runtime.NumCPU()
	}
	o.Workers = int(min(int64(o.Workers), int64(o.Connections), o.Requests))
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Path == "" {
		o.Path = "/"
	}
	if o.Host == "" {
		o.Host = o.Targets[0].String()
	}
	if o.Body != nil {
		o.Size = int64(len(o.Body))
	}
	if o.Enter == nil {
		o.Enter = func(f func() error) error { return f() }
	}
	return nil
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1000, int64(time.Minute), 3) // 1 µs to 1 min
}
