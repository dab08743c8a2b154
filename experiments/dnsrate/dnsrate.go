// Package dnsrate measures how many answers a second the name server gives on one processor, beside NSD and Knot DNS.
package dnsrate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"baton/experiments"
	"baton/lab"
)

type (
	turn   = experiments.Turn[*topology]
	sample = experiments.Sample
)

// topology is a client and a server with a link between them.
type topology struct {
	client, server *lab.Host
	dir            string
}

const (
	origin  = "bench.test."
	address = "10.0.0.2"
	names   = 10_000
	routed  = "cdn"
)

// Experiment is the question.
func Experiment() experiments.Experiment[*topology] {
	contender := func(name, is string, of func(*turn) (server, error)) experiments.Contender[*topology] {
		return experiments.Contender[*topology]{
			Name: name, Is: is,
			Start: func(_ context.Context, t *turn) error {
				s, err := of(t)
				if err != nil {
					return err
				}
				p, version, err := s.start(t.Topology.server, origin, address, zone())
				if err != nil {
					return err
				}
				t.Runs(p, version)
				t.OnEnd(func() error { return p.Stop(5 * time.Second) })
				return nil
			},
			Skips: func(_ experiments.Case, measure string) bool { return measure == "routed" && name != "baton" },
		}
	}
	return experiments.Experiment[*topology]{
		Name:     "dns-rate",
		Question: "How many answers a second does the name server give on one processor?",
		Method: fmt.Sprintf("dnsperf asks for %d names of a zone in random order, over UDP with EDNS, from another host behind a link. The server has one process or thread that answers, bound "+
			"to one processor, and dnsperf has the other. Limits of answers are off in all.", names),
		Contenders: []experiments.Contender[*topology]{
			contender("nsd", "NSD, `server-count: 1`", func(*turn) (server, error) { return nsd, nil }),
			contender("knot", "Knot DNS, `udp-workers: 1`", func(*turn) (server, error) { return knot, nil }),
			contender("baton", "`baton nameserver`, `sockets: 1`, GOMAXPROCS=1", func(t *turn) (server, error) {
				program, err := program(t.Options.Program)
				return baton(program, routed), err
			}),
		},
		Measures: []experiments.Measure[*topology]{
			measure("found", "Answers a second to names that exist", "NOERROR", func(i int) string { return fmt.Sprintf("h%d", i) }),
			measure("missing", "Answers a second to names that do not exist", "NXDOMAIN", func(i int) string { return fmt.Sprintf("no%d", i) }),
			measure("routed", "Answers a second to a routed name", "NOERROR", func(int) string { return routed }),
		},
		Build: func(_ context.Context, s *experiments.Setup) (*topology, error) {
			s.Lab.Need("dnsperf", "taskset", "nsd", "knotd")
			t := &topology{client: s.Lab.Host("client"), server: s.Lab.Host("server"), dir: s.Lab.Dir()}
			s.Lab.Link(lab.End{Host: t.client, Addrs: []string{"10.0.0.1/24"}}, lab.End{Host: t.server, Addrs: []string{address + "/24"}}, lab.LinkOptions{})
			return t, nil
		},
		Claims: []experiments.Claim{
			{What: "answers a second on one processor", Unit: "", Ours: experiments.ValueOf("", "found", "baton"), AtLeast: 100_000},
			{What: "beside NSD", Unit: "×", Ours: experiments.RatioOf("", "found", "baton", "nsd")},
			{What: "beside Knot DNS", Unit: "×", Ours: experiments.RatioOf("", "found", "baton", "knot")},
		},
		Caveats: []string{"Where the server's processor time for an answer, times the rate, is below one second a second, dnsperf is the limit, and not the server."},
	}
}

// program is baton-cdn: beside baton, or in $PATH.
func program(baton string) (string, error) {
	beside := filepath.Join(filepath.Dir(baton), "baton-cdn")
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	return exec.LookPath("baton-cdn")
}

// zone is the zone of all servers.
func zone() string {
	var b strings.Builder
	b.WriteString("$ORIGIN " + origin + "\n$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 10.0.0.2\n")
	for i := range names {
		fmt.Fprintf(&b, "h%d A 10.1.%d.%d\n", i, i/250, i%250+1)
	}
	return b.String()
}

// measure asks for names for the time of a sample.
func measure(name, title, code string, of func(int) string) experiments.Measure[*topology] {
	return experiments.Measure[*topology]{
		Name: name, Title: title, Unit: "answers/s", Per: "answer",
		Take: func(ctx context.Context, t *turn) (sample, error) {
			file := filepath.Join(t.Topology.dir, name+".queries")
			var b strings.Builder
			for range 4 * names {
				fmt.Fprintf(&b, "%s.%s A\n", of(rand.IntN(names)), origin)
			}
			if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
				return sample{}, err
			}
			seconds := max(1, int(t.Options.Duration.Round(time.Second).Seconds()))
			out, err := t.Topology.client.Exec(ctx, "taskset", "-c", "1", "dnsperf", "-s", address, "-d", file, "-e", "-c", "8", "-q", "200", "-l", strconv.Itoa(seconds))
			if err != nil {
				return sample{}, fmt.Errorf("dnsperf: %w: %s", err, out)
			}
			return read(out, code)
		},
	}
}

var (
	rateLine = regexp.MustCompile(`Queries per second: +([0-9.]+)`)
	doneLine = regexp.MustCompile(`Queries completed: +([0-9]+)`)
	lostLine = regexp.MustCompile(`Queries lost: +([0-9]+)`)
	codeLine = regexp.MustCompile(`Response codes: +(.*)`)
)

// read reads what dnsperf says. Lost queries, and answers with another code, are errors.
func read(out, code string) (sample, error) {
	number := func(line *regexp.Regexp) float64 {
		if m := line.FindStringSubmatch(out); m != nil {
			v, _ := strconv.ParseFloat(m[1], 64)
			return v
		}
		return -1
	}
	s := sample{Value: number(rateLine), Work: number(doneLine), Errors: int64(number(lostLine))}
	if s.Value <= 0 || s.Work <= 0 || s.Errors < 0 {
		return sample{}, fmt.Errorf("dnsperf says no rate: %s", out)
	}
	if s.Errors > 0 {
		s.First = fmt.Sprintf("%d queries were lost", s.Errors)
	}
	if m := codeLine.FindStringSubmatch(out); m == nil || !strings.HasPrefix(m[1], code+" ") || strings.Contains(m[1], ",") {
		return sample{}, fmt.Errorf("dnsperf got other answers than %s: %v", code, m)
	}
	return s, nil
}
