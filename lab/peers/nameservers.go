package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"baton/lab"
)

// NameServerOptions describe an authoritative name server of one zone.
type NameServerOptions struct {
	Zone    string // its name: "dizp.bt"
	Text    string // the zone file
	Port    int    // default: 53
	Workers int    // processes of NSD, threads of Knot for UDP; default: 1
	Config  string // more text for the section of the server
}

// NSD serves a zone with NSD. A zone file that it does not take fails the test with its log.
func NSD(h *lab.Host, o NameServerOptions) *Server {
	h.Lab().T().Helper()
	port := orDefault(o.Port, 53)
	config := fmt.Sprintf(`server:
	ip-address: 0.0.0.0
	ip-address: ::0
	port: %d
	server-count: %d
	username: ""
	chroot: ""
	zonesdir: "{dir}"
	database: ""
	pidfile: "{dir}/nsd.pid"
	xfrdfile: "{dir}/xfrd.state"
	zonelistfile: "{dir}/zone.list"
	xfrdir: "{dir}"
	reuseport: yes
	rrl-ratelimit: 0
	hide-version: yes
	%s
remote-control:
	control-enable: no
zone:
	name: "%s"
	zonefile: "zone"
`, port, orDefault(o.Workers, 1), o.Config, o.Zone)
	return startNameServer(server{
		host: h, name: h.Name(), program: "nsd", port: port, says: "nsd started",
		files: map[string]string{"nsd.conf": config, "zone": o.Text},
		args:  func(dir string) []string { return []string{"-d", "-c", dir + "/nsd.conf"} },
	}, o.Zone)
}

// Knot serves a zone with Knot DNS. A zone file that it does not take fails the test with its log.
func Knot(h *lab.Host, o NameServerOptions) *Server {
	h.Lab().T().Helper()
	port, workers := orDefault(o.Port, 53), orDefault(o.Workers, 1)
	config := fmt.Sprintf(`server:
    rundir: {dir}
    listen: [0.0.0.0@%d, ::@%d]
    udp-workers: %d
    tcp-workers: %d
    background-workers: 1
    automatic-acl: off
%s
log:
  - target: stderr
    any: info
database:
    storage: {dir}
zone:
  - domain: %s
    storage: {dir}
    file: zone
    zonefile-load: whole
    journal-content: none
`, port, port, workers, workers, o.Config, o.Zone)
	return startNameServer(server{
		host: h, name: h.Name(), program: "knotd", port: port, says: "server started",
		files: map[string]string{"knot.conf": config, "zone": o.Text},
		args:  func(dir string) []string { return []string{"-c", dir + "/knot.conf"} },
	}, o.Zone)
}

// startNameServer starts it, and returns when it answers for its zone.
func startNameServer(s server, zone string) *Server {
	t := s.host.Lab().T()
	t.Helper()
	s.host.Lab().Need("kdig")
	running := s.start()
	err := until(running.Process, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		said, err := Kdig(ctx, s.host, "127.0.0.1", "-p", strconv.Itoa(s.port), zone, "SOA", "+short", "+retry=0")
		if err == nil && said == "" {
			err = fmt.Errorf("it has no SOA of %s", zone)
		}
		return err
	})
	if err != nil {
		t.Fatalf("peers: %s on %s: %v\n%s", s.program, s.host.Name(), err, running.Logs())
	}
	return running
}

// Kdig queries a name server with kdig and returns what it prints.
func Kdig(ctx context.Context, h *lab.Host, server string, args ...string) (string, error) {
	h.Lab().Need("kdig")
	return h.Exec(ctx, "kdig", append([]string{"@" + server}, args...)...)
}

// DNSLoad is what dnsperf measured.
type DNSLoad struct {
	Sent, Lost int
	Rate       float64 // answers a second
	Latency    time.Duration
	Codes      map[string]int // answers by response code: NOERROR
}

// DNSPerfOptions describe a load of queries.
type DNSPerfOptions struct {
	Queries string // a line each: "cdn.dizp.bt A"
	Port    int    // default: 53
	For     time.Duration
	Clients int // sockets; default: dnsperf's (1)
	Rate    int // queries a second at most; 0: as many as it can
	Args    []string
}

var (
	dnsperfNumber = regexp.MustCompile(`(?m)^\s+(Queries sent|Queries lost|Queries per second|Average Latency \(s\)):\s+([0-9.]+)`)
	dnsperfCodes  = regexp.MustCompile(`(?m)^\s+Response codes:\s+(.*)$`)
	dnsperfCode   = regexp.MustCompile(`([A-Z]+) (\d+)`)
)

// DNSPerf loads a name server, and returns what dnsperf says of it.
func DNSPerf(ctx context.Context, h *lab.Host, server string, o DNSPerfOptions) (DNSLoad, error) {
	h.Lab().Need("dnsperf")
	args := []string{"-s", server, "-p", strconv.Itoa(orDefault(o.Port, 53)), "-l", fmt.Sprintf("%.3f", o.For.Seconds())}
	if o.Clients > 0 {
		args = append(args, "-c", strconv.Itoa(o.Clients))
	}
	if o.Rate > 0 {
		args = append(args, "-Q", strconv.Itoa(o.Rate))
	}
	// Without -n it reads its file again and again, which a pipe does not allow.
	file := filepath.Join(h.Lab().Dir(), "queries-"+h.Name())
	if err := os.WriteFile(file, []byte(o.Queries), 0o644); err != nil {
		return DNSLoad{}, err
	}
	out, err := h.Exec(ctx, "dnsperf", append(append(args, "-d", file), o.Args...)...)
	if err != nil {
		return DNSLoad{}, err
	}
	load := DNSLoad{Codes: map[string]int{}}
	numbers := map[string]float64{}
	for _, m := range dnsperfNumber.FindAllStringSubmatch(out, -1) {
		if numbers[m[1]], err = strconv.ParseFloat(m[2], 64); err != nil {
			return load, fmt.Errorf("dnsperf: %w", err)
		}
	}
	if len(numbers) != 4 {
		return load, fmt.Errorf("dnsperf says %q", out)
	}
	load.Sent, load.Lost = int(numbers["Queries sent"]), int(numbers["Queries lost"])
	load.Rate, load.Latency = numbers["Queries per second"], seconds(numbers["Average Latency (s)"])
	if codes := dnsperfCodes.FindString(out); codes != "" {
		for _, m := range dnsperfCode.FindAllStringSubmatch(strings.TrimSpace(codes), -1) {
			load.Codes[m[1]], _ = strconv.Atoi(m[2]) // the pattern has digits only
		}
	}
	return load, nil
}
