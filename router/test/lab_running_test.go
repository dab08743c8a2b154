package test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"baton/api"
	"baton/lab"
	"baton/lab/build"
)

// answersWithin bounds waits that should take milliseconds: test machines are busy.
const answersWithin = 20 * time.Second

// startsWithin is for a router to be ready: the kernel checks its programs first, half a minute's work for a machine that is twenty times slower.
const startsWithin = 2 * time.Minute

// running is a started `baton router`.
type running struct {
	*lab.Process
	n      *network
	file   string // router.yaml
	socket string
	state  string   // key state
	before []string // the router's host before
}

// start runs `baton router` on the router's host with this configuration, without its metrics, control and state, and returns when every
// surrogate that can have legs has one. Anything left after a passed test is a failure.
func (n *network) start(config string) *running {
	n.t.Helper()
	r, err := n.startWith(config)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if !n.t.Failed() {
			r.stop()
		}
	})
	return r
}

func (n *network) startWith(config string) (*running, error) {
	r, path, err := n.prepare(config)
	if err != nil {
		return nil, err
	}
	if r.Process, err = n.router.Start(lab.Program{Path: path, Args: []string{"router", "run", "-c", r.file}}); err != nil {
		return nil, err
	}
	return r, r.await()
}

// prepare writes the configuration and records the state of the router's host. The caller starts the program at path.
func (n *network) prepare(config string) (r *running, path string, err error) {
	if path, err = build.Program("baton"); err != nil {
		return nil, "", err
	}
	r = &running{
		n: n, file: filepath.Join(n.Dir(), "router.yaml"), socket: filepath.Join(n.Dir(), "router.sock"),
		state: filepath.Join(n.BPFFS(), "router"),
	}
	if err := r.configure(config); err != nil {
		return nil, "", err
	}
	r.before, err = n.traces()
	return r, path, err
}

// reload has the router read its file again.
func (r *running) reload(t lab.T) {
	t.Helper()
	client := api.NewClient(r.socket)
	defer client.Close()
	if _, err := client.Reload(context.Background()); err != nil {
		t.Fatalf("%v", err)
	}
}

// configure writes a configuration, without its metrics, control and state, for the next start or reload.
func (r *running) configure(config string) error {
	listen := fmt.Sprintf("metrics: %q\ncontrol: %q\nstate: %q\n", "127.0.0.1:9464", r.socket, r.state)
	return os.WriteFile(r.file, []byte(listen+config), 0o600)
}

// await returns when each surrogate is up and has an idle leg, or can only be proxied.
func (r *running) await() error {
	client := api.NewClient(r.socket)
	defer client.Close()
	var ended error
	err := lab.Poll(startsWithin, func() error {
		select {
		case <-r.Done():
			ended = fmt.Errorf("router has ended:\n%s", r.Log())
			return nil
		default:
		}
		if !strings.Contains(r.Log(), "msg=ready") {
			return fmt.Errorf("router is not ready:\n%s", r.Log())
		}
		status, err := client.Router(context.Background())
		if err != nil {
			return err
		}
		handoff := slices.ContainsFunc(status.VIPs, func(v api.RouterVIP) bool { return v.Mode == "handoff" && v.Protocol != "quic" })
		for _, p := range status.Pools {
			for _, s := range p.Surrogates {
				if !s.Up {
					return fmt.Errorf("%s is %s: %s", s.Name, s.Phase, s.LastError)
				}
				if handoff && s.Proxied == "" && s.IdleLegs == 0 && s.LegsMode == "ready" && r.spliced(s) {
					return fmt.Errorf("%s has no leg:\n%s", s.Name, r.Log())
				}
			}
		}
		return nil
	})
	return errors.Join(err, ended)
}

// spliced reports whether the log does not report the surrogate as proxied.
func (r *running) spliced(s api.RouterSurrogate) bool {
	return !strings.Contains(r.Log(), s.Address.String()+" is of another address family")
}

// stop ends the router once no session is left, and fails the test for every trace of it.
func (r *running) stop() {
	t := r.n.t
	t.Helper()
	select {
	case <-r.Done():
		return // the test has ended it
	default:
	}
	client := api.NewClient(r.socket)
	defer client.Close()
	err := lab.Poll(answersWithin, func() error {
		for s, err := range client.RouterSessions(context.Background(), api.RouterSessionsQuery{}) {
			if err != nil {
				return err
			}
			return fmt.Errorf("session %+v is left", s)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if err := r.left(); err != nil {
		t.Errorf("left behind: %v\n%s", err, r.Log())
	}
}

// end sends SIGTERM and returns the exit status.
func (r *running) end() error {
	if err := r.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), answersWithin)
	defer cancel()
	if err := r.Wait(ctx); err != nil {
		return fmt.Errorf("router does not end well: %w\n%s", err, r.Log())
	}
	return nil
}

// left lists what the router has left on its host.
func (r *running) left() error {
	if entries, err := os.ReadDir(r.state); err == nil {
		return fmt.Errorf("%d pins in %s", len(entries), r.state)
	}
	if _, err := os.Stat(r.socket); err == nil {
		return errors.New("the control socket")
	}
	return lab.Poll(answersWithin, func() error {
		after, err := r.n.traces()
		if err != nil {
			return err
		}
		for _, line := range after {
			if !slices.Contains(r.before, line) {
				return errors.New(line)
			}
		}
		for _, line := range r.before {
			if !slices.Contains(after, line) {
				return fmt.Errorf("no more: %s", line)
			}
		}
		return nil
	})
}

// traces are the router host's links, addresses, routes and rules, and the programs on its interfaces.
func (n *network) traces() ([]string, error) {
	var out []string
	ctx, cancel := context.WithTimeout(context.Background(), answersWithin)
	defer cancel()
	for _, command := range []string{
		"-o addr", "-4 route show table all", "-6 route show table all", "-4 rule", "-6 rule",
	} {
		text, err := n.router.Exec(ctx, "ip", strings.Fields(command)...)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			// Ignores learnt path MTUs and redirects, and what the kernel adds when a link gets carrier.
			if !strings.Contains(line, " expires ") && !strings.Contains(line, "fe80:") && !strings.Contains(line, "proto kernel") {
				out = append(out, "ip "+command+": "+strings.TrimSpace(line))
			}
		}
	}
	links, err := n.router.Netlink().LinkList()
	if err != nil {
		return nil, err
	}
	err = n.router.Do(func() error {
		for _, l := range links {
			out = append(out, "interface "+l.Attrs().Name)
			for _, side := range []struct {
				name       string
				attachType uint32
			}{{"ingress", 46}, {"egress", 47}} { // BPF_TCX_INGRESS, BPF_TCX_EGRESS
				count, err := programs(l.Attrs().Index, side.attachType)
				if err != nil {
					return err
				}
				out = append(out, fmt.Sprintf("%d programs at %s of %s", count, side.name, l.Attrs().Name))
			}
		}
		return nil
	})
	return out, err
}

// programs counts the tcx programs of an interface in this thread's namespace (BPF_PROG_QUERY).
func programs(ifindex int, attachType uint32) (int, error) {
	const query = 16
	attr := struct {
		ifindex, attachType, queryFlags, attachFlags uint32
		ids                                          uint64
		count, _                                     uint32
		attachFlagsOut, linkIDs, linkFlags, revision uint64
	}{ifindex: uint32(ifindex), attachType: attachType}
	_, _, errno := unix.Syscall(unix.SYS_BPF, query, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 && errno != unix.ENOENT { // ENOENT: nothing was ever attached
		return 0, fmt.Errorf("query programs of interface %d: %w", ifindex, errno)
	}
	return int(attr.count), nil
}

// metrics are the router's series, by name with labels as exposed.
func (r *running) metrics() map[string]float64 {
	t := r.n.t
	t.Helper()
	client := r.n.router.HTTPClient(answersWithin)
	defer client.CloseIdleConnections()
	response, err := client.Get("http://127.0.0.1:9464/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %s", response.Status)
	}
	out := make(map[string]float64)
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, value, ok := cutLast(lines.Text(), " ")
		if !ok || name[0] == '#' {
			continue
		}
		if out[name], err = strconv.ParseFloat(value, 64); err != nil {
			t.Fatalf("metrics: %q: %v", lines.Text(), err)
		}
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return out
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i > 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// fallbacks counts the requests that the user-space server of a VIP answered, proxied, redirected or refused.
func (r *running) fallbacks(vip string) float64 {
	r.n.t.Helper()
	sum := 0.0
	for name, value := range r.metrics() {
		if strings.HasPrefix(name, "baton_router_fallback_requests_total") && strings.Contains(name, fmt.Sprintf("vip=%q", vip)) {
			sum += value
		}
	}
	return sum
}

func (r *running) status() api.RouterStatus {
	r.n.t.Helper()
	client := api.NewClient(r.socket)
	defer client.Close()
	status, err := client.Router(context.Background())
	if err != nil {
		r.n.t.Fatal(err)
	}
	return status
}

// verdicts counts packets by verdict.
func (r *running) verdicts() map[string]float64 {
	r.n.t.Helper()
	out := make(map[string]float64)
	for name, value := range r.metrics() {
		if m := verdictName.FindStringSubmatch(name); m != nil {
			out[m[1]] = value
		}
	}
	return out
}

var verdictName = regexp.MustCompile(`^baton_router_packets_total\{verdict="([^"]+)"\}$`)
