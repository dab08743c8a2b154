package anycastflashcrowd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"baton/experiments"
	"baton/lab"
	"baton/lab/peers"
	"baton/resume"
)

// handshake is how long one may take: behind a thousand downloads a SYN-ACK is lost several times in a row now and then, and one that
// fails would be taken for an outage.
const handshake = 2 * time.Minute

// stall is after how long without a byte a connection is given up: a server whose segments are lost seven times in a row is silent for
// half a minute.
const stall = time.Minute

// fleet is many downloads of a file that run beside each other.
type fleet struct {
	url     string
	size    int64
	wg      sync.WaitGroup
	running atomic.Int64

	mu       sync.Mutex
	left     int             // downloads that are not over
	ended    chan struct{}   // closed when there are none
	times    []time.Duration // of those that are complete
	restarts int             // downloads that began again from zero
	breaks   int
	switches int
	wasted   int64 // bytes
	failed   int
	first    error
	ends     map[resume.Kind]int // of connections and tries
	at       map[string]int      // running downloads by the site that serves them
	watched  string              // site
	gone     func()              // to be called when none is there
}

// newFleet has downloads of a file, which are bound to a site or not.
func (n *Network) newFleet(file string) *fleet {
	f := &fleet{url: "http://" + service + file, size: peers.Files[file], at: make(map[string]int), ends: make(map[resume.Kind]int), ended: make(chan struct{})}
	if n.binds {
		f.url = "http://" + service + binding + file
	}
	return f
}

// begin starts a download at a client, at a time.
func (f *fleet) begin(ctx context.Context, at time.Time, from *lab.Host) {
	f.mu.Lock()
	f.left++
	f.mu.Unlock()
	f.wg.Go(func() {
		if err := sleep(ctx, time.Until(at)); err != nil {
			f.end("", 0, resume.Account{}, err)
			return
		}
		f.running.Add(1)
		defer f.running.Add(-1)
		began := time.Now()
		site := ""
		client := resume.NewClient(resume.Options{
			Base: transport(from), Lanes: 1, Stall: stall, ServerHeader: peers.Header,
			Redirects: 3, Final: true, // a bound download stays where the redirect has led
			Events: func(e resume.Event) {
				now := site
				switch e := e.(type) {
				case resume.Answered:
					now = e.Name
				case resume.Broke:
					now = ""
					f.broke(e.Kind)
				}
				f.moves(site, now)
				site = now
			},
		})
		w := &checker{}
		result, err := client.Download(ctx, resume.Request{URLs: []string{f.url}}, w, nil, nil)
		if err == nil && w.at != f.size {
			err = fmt.Errorf("a download has %d bytes of %d, and says that it is complete", w.at, f.size)
		}
		f.end(site, time.Since(began), result.Account, err)
	})
}

// broke counts what a connection ended by, or a try.
func (f *fleet) broke(kind resume.Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends[kind]++
}

// moves notes which site serves a download; "": none.
func (f *fleet) moves(from, to string) {
	if from == to {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at[from]--
	f.at[to]++
	f.look()
}

// end notes what has become of a download that was at a site.
func (f *fleet) end(site string, took time.Duration, a resume.Account, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.breaks, f.switches, f.wasted = f.breaks+a.Breaks, f.switches+a.Switches, f.wasted+a.Wasted
	if a.Restarts > 0 {
		f.restarts++
	}
	if err != nil {
		f.failed++
		f.first = cmp.Or(f.first, err)
	} else {
		f.times = append(f.times, took)
	}
	f.at[site]--
	f.look()
	if f.left--; f.left == 0 {
		close(f.ended)
	}
}

// watch has a function called, once, when no running download is at a site.
func (f *fleet) watch(site string, gone func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watched, f.gone = site, gone
	f.look()
}

// look calls it. f.mu is held.
func (f *fleet) look() {
	if f.gone != nil && f.at[f.watched] <= 0 {
		f.gone()
		f.gone = nil
	}
}

// over is closed when all downloads have ended.
func (f *fleet) over() <-chan struct{} { return f.ended }

// wait waits for that.
func (f *fleet) wait() { f.wg.Wait() }

// count keeps how many run, until all are over; then what it returns is closed.
func (f *fleet) count(into *[]float64) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		beat := time.NewTicker(lookEvery)
		defer beat.Stop()
		for {
			select {
			case <-f.over():
				return
			case <-beat.C:
				*into = append(*into, float64(f.running.Load()))
			}
		}
	}()
	return done
}

// mean is of the times of those that are complete.
func (f *fleet) mean() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := time.Duration(0)
	for _, d := range f.times {
		sum += d
	}
	return sum / time.Duration(max(1, len(f.times)))
}

// sample begins a sample with what became of the downloads.
func (f *fleet) sample() experiments.Sample {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := experiments.Sample{
		Errors: int64(f.failed + f.restarts), Work: float64(len(f.times)),
		Also: map[string]float64{
			"downloads": float64(len(f.times)), "restarts": float64(f.restarts), "breaks": float64(f.breaks), "switches": float64(f.switches),
			"wasted bytes": float64(f.wasted),
		},
	}
	for kind, n := range f.ends {
		s.Also["ended: "+string(kind)] = float64(n)
	}
	if f.first != nil {
		s.First = f.first.Error()
	} else if f.restarts > 0 {
		s.First = "a download began again"
	}
	return s
}

// transport connects from a host of the lab.
func transport(from *lab.Host) *http.Transport {
	t := resume.DefaultTransport(handshake)
	t.Proxy = nil
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := from.Dial(ctx, network, address)
		if errors.Is(err, syscall.ECONNRESET) {
			// A route that moves between a server's SYN-ACK and the client's ACK: the connection was there, and its reset is that of a
			// download that goes on, and no outage.
			c, err = from.Dial(ctx, network, address)
		}
		if err != nil {
			return nil, err
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			return nil, errors.Join(errors.New("it is no TCP connection"), c.Close())
		}
		// As the transport's own dialer has it: a server that knows nothing of a connection can say so.
		if err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 4}); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return tcp, nil
	}
	return t
}

// checker compares what comes with what is to come, byte by byte.
type checker struct {
	at   int64
	want [16 << 10]byte
}

func (c *checker) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n := min(len(p)-done, len(c.want))
		peers.Pattern(c.want[:n], c.at)
		if !bytes.Equal(c.want[:n], p[done:done+n]) {
			return done, fmt.Errorf("the bytes from %d on are not those of the file", c.at)
		}
		done += n
		c.at += int64(n)
	}
	return len(p), nil
}
