// Package demo shows the request router at work: real clients fetch real files from real servers through one address, in
// namespaces of this machine, and every body, every surrogate and what the kernel did are checked. The same requests go
// direct, through a 302 and through HAProxy in the router's place. It shows that and how it works; how fast, the
// experiment handoff measures with more care.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
)

// Options of a run.
type Options struct {
	Program  string    // path of the program baton
	Progress io.Writer // a line for each thing that is done
	// Keep, when set, is called after the run with what can be tried; the network lives until it returns.
	Keep func(*Report, []Command)
	// Runs of each request by each way; 0: as many as are worth the time.
	Runs int
	// Largest leaves out the requests for longer files, in bytes; 0: none.
	Largest int64
}

func (o Options) requests() []request {
	var chosen []request
	for _, r := range requests {
		if o.Largest > 0 && r.size() > o.Largest {
			continue
		}
		if o.Runs > 0 {
			r.runs = o.Runs
		}
		chosen = append(chosen, r)
	}
	return chosen
}

// Command is something that the user can try on the network of a run.
type Command struct {
	Line string // for a shell, as root
	Does string
}

// demo is a run.
type demo struct {
	o       Options
	t       *topology
	router  *lab.Process
	config  string // file
	control *api.Client
	ways    []way
	sums    map[string]string
	report  *Report
}

// ErrFailed says that the report has a check that failed.
var ErrFailed = errors.New("demo: not everything is as it should be")

// Run builds the network, makes the requests and takes everything away again. The report comes with ErrFailed too. When
// ctx ends first, Run returns its error.
func Run(ctx context.Context, o Options) (*Report, error) {
	d := &demo{o: o}
	err := lab.Run(o.Progress, func(l *lab.Lab) error {
		err := d.run(ctx, l)
		if ctx.Err() != nil {
			return nil // interrupted: the logs of what was stopped are nobody's interest
		}
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("demo: %w", err)
	case d.report == nil || !d.report.done:
		return nil, fmt.Errorf("demo: %w", context.Cause(ctx))
	case d.report.Failed() > 0:
		return d.report, ErrFailed
	}
	return d.report, nil
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.o.Progress, format+"\n", args...) }

func (d *demo) run(ctx context.Context, l *lab.Lab) (err error) {
	d.say("building the network; starting nginx three times, caddy, haproxy and baton")
	if d.t, err = build(l); err != nil {
		return err
	}
	if err := d.startRouter(ctx); err != nil {
		return err
	}
	defer d.control.Close()
	haproxy := peers.HAProxy(d.t.router, peers.HAProxyOptions{Port: haproxyReady, Config: haproxyConfig()})
	d.ways = []way{
		{name: viaDirect, address: direct},
		{name: handoff, address: vip(handoffVIP), process: d.router},
		{name: viaRedirect, address: vip(redirectVIP), follow: true, process: d.router},
		{name: viaHAProxy, address: vip(haproxyVIP), process: haproxy.Process},
	}
	if d.report, err = d.newReport(haproxy); err != nil {
		return err
	}
	d.say("hashing the files")
	if d.sums, err = originSums(ctx, d.t.site, d.o.requests()); err != nil {
		return err
	}
	if err := d.secure(ctx); err != nil {
		return err
	}
	if err := d.http3(ctx); err != nil {
		return err
	}
	before, err := d.counters(ctx)
	if err != nil {
		return err
	}
	windows, err := d.t.windows()
	if err != nil {
		return err
	}
	for _, r := range d.o.requests() {
		if err := d.measure(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", r.path, err)
		}
	}
	if err := d.keepAlive(ctx); err != nil {
		return err
	}
	if err := d.look(ctx, before); err != nil {
		return err
	}
	after, err := d.t.windows()
	if err != nil {
		return err
	}
	d.checkWindows(windows, after)
	d.report.done = true
	if d.o.Keep != nil {
		d.o.Keep(d.report, d.commands())
	}
	return nil
}

func (d *demo) newReport(haproxy *peers.Server) (*Report, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return nil, fmt.Errorf("read the kernel's version: %w", err)
	}
	config, err := os.ReadFile(d.config)
	if err != nil {
		return nil, err
	}
	return &Report{
		Linux: unix.ByteSliceToString(uts.Release[:]), Processors: runtime.NumCPU(),
		Servers: []string{d.t.servers[0].Version, haproxy.Version}, Topology: drawing(), Config: string(config),
	}, nil
}

// startRouter returns when every surrogate is up and has legs, which QUIC needs none of.
func (d *demo) startRouter(ctx context.Context) (err error) {
	d.config = filepath.Join(d.t.lab.Dir(), "router.yaml")
	if err := os.WriteFile(d.config, []byte(d.t.routerConfig()), 0o644); err != nil {
		return err
	}
	d.router, err = d.t.router.Start(lab.Program{Path: d.o.Program, Args: []string{"router", "run", "-c", d.config}})
	if err != nil {
		return err
	}
	d.control = api.NewClient(d.socket())
	err = lab.Poll(20*time.Second, func() error {
		if err := ctx.Err(); err != nil {
			return nil // said below
		}
		select {
		case <-d.router.Done():
			return nil
		default:
		}
		s, err := d.control.Router(ctx)
		if err != nil {
			return err
		}
		for _, p := range s.Pools {
			for _, sg := range p.Surrogates {
				if quic := p.Name == "http3"; !sg.Up || sg.IdleLegs == 0 && !quic {
					return fmt.Errorf("surrogate %s is %s, with %d legs", sg.Name, sg.Phase, sg.IdleLegs)
				}
			}
		}
		return nil
	})
	select {
	case <-d.router.Done():
		return errors.New("the router has ended")
	default:
	}
	return errors.Join(err, ctx.Err())
}

func (d *demo) socket() string { return filepath.Join(d.t.lab.Dir(), "router.sock") }

// commands are what can be tried while the network is kept.
func (d *demo) commands() []Command {
	client := "ip netns exec " + d.t.client.Netns() + " "
	curl := func(options, path string) string {
		return fmt.Sprintf("%scurl -s --resolve %s:80:%s %shttp://%s%s", client, site, handoffVIP, options, site, path)
	}
	baton := func(command string) string {
		return fmt.Sprintf("%s %s --control %s", d.o.Program, command, d.socket())
	}
	return []Command{
		{curl("-D - -o /dev/null ", "/video/1m"), "s1 and s2 answer by turns: see X-Surrogate"},
		{curl("-D - -o /dev/null ", "/128"), "s3 answers"},
		{fmt.Sprintf("%scurl -s --cacert %s --resolve shop.example.net:443:%s -D - -o /dev/null https://shop.example.net/1m", client, d.t.authority.File, handoffVIP),
			"s3 answers, by TLS; its log has the client: " + d.t.secureLog(3)},
		{curl("--limit-rate 1m -o /dev/null ", "/1g") + " &", "a long session, for the next two"},
		{baton("router sessions"), "the live sessions"},
		{baton("router backend drain s1"), "s1 gets nothing new; undrain takes it back"},
		{baton("router status"), "the router at a glance"},
		{baton("router explain http://" + site + "/clips/1m.mp4"), "who would answer, and why"},
		{fmt.Sprintf("kill -9 %d", d.router.Pid()), "sessions go on without the router"},
		{fmt.Sprintf("ip netns exec %s %s router run -c %s", d.t.router.Netns(), d.o.Program, d.config), "and a new one takes them over; end it before the demo"},
	}
}
