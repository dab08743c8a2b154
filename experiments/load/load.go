// Package load is an HTTP/1.1 load generator that costs little: epoll on raw non-blocking sockets, no goroutine, no
// allocation and no timer per request. net/http spends several times the processor time of the data path that is to
// be measured here.
//
// One engine measures all that the experiments ask for:
//
//	one request per connection   Reuse false; the client closes first, with a FIN, after the whole response
//	keep-alive                   Reuse true
//	bulk                         Reuse false, a large Size, few Connections
//	time to first byte           Reuse false, Connections 1
//	what users meet at a rate    Arrivals, with or without Reuse
//	users that read in between   Think, with Reuse
//
// Without Arrivals the loop is closed: a connection asks again when it has been answered. That measures what a server
// can do, and is the wrong question about how long users wait: while a server stalls, a closed loop asks nothing, so
// that a stall of a second counts as one slow request on each connection and not as the hundreds that users would have
// made (coordinated omission). With Arrivals the loop is open: requests become due at their own times, whatever
// has become of those before them, and the times of each count from when it was due, even if it had to wait for
// a connection. What could not be asked at all is counted in Missed.
//
// Ready programs do less of this, and some of it better. wrk has the faster closed loop of keep-alive requests (several
// threads, a parser in C) and is to be preferred where only that rate is asked; so are wrk and ab where a reader should
// repeat a figure by one command. But neither has an open loop, nor a connection per request that the client
// ends (which is what lets a router use the server leg again); they have one source address, whose ports run out in
// TIME_WAIT, and look at no byte of a body. wrk2 has an open loop, of keep-alive requests alone, and Debian has no wrk2.
package load

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"
)

// Options describe a run. It ends after Duration or Requests, whichever comes first.
type Options struct {
	Targets []netip.AddrPort // taken by turns, connection by connection
	Sources []netip.Addr     // local addresses, taken by turns; empty: the kernel's choice
	// Choose, if set, chooses the source of a connection for a body of so many bytes, in place of turns, by what is under way from each. Each
	// worker counts its own.
	Choose      func(from []Underway, size int64) int
	Multipath   bool   // MPTCP, where the server has it
	Path        string // default: "/"
	Host        string // Host header; default: the first target's address
	Size        int64  // bytes that every body must have; -1: any
	Body        []byte // what every body must be; nil: only its length counts
	Files       []File // taken by turns, in place of Path, Size and Body; one that is named twice is asked twice as often
	Reuse       bool   // many requests on each connection
	Follow      bool   // a 302 is followed, once, on a new connection, and counts as part of its request
	Connections int    // open at the same time; default: 1, with Arrivals 1000
	Workers     int    // threads that share the connections; default: one a processor
	Duration    time.Duration
	Requests    int64
	Timeout     time.Duration // of one request; default: 5 s without a byte

	Arrivals float64       // requests a second that become due (open loop); 0: as soon as one is answered
	Think    time.Duration // mean pause of a connection between its requests; they are due when it ends
	Even     bool          // arrivals and pauses are all alike; else exponentially distributed
	Seed     uint64        // of the random times; 0: others each time

	// Each, if set, is told of every request that has ended, on its worker's thread.
	Each func(Exchange)

	// Enter runs f on a thread that is in the clients' network namespace; nil: in this one.
	Enter func(f func() error) error
}

// Underway is what is under way from a source.
type Underway struct {
	Connections int
	Bytes       int64 // of bodies, that are still to come
}

// Exchange is a request that has ended.
type Exchange struct {
	Due, Ended time.Time
	Connected  time.Time // zero when the connection was not opened for it, or never; of two, for a 302, the first
	Asked      time.Time // just before the request was sent; zero: never. The first time, for a 302
	First      time.Time // first byte of the answer; zero: none. Of the surrogate's, for a 302
	Bytes      int64     // of the body, also of one that was not whole
	Err        error
}

// File is something to ask for.
type File struct {
	Path string
	Size int64  // as in Options
	Body []byte // as in Options
}

// Result is what a run measured. Times are nanoseconds, and those above a minute count as a minute. A request of a closed
// loop is due when it begins.
type Result struct {
	Requests int64 // answered as they should be
	Bytes    int64 // of their bodies
	Errors   int64
	Reopened int64 // connections that the server ended between requests, with Reuse
	First    error // the first of the Errors
	Elapsed  time.Duration

	// Of Arrivals. Every request that became due is in one of Requests, Errors and Missed.
	Late   int64 // begun more than 1 ms after they were due: no connection was free, or the generator too slow
	Missed int64 // never begun, as no connection was free within the Timeout

	Connect   *hdrhistogram.Histogram // SYN sent to connected
	FirstByte *hdrhistogram.Histogram // due to first byte, connecting included; of Requests
	Open      *hdrhistogram.Histogram // FirstByte, of those Requests whose connection was open before they were due
	Total     *hdrhistogram.Histogram // due to last byte; of Requests
	Lag       *hdrhistogram.Histogram // due to begun, of Arrivals: what of the other two is not the server's
}

func newResult() Result {
	h := func() *hdrhistogram.Histogram {
		return hdrhistogram.New(int64(time.Microsecond), int64(longestTime), 3)
	}
	return Result{Connect: h(), FirstByte: h(), Open: h(), Total: h(), Lag: h()}
}

const longestTime = time.Minute

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(int64(min(d, longestTime))) // fails above the longest alone
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
	e, err := newEngine(o, i)
	if err != nil {
		return Result{}, err
	}
	defer e.close()
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
	r.Late += other.Late
	r.Missed += other.Missed
	if r.First == nil {
		r.First = other.First
	}
	r.Elapsed = max(r.Elapsed, other.Elapsed)
	r.Connect.Merge(other.Connect)
	r.FirstByte.Merge(other.FirstByte)
	r.Open.Merge(other.Open)
	r.Total.Merge(other.Total)
	r.Lag.Merge(other.Lag)
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
	switch {
	case o.Arrivals < 0 || math.IsInf(o.Arrivals, 0) || math.IsNaN(o.Arrivals):
		return fmt.Errorf("%v arrivals a second", o.Arrivals)
	case o.Think < 0:
		return fmt.Errorf("a pause of %v", o.Think)
	case o.Arrivals > 0 && o.Think > 0:
		return errors.New("requests arrive by themselves or after a pause of their connection, not both")
	}
	if o.Requests <= 0 {
		o.Requests = 1 << 40
	}
	if o.Duration <= 0 {
		o.Duration = 1 << 62
	}
	if o.Connections <= 0 {
		o.Connections = 1
		if o.Arrivals > 0 {
			o.Connections = 1000
		}
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
	if len(o.Files) == 0 {
		o.Files = []File{{o.Path, o.Size, o.Body}}
	}
	o.Files = slices.Clone(o.Files)
	for i := range o.Files {
		if f := &o.Files[i]; f.Body != nil {
			f.Size = int64(len(f.Body))
		}
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Enter == nil {
		o.Enter = func(f func() error) error { return f() }
	}
	return nil
}
