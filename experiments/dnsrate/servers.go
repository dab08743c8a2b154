package dnsrate

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/miekg/dns"

	"baton/lab"
)

// A server is a name server that serves one zone at an address, with one process or thread that answers.
type server struct {
	program string
	version []string // arguments that print its version
	files   func(dir, origin, address string) map[string]string
	args    func(dir string) []string
	env     []string
}

var nsd = server{
	program: "nsd", version: []string{"-v"},
	files: func(dir, origin, address string) map[string]string {
		return map[string]string{"nsd.conf": fmt.Sprintf(`server:
  server-count: 1
  ip-address: %[3]s
  username: ""
  zonesdir: %[1]q
  database: ""
  pidfile: "%[1]s/nsd.pid"
  xfrdfile: "%[1]s/xfrd.state"
  zonelistfile: "%[1]s/zone.list"
  rrl-ratelimit: 0
  minimal-responses: yes
  refuse-any: yes
remote-control:
  control-enable: no
zone:
  name: %[2]q
  zonefile: "%[1]s/zone"
`, dir, origin, address)}
	},
	args: func(dir string) []string { return []string{"-d", "-c", dir + "/nsd.conf"} },
}

var knot = server{
	program: "knotd", version: []string{"--version"},
	files: func(dir, origin, address string) map[string]string {
		return map[string]string{"knot.conf": fmt.Sprintf(`server:
    listen: %[3]s@53
    rundir: %[1]q
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
database:
    storage: %[1]q
log:
  - target: stderr
    any: warning
zone:
  - domain: %[2]q
    file: "%[1]s/zone"
    zonefile-sync: -1
`, dir, origin, address)}
	},
	args: func(dir string) []string { return []string{"--config", dir + "/knot.conf"} },
}

// baton is the name server of a program baton-cdn. routed are names below the zone.
func baton(program, routed string) server {
	return server{
		program: program, version: []string{"version"},
		files: func(dir, origin, address string) map[string]string {
			services := ""
			if routed != "" {
				services = `services:
  content: {ttl: 20s}
policy:
  default: west
  sites:
    west: {clients: [10.0.0.0/24], surrogates: {se1: {addresses: [10.0.1.1]}, se2: {addresses: [10.0.1.2]}}}
    east: {clients: [10.0.2.0/24], surrogates: {se3: {addresses: [10.0.1.3]}}}
`
				routed = fmt.Sprintf(", routed: {%q: content}", routed)
			}
			return map[string]string{"nameserver.yaml": fmt.Sprintf("control: %[1]s/control.sock\nlisten: [%[3]q]\nsockets: 1\nlimits: none\nzones: [{name: %[2]q, file: zone%[4]s}]\n",
				dir, origin, net.JoinHostPort(address, "53"), routed) + services}
		},
		args: func(dir string) []string { return []string{"nameserver", "run", "-c", dir + "/nameserver.yaml"} },
		env:  []string{"GOMAXPROCS=1"},
	}
}

// start runs the server on a host, on one processor, and returns when it answers.
func (s server) start(host *lab.Host, origin, address, zone string) (p *lab.Process, version string, err error) {
	dir, err := os.MkdirTemp(host.Lab().Dir(), "dns-")
	if err != nil {
		return nil, "", err
	}
	files := s.files(dir, origin, address)
	files["zone"] = zone
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, "", err
		}
	}
	path, err := exec.LookPath(s.program)
	if err != nil {
		return nil, "", err
	}
	p, err = host.Start(lab.Program{Path: "taskset", Args: append([]string{"-c", "0", path}, s.args(dir)...), Env: s.env, Name: filepath.Base(s.program)})
	if err != nil {
		return nil, "", err
	}
	err = lab.Poll(20*time.Second, func() error {
		m := new(dns.Msg)
		m.SetQuestion(origin, dns.TypeSOA)
		a, err := exchange(host, address, "udp", m)
		if err == nil && a.Rcode != dns.RcodeSuccess {
			err = fmt.Errorf("%s answers %s", s.program, dns.RcodeToString[a.Rcode])
		}
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("%w\n%s", err, p.Log())
	}
	return p, s.said(), nil
}

var versionForm = regexp.MustCompile(`[0-9]+\.[0-9][0-9.]*|dev`)

func (s server) said() string {
	out, _ := exec.Command(s.program, s.version...).CombinedOutput()
	return strings.Replace(filepath.Base(s.program), "knotd", "knot", 1) + "/" + versionForm.FindString(string(out))
}

// exchange asks a server from a host.
func exchange(host *lab.Host, address, network string, m *dns.Msg) (a *dns.Msg, err error) {
	err = host.Do(func() error {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), network, net.JoinHostPort(address, "53"))
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
			return err
		}
		conn := &dns.Conn{Conn: c, UDPSize: 4096}
		if err := conn.WriteMsg(m); err != nil {
			return err
		}
		a, err = conn.ReadMsg()
		return err
	})
	return a, err
}
