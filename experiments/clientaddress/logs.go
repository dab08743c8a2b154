package clientaddress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"baton/experiments"
	"baton/experiments/scale"
	"baton/lab"
	"baton/lab/emulator"
)

// Logs is the question whether every server's log has the right client.
func Logs() experiments.Experiment[*columns] {
	return experiments.Experiment[*columns]{
		Name:     "client-address-logs",
		Question: "Does every server log the right client for every connection, at 1 % loss and with reordering?",
		Method: "Clients behind a link that loses 1 % of the packets of each direction and reorders 2 % make a connection for each request, whose path is their own address and port; " +
			"the surrogates are behind another such link. Each server has its own way to read the PROXY header (version 2), and logs what it takes for the client. " +
			"Afterwards each line of the log must name the client that its request names, and there must be a line for each request that was answered. " +
			"`--connections` in each case. Caddy is represented by the library that reads the header for it from version 2.8 on: Debian's Caddy 2.6.2 cannot.",
		Cases:      logCases(),
		Contenders: []experiments.Contender[*columns]{{Name: "baton", Is: "`client_address: proxy-v2`", Start: startColumns}},
		Measures:   logMeasures(),
		Rounds:     1,
		Build:      buildColumns,
		Plots:      []experiments.Plot{{Measure: rightName}},
		Claims: []experiments.Claim{
			{What: "requests whose line in the log names the right client, of all", Unit: "%", Ours: rightShare, AtLeast: 100},
		},
	}
}

// column is a client, its link to the router, and a host with the servers behind another link, with offloads or without.
type column struct {
	name           string
	client, server *lab.Host
	front, back    *lab.Interface // of the router
	servers        []*loggingServer
}

// columns are the topology:
//
//	client0 10.1.0.16… ── router ── 10.2.0.2 server0   with offloads
//	client1 10.1.1.16… ──        ── 10.2.1.2 server1   without
//
// and the same in fd01:0:0:n::/64 and fd02:0:0:n::/64.
type columns struct {
	lab    *lab.Lab
	router *lab.Host
	list   []*column
	said   *said
}

var impaired = emulator.Shape{Loss: 0.01, Reorder: 0.02, Behind: 3}

const logClients = 16 // addresses

func logCases() []experiments.Case {
	var cases []experiments.Case
	for _, server := range loggers {
		for _, family := range []string{"IPv4", "IPv6"} {
			for _, links := range []string{"offloads", "no offloads"} {
				cases = append(cases, experiments.Case{Name: fmt.Sprintf("%s, %s, %s", server.name, family, links), Quick: family == "IPv4" == (links == "offloads")})
			}
		}
	}
	return cases
}

func buildColumns(_ context.Context, s *experiments.Setup) (*columns, error) {
	t := &columns{lab: s.Lab, router: s.Lab.Host("router")}
	t.router.Forward()
	for i, name := range []string{"offloads", "no offloads"} {
		c := &column{name: name, client: s.Lab.Host(fmt.Sprint("client", i)), server: s.Lab.Host(fmt.Sprint("server", i))}
		o := lab.LinkOptions{NoOffloads: i > 0, AtoB: impaired, BtoA: impaired}
		var addresses []string
		for n := range logClients {
			addresses = append(addresses, fmt.Sprintf("10.1.%d.%d/24", i, 16+n), fmt.Sprintf("fd01:0:0:%x::%x/64", i, 16+n))
		}
		c.front = s.Lab.Link(lab.End{Host: c.client, Addrs: addresses},
			lab.End{Host: t.router, Addrs: []string{fmt.Sprintf("10.1.%d.1/24", i), fmt.Sprintf("fd01:0:0:%x::1/64", i)}}, o).B
		c.back = s.Lab.Link(lab.End{Host: c.server, Addrs: []string{fmt.Sprintf("10.2.%d.2/24", i), fmt.Sprintf("fd02:0:0:%x::2/64", i)}},
			lab.End{Host: t.router, Addrs: []string{fmt.Sprintf("10.2.%d.1/24", i), fmt.Sprintf("fd02:0:0:%x::1/64", i)}}, o).B
		for host, via := range map[*lab.Host][2]string{
			c.client: {fmt.Sprintf("10.1.%d.1", i), fmt.Sprintf("fd01:0:0:%x::1", i)}, c.server: {fmt.Sprintf("10.2.%d.1", i), fmt.Sprintf("fd02:0:0:%x::1", i)},
		} {
			host.Route("default", via[0])
			host.Route("default", via[1])
		}
		c.client.Sysctl("net.ipv4.tcp_tw_reuse", "1")
		c.client.Sysctl("net.ipv4.ip_local_port_range", "1024 65535")
		for _, l := range loggers {
			server, err := l.start(s, c.server)
			if err != nil {
				return nil, err
			}
			c.servers = append(c.servers, server)
		}
		t.list = append(t.list, c)
	}
	return t, nil
}

func (c *columns) vip(column, server int, v6 bool) netip.AddrPort {
	port := uint16(loggers[server].port)
	if v6 {
		return netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf("fd09::%x", 9+column)), port)
	}
	return netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf("10.9.9.%d", 9+column)), port)
}

func (c *columns) address(column, server int, v6 bool) netip.AddrPort {
	port := uint16(loggers[server].port)
	if v6 {
		return netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf("fd02:0:0:%x::2", column)), port)
	}
	return netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf("10.2.%d.2", column)), port)
}

// at finds the column, server and family of a case.
func at(c experiments.Case) (column, server int, v6 bool) {
	parts := strings.Split(c.Name, ", ")
	for i, l := range loggers {
		if l.name == parts[0] {
			server = i
		}
	}
	if parts[2] == "no offloads" {
		column = 1
	}
	return column, server, parts[1] == "IPv6"
}

func startColumns(_ context.Context, t *experiments.Turn[*columns]) error {
	s := t.Topology
	s.said = nil
	column, server, v6 := at(t.Case)
	file := filepath.Join(t.Lab.Dir(), "router.yaml")
	config := fmt.Sprintf("control: %q\nmetrics: \"127.0.0.1:9464\"\nstate: %q\nvips:\n  - {address: %q, interfaces: [%s], routes: [{pool: all}]}\n"+
		"pools:\n  all: {client_address: proxy-v2, legs: {max: 4000}, surrogates: [{name: s, address: %q}]}\n",
		filepath.Join(t.Lab.Dir(), "router.sock"), filepath.Join(t.Lab.BPFFS(), "router"), s.vip(column, server, v6), s.list[column].front.Name, s.address(column, server, v6))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return fmt.Errorf("configure the router: %w", err)
	}
	program := t.Options.Program
	p, err := s.router.Start(lab.Program{Path: program, Args: []string{"router", "run", "-c", file}})
	if err != nil {
		return err
	}
	t.Runs(p, "")
	t.OnEnd(func() error {
		if err := p.Stop(time.Minute); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err := s.router.Exec(ctx, program, "router", "cleanup", "-c", file)
		return err
	})
	return lab.Poll(20*time.Second, func() error {
		_, err := s.ask(context.Background(), column, s.vip(column, server, v6), netip.Addr{})
		return err
	})
}

// requestPath is before the client's own address in a request's path.
const requestPath = "/c/"

// ask makes a request on a connection of its own, and returns the client's address once the answer is whole.
func (c *columns) ask(ctx context.Context, column int, vip netip.AddrPort, from netip.Addr) (netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := c.list[column].client.DialFrom(ctx, "tcp", local(from), vip.String())
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute)) // fails only on a closed connection
	own := conn.LocalAddr().(*net.TCPAddr).AddrPort()
	own = netip.AddrPortFrom(own.Addr().Unmap(), own.Port())
	if _, err := fmt.Fprintf(conn, "GET %s%s/%d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", requestPath, own.Addr(), own.Port()); err != nil {
		return own, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return own, err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return own, err
	}
	if answer.StatusCode != http.StatusOK {
		return own, errors.New(answer.Status)
	}
	return own, nil
}

// said is what came of the requests of a case.
type said struct {
	asked, answered      int
	right, wrong, absent int
	first                string  // what was wrong
	again                float64 // headers that were made again
	took                 time.Duration
}

// askers is how many clients there are at the same time.
const askers = 200

// say makes the requests of a case, once a turn, and reads the server's log.
func (c *columns) say(ctx context.Context, t *experiments.Turn[*columns]) (*said, error) {
	if c.said != nil {
		return c.said, nil
	}
	column, server, v6 := at(t.Case)
	n := 1000
	if t.Options.Quick {
		n = 100
	}
	if t.Options.Connections > 0 {
		n = t.Options.Connections
	}
	log := c.list[column].servers[server]
	if err := log.skip(); err != nil {
		return nil, err
	}
	out, began := &said{asked: n}, time.Now()
	var (
		work sync.WaitGroup
		mu   sync.Mutex
	)
	for worker := range askers {
		work.Go(func() {
			from := netip.MustParseAddr(fmt.Sprintf("10.1.%d.%d", column, 16+worker%logClients))
			if v6 {
				from = netip.MustParseAddr(fmt.Sprintf("fd01:0:0:%x::%x", column, 16+worker%logClients))
			}
			for i := worker; i < n && ctx.Err() == nil; i += askers {
				_, err := c.ask(ctx, column, c.vip(column, server, v6), from)
				mu.Lock()
				if err == nil {
					out.answered++
				} else if out.first == "" {
					out.first = err.Error()
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	out.took = time.Since(began)
	c.said = out
	if err := ctx.Err(); err != nil {
		return out, err
	}
	var err error
	if out.again, err = scale.Metric(c.router, "packets_total", `verdict="inserted_again"`); err != nil {
		return out, err
	}
	return out, lab.Poll(10*time.Second, func() error { return out.read(log) })
}

// read compares the log with the requests, whose answers may come before their lines.
func (s *said) read(log *loggingServer) error {
	lines, err := log.lines()
	if err != nil {
		return err
	}
	s.right, s.wrong = 0, 0
	for _, l := range lines {
		if l.right() {
			s.right++
			continue
		}
		s.wrong++
		if s.first == "" {
			s.first = fmt.Sprintf("logged %q", l)
		}
	}
	s.absent = max(0, s.answered-len(lines))
	if s.absent > 0 && time.Since(log.grown) < logPatience {
		return fmt.Errorf("%d of %d requests are not logged", s.absent, s.answered)
	}
	return nil
}

// logPatience is how long a log may take to grow.
const logPatience = 5 * time.Second

const rightName = "right"

func logMeasures() []experiments.Measure[*columns] {
	measure := func(name, title string, less bool, of func(*said) int) experiments.Measure[*columns] {
		return experiments.Measure[*columns]{Name: name, Title: title, Unit: "connections", Less: less,
			Take: func(ctx context.Context, t *experiments.Turn[*columns]) (experiments.Sample, error) {
				s, err := t.Topology.say(ctx, t)
				if err != nil {
					return experiments.Sample{}, err
				}
				sample := experiments.Sample{Value: float64(of(s)), Also: map[string]float64{"seconds": s.took.Seconds(), "asked": float64(s.asked)}}
				if name == rightName && s.right < s.asked {
					sample.Errors, sample.First = int64(s.asked-s.right), s.first
				}
				return sample, nil
			}}
	}
	return []experiments.Measure[*columns]{
		measure(rightName, "Connections whose line in the log names their client", false, func(s *said) int { return s.right }),
		measure("wrong", "Lines in the log that name another client", true, func(s *said) int { return s.wrong }),
		measure("not logged", "Connections that were answered and have no line", true, func(s *said) int { return s.absent }),
		measure("made again", "Packets that a lost header went with or ahead of again", false, func(s *said) int { return int(s.again) }),
		measure("failed", "Connections without a whole answer", true, func(s *said) int { return s.asked - s.answered }),
	}
}

// rightShare is that of the requests of all cases.
func rightShare(r *experiments.Results) (experiments.Estimate, error) {
	right, asked := 0.0, 0.0
	for _, s := range r.Samples {
		if s.Measure == rightName {
			right += s.Value
			asked += s.Also["asked"]
		}
	}
	if asked == 0 {
		return experiments.Estimate{}, errors.New("no sample")
	}
	share := 100 * right / asked
	return experiments.Estimate{Median: share, Low: share, High: share, Rounds: 1}, nil
}

// local is an address to dial from; none is the kernel's choice.
func local(from netip.Addr) string {
	if !from.IsValid() {
		return ""
	}
	return netip.AddrPortFrom(from, 0).String()
}
