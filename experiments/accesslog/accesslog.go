// Package accesslog measures what a log of all requests costs: Baton's, of requests that pass no process, beside nginx's as a proxy.
package accesslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"baton/experiments"
	"baton/experiments/handoff"
	"baton/experiments/load"
	"baton/lab"
	"baton/lab/peers"
)

type (
	topology  = handoff.Topology
	contender = handoff.Contender
	turn      = handoff.Turn
)

const (
	lostName  = "lost"
	askedRate = 30_000          // requests a second while records are counted
	logWithin = 5 * time.Second // of the last record
)

// Experiment uses the topology of the experiment handoff.
func Experiment() experiments.Experiment[*topology] {
	return experiments.Experiment[*topology]{
		Name:     "access-log",
		Question: "What does an access log of requests cost that pass no process?",
		Method: "The topology and clients of `handoff`. Logs are files in Combined Log Format, as nginx writes it by default. For *lost*, clients ask 30,000 times a second, and then the lines of the log " +
			"are counted.",
		Contenders: []contender{
			baton("baton", "no access log", ""),
			baton("baton-logged", "`log.access`, a file, `format: combined`", "combined"),
			baton("baton-json", "the same, `format: json`", "json"),
			nginx("nginx", "`proxy_pass`, `access_log off`", "off"),
			nginx("nginx-logged", "`proxy_pass`, `access_log` without a buffer, as by default", "combined"),
			nginx("nginx-buffered", "the same with `buffer=64k flush=1s`", "combined buffer=64k flush=1s"),
		},
		Measures: []handoff.Measure{handoff.ConnectionPerRequest(), handoff.KeepAlive(), lost()},
		IPv6:     true,
		Build: func(_ context.Context, s *experiments.Setup) (*topology, error) {
			return handoff.Build(s, handoff.Layout{IPv6: s.Options.IPv6}), nil
		},
		Claims: []experiments.Claim{
			{What: "connection per request, logged beside not", Unit: "×", Ours: ratio("connection per request", "baton-logged", "baton"), AtLeast: 0.97},
			{What: "keep-alive, logged beside not", Unit: "×", Ours: ratio("keep-alive", "baton-logged", "baton")},
			{What: "the same of nginx: connection per request", Unit: "×", Ours: ratio("connection per request", "nginx-logged", "nginx")},
			{What: "the same of nginx: keep-alive", Unit: "×", Ours: ratio("keep-alive", "nginx-logged", "nginx")},
			{What: "records lost at 30,000 requests a second", Unit: "", Ours: experiments.ValueOf("", lostName, "baton-logged"), AtMost: 0},
		},
		Caveats: []string{"The clients, the router and the servers share the processors."},
	}
}

func ratio(measure, contender, base string) experiments.Figure {
	return experiments.RatioOf("", measure, contender, base)
}

// logFile is that of the current contender.
func logFile(t *topology) string { return filepath.Join(t.Lab.Dir(), "requests", "access.log") }

// freshLog removes the log of the contender before.
func freshLog(t *topology) error {
	if err := os.RemoveAll(filepath.Dir(logFile(t))); err != nil {
		return fmt.Errorf("remove a log: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(logFile(t)), 0o755); err != nil {
		return fmt.Errorf("make a folder for logs: %w", err)
	}
	return nil
}

func baton(name, is, format string) contender {
	return contender{Name: name, Is: is, Start: func(_ context.Context, t *turn) error {
		if err := freshLog(t.Topology); err != nil {
			return err
		}
		return t.Topology.StartRouter(t, config(t.Topology, format))
	}}
}

func config(t *topology, format string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "control: %q\nmetrics: %q\nstate: %q\n", filepath.Join(t.Lab.Dir(), "router.sock"), "127.0.0.1:9464", filepath.Join(t.Lab.BPFFS(), "router"))
	if format != "" {
		fmt.Fprintf(&b, "log: {access: [{to: file, path: %q, format: %s}]}\n", logFile(t), format)
	}
	fmt.Fprintf(&b, "vips:\n  - {address: %q, interfaces: [%s], routes: [{pool: all}]}\npools:\n  all:\n    legs: {min: 16, max: 700}\n    surrogates:\n", t.VIP(), t.ClientSide.Name)
	for i, a := range t.Addresses() {
		fmt.Fprintf(&b, "      - {name: s%d, address: %q}\n", i+1, a)
	}
	return b.String()
}

func nginx(name, is, access string) contender {
	return contender{Name: name, Is: is, Start: func(_ context.Context, t *turn) error {
		if err := freshLog(t.Topology); err != nil {
			return err
		}
		o := peers.NginxProxyOptions{NginxOptions: peers.NginxOptions{NoAccessLog: true, Connections: 4096}}
		if access != "off" {
			o.Server = fmt.Sprintf("access_log %s %s;", logFile(t.Topology), access)
		}
		for _, a := range t.Topology.Addresses() {
			o.Backends = append(o.Backends, a.String())
		}
		handoff.OnVIP(t, func() *peers.Server { return peers.NginxProxy(t.Topology.Router, o) })
		return nil
	}}
}

// lost counts the requests that are not in the log. It is 0 where there is none.
func lost() handoff.Measure {
	return handoff.Measure{Name: lostName, Title: "Requests that are not in the log, at 30,000 a second", Unit: "requests", Less: true,
		Take: func(_ context.Context, t *turn) (experiments.Sample, error) {
			before, err := settledLines(logFile(t.Topology))
			if errors.Is(err, fs.ErrNotExist) {
				return experiments.Sample{}, nil
			} else if err != nil {
				return experiments.Sample{}, err
			}
			n := max(1, int64(t.Options.Duration.Seconds()*askedRate))
			front := t.Topology.Front
			r, err := load.Run(load.Options{Targets: front.Targets, Enter: t.Topology.Client.Do, Sources: t.Topology.Sources(), Path: "/128", Size: peers.Files["/128"],
				Reuse: true, Connections: 64, Arrivals: askedRate, Requests: n})
			if err != nil {
				return experiments.Sample{}, err
			}
			var logged int64
			err = lab.Poll(logWithin, func() error {
				now, err := lines(logFile(t.Topology))
				if logged = now - before; err == nil && logged < n {
					err = fmt.Errorf("%d of %d requests are in the log", logged, n)
				}
				return err
			})
			if err != nil && logged == 0 {
				return experiments.Sample{}, err
			}
			return experiments.Sample{Value: float64(n - logged), Errors: r.Errors, Also: map[string]float64{"requests a second": r.Rate()}}, nil
		}}
}

// settledLines counts the lines when no more come.
func settledLines(file string) (n int64, err error) {
	const quiet = 1500 * time.Millisecond // more than a record waits for others
	for since := time.Now(); time.Since(since) < quiet; time.Sleep(quiet / 10) {
		now, err := lines(file)
		if err != nil {
			return 0, err
		}
		if now != n {
			n, since = now, time.Now()
		}
	}
	return n, nil
}

func lines(file string) (n int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, fmt.Errorf("count the records of a log: %w", err)
	}
	defer f.Close()
	buffer := make([]byte, 1<<20)
	for {
		got, err := f.Read(buffer)
		n += int64(bytes.Count(buffer[:got], []byte{'\n'}))
		if errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return 0, fmt.Errorf("count the records of a log: %w", err)
		}
	}
}
