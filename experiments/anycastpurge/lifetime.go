package anycastpurge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/experiments"
	"baton/lab"
	"baton/lab/emulator"
	"baton/lab/peers"
)

// Anycast is a client behind a router, and two servers with the service's address, of which the router chooses one.
type Anycast struct {
	lab                  *lab.Lab
	client, router, a, b *lab.Host
	link                 *lab.Link // from the client to the router
	options              experiments.Options

	turn *anycastTurn // whose lives these are
	life life
}

type (
	anycastTurn      = experiments.Turn[*Anycast]
	anycastContender = experiments.Contender[*Anycast]
)

const (
	service   = "10.9.9.9"
	moved     = 10               // downloads at one time
	bound     = 10 * time.Second // of waiting for what stays
	lifeName  = "lifetime"
	aboveName = "above"
	resetName = "reset"
)

// Lifetime is how long the connections of moved clients stay.
func Lifetime() experiments.Experiment[*Anycast] {
	return experiments.Experiment[*Anycast]{
		Name:     "anycast-dormant",
		Question: "How long does a server keep the connections of clients that were moved to another one, and when does the client know?",
		Method: "Ten clients download from nginx over a link of 50 Mbit/s that they fill. The router then sends what is for the service's " +
			"address to another nginx with the same address. `lifetime` is the time until the first server has none of the ten connections left, looked at each " +
			"5 ms; `above`, how much longer that is than twice the longest retransmission timeout that the kernel had for one of them right before; " +
			"`reset`, the time until the last client has a reset. What stays longer than 10 s is given as 10 s.",
		Parameters: []experiments.Parameter{
			{Name: "rtt", Title: "round-trip time", Unit: "ms", Values: []float64{2, 20, 100}, Quick: []float64{2}},
		},
		Contenders: []anycastContender{
			{Name: "stock", Is: "the kernel alone"},
			{Name: "retries2", Is: "net.ipv4.tcp_retries2 = 3, for the whole host", Start: retries2},
			{Name: "1 retry", Is: "the paper's: `baton purge` at the second timeout", Start: purging("max_retries: 1, wait: 0%, floor: 1ms")},
			{Name: "baton", Is: "`baton purge` as it is", Start: purging("")},
		},
		Measures: []experiments.Measure[*Anycast]{
			lives(lifeName, "Time until no dormant connection is left", func(l life) time.Duration { return l.gone }),
			lives(aboveName, "The same, less two timeouts", func(l life) time.Duration { return l.gone - 2*l.rto }),
			lives(resetName, "Time until the last client has a reset", func(l life) time.Duration { return l.reset }),
		},
		Emulated: true,
		Build:    buildAnycast,
		Enter: func(_ context.Context, t *Anycast, c experiments.Case) error {
			shape := emulator.Shape{Rate: 50e6, Delay: time.Duration(c.At["rtt"] / 2 * float64(time.Millisecond))}
			t.link.Set(shape, shape)
			return nil
		},
		Claims: lifeClaims(),
		Caveats: []string{
			"Linux gives up a connection after 924.6 s at least with its default of 15 for tcp_retries2 (computed from RFC 6298's back-off, 200 ms to " +
				"120 s); the run waits for 10 s of them.",
			"A timeout begins with the last acknowledgement that comes, and its clock ticks each few ms: two of them end some ms after the double of one.",
		},
	}
}

// lateness is what two timers of the kernel, a wake-up and the look at it each 5 ms may add.
const lateness = 25 // ms

func lifeClaims() []experiments.Claim {
	list := []experiments.Claim{
		{What: "lifetime of dormant connections, stock (the run waits for 10 s)", Paper: "13 to 30 min", Where: "Al-Qudah et al. 2009, section 2.1",
			Unit: "ms", Ours: experiments.ValueOf("rtt 2 ms", lifeName, "stock")},
		{What: "lifetime with one retry", Paper: "600 ms", Where: "Al-Qudah et al. 2009, section 3.1.2", Unit: "ms",
			Ours: experiments.ValueOf("rtt 2 ms", lifeName, "1 retry")},
	}
	for _, kase := range []string{"rtt 2 ms", "rtt 20 ms", "rtt 100 ms"} {
		list = append(list,
			experiments.Claim{What: "lifetime with Baton, " + kase, Unit: "ms", Ours: experiments.ValueOf(kase, lifeName, "baton")},
			experiments.Claim{What: "the same, above two timeouts", Unit: "ms", Ours: experiments.ValueOf(kase, aboveName, "baton"), AtMost: lateness},
			experiments.Claim{What: "until the last client is reset, " + kase, Unit: "ms", Ours: experiments.ValueOf(kase, resetName, "baton")})
	}
	return list
}

func buildAnycast(_ context.Context, s *experiments.Setup) (*Anycast, error) {
	l := s.Lab
	t := &Anycast{lab: l, client: l.Host("client"), router: l.Host("router"), a: l.Host("a"), b: l.Host("b"), options: s.Options}
	t.router.Forward()
	t.link = l.Link(lab.End{Host: t.client, Addrs: []string{"10.1.1.2/24"}}, lab.End{Host: t.router, Addrs: []string{"10.1.1.1/24"}},
		lab.LinkOptions{Emulated: true})
	t.client.Route("default", "10.1.1.1")
	for i, h := range []*lab.Host{t.a, t.b} {
		net := fmt.Sprintf("10.1.%d.", 2+i)
		l.Link(lab.End{Host: h, Addrs: []string{net + "2/24"}}, lab.End{Host: t.router, Addrs: []string{net + "1/24"}}, lab.LinkOptions{})
		h.Route("default", net+"1")
		h.Interface("lo").Address(service + "/32")
		nginx := peers.Nginx(h, peers.NginxOptions{NoAccessLog: true, Workers: 1})
		s.Serves(nginx.Process, nginx.Version)
	}
	return t, nil
}

func retries2(_ context.Context, t *anycastTurn) error {
	t.Topology.a.Sysctl("net.ipv4.tcp_retries2", "3")
	t.OnEnd(func() error { t.Topology.a.Sysctl("net.ipv4.tcp_retries2", "15"); return nil })
	return nil
}

// purging runs `baton purge` on the first server.
func purging(keys string) func(context.Context, *anycastTurn) error {
	return func(_ context.Context, t *anycastTurn) error {
		dir := t.Topology.lab.Dir()
		if keys != "" {
			keys = ", " + strings.TrimPrefix(keys, ", ")
		}
		file := filepath.Join(dir, "purge.yaml")
		text := fmt.Sprintf("control: %q\npolicies: [{name: web, ports: [80]%s}]\n", filepath.Join(dir, "purge.sock"), keys)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return fmt.Errorf("configure the purge: %w", err)
		}
		p, err := t.Topology.a.Start(lab.Program{Path: t.Options.Program, Args: []string{"purge", "run", "-c", file}})
		if err != nil {
			return err
		}
		t.Runs(p, "")
		t.OnEnd(func() error { return p.Stop(10 * time.Second) })
		return lab.Poll(10*time.Second, func() error {
			if !strings.Contains(p.Log(), "msg=ready") {
				return fmt.Errorf("the purge is not ready:\n%s", p.Log())
			}
			return nil
		})
	}
}

// life is how long it took, from the change of the route.
type life struct {
	gone, reset time.Duration
	rto         time.Duration // the longest that there was
}

// lives is a measure of the one change of the route that a turn has.
func lives(name, title string, of func(life) time.Duration) experiments.Measure[*Anycast] {
	take := func(ctx context.Context, t *anycastTurn) (_ experiments.Sample, err error) {
		if t.Topology.turn != t {
			if t.Topology.life, err = t.Topology.move(ctx); err != nil {
				return experiments.Sample{}, err
			}
			t.Topology.turn = t
		}
		l := t.Topology.life
		return experiments.Sample{Value: float64(of(l)) / 1e6, Work: moved, Also: map[string]float64{"rto_ms": float64(l.rto) / 1e6}}, nil
	}
	return experiments.Measure[*Anycast]{Name: name, Title: title, Unit: "ms", Less: true, Take: take}
}

// move has ten downloads begun, and moves them.
func (t *Anycast) move(ctx context.Context) (_ life, err error) {
	t.router.Route(service+"/32", "10.1.2.2")
	defer func() { // what stays would be in the next one's way
		_, failed := t.a.Exec(ctx, "ss", "-K", "-t", "sport = 80")
		err = errors.Join(err, failed)
	}()
	most := bound
	if t.options.Quick {
		most = 2 * time.Second
	}
	conns := make([]net.Conn, moved)
	for i := range conns {
		if conns[i], err = t.begin(ctx); err != nil {
			return life{}, err
		}
		defer conns[i].Close()
	}
	var (
		begun   time.Time
		mu      sync.Mutex
		reset   []time.Time
		clients errgroup.Group
	)
	for _, c := range conns {
		clients.Go(func() error {
			if err := c.SetReadDeadline(time.Now().Add(most + 10*time.Second)); err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, c); !errors.Is(err, syscall.ECONNRESET) {
				return fmt.Errorf("a client was not reset: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			reset = append(reset, time.Now())
			return nil
		})
	}
	select { // until windows are open, and the link is full
	case <-ctx.Done():
		return life{}, ctx.Err()
	case <-time.After(500 * time.Millisecond):
	}
	rto, err := t.timeout(ctx)
	if err != nil {
		return life{}, err
	}
	begun = time.Now()
	t.router.Route(service+"/32", "10.1.3.2")
	gone, err := t.gone(ctx, begun.Add(most))
	if err := errors.Join(err, clients.Wait()); err != nil {
		return life{}, err
	}
	return life{gone: gone.Sub(begun), reset: slices.MaxFunc(reset, time.Time.Compare).Sub(begun), rto: rto}, nil
}

var timeoutOf = regexp.MustCompile(`\brto:([0-9.]+)`)

// timeout is the longest of the first server's connections.
func (t *Anycast) timeout(ctx context.Context) (longest time.Duration, err error) {
	out, err := t.a.Exec(ctx, "ss", "-Htin", "sport = 80")
	if err != nil {
		return 0, err
	}
	all := timeoutOf.FindAllStringSubmatch(out, -1)
	if len(all) != moved {
		return 0, fmt.Errorf("%d connections, want %d:\n%s", len(all), moved, out)
	}
	for _, m := range all {
		ms, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, err
		}
		longest = max(longest, time.Duration(ms*float64(time.Millisecond)))
	}
	return longest, nil
}

// begin begins a download.
func (t *Anycast) begin(ctx context.Context) (net.Conn, error) {
	c, err := t.client.Dial(ctx, "tcp", service+":80")
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, "GET /1g HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if _, err := io.CopyN(io.Discard, c, 64<<10); err != nil {
		return nil, errors.Join(fmt.Errorf("begin a download: %w", err), c.Close())
	}
	return c, nil
}

// gone returns when the first server has no connection any more, or the time until when it is looked at.
func (t *Anycast) gone(ctx context.Context, until time.Time) (time.Time, error) {
	for {
		out, err := t.a.Exec(ctx, "ss", "-Htn", "state", "connected", "exclude", "time-wait", "sport = 80")
		now := time.Now()
		if err != nil || strings.TrimSpace(out) == "" {
			return now, err
		}
		if now.After(until) {
			return until, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}
