package adversary

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"baton/api"
	"baton/experiments/adversary/script"
	"baton/lab"
)

const metricsAddress = "127.0.0.1:9464"

// baton is this project's router, with a `reuse` for the pools of honest surrogates, and one for the adversary's.
func baton(name, reuse, odd string) contender {
	is := fmt.Sprintf("`baton router`, VIPs of mode `handoff` and `proxy`, `reuse: %s`", reuse)
	if odd != reuse {
		is += fmt.Sprintf(", of the adversary's surrogate `%s`", odd)
	}
	return contender{name: name, is: is, start: func(_ context.Context, n *network, program string) (subject, error) {
		return startBaton(n, program, n.routerConfig(reuse, odd))
	}}
}

// router is a running `baton router`.
type router struct {
	*lab.Process
	n             *network
	program, file string
	client        *api.Client
	http          *http.Client
	memory        int // bytes, when ready
	before        map[string]float64
	packets       uint64

	mu   sync.Mutex
	said map[string]bool // findings reported once
}

func startBaton(n *network, program, config string) (subject, error) {
	dir := n.Dir()
	r := &router{n: n, program: program, file: filepath.Join(dir, "router.yaml"), client: api.NewClient(filepath.Join(dir, "router.sock")),
		http: n.router.HTTPClient(5 * time.Second), said: map[string]bool{}}
	if err := os.WriteFile(r.file, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("configure the router: %w", err)
	}
	var err error
	if r.Process, err = n.router.Start(lab.Program{Path: program, Args: []string{"router", "run", "-c", r.file}}); err != nil {
		return nil, err
	}
	if err := lab.Poll(20*time.Second, r.ready); err != nil {
		return nil, errors.Join(fmt.Errorf("the router is not ready: %w\n%s", err, r.Log()), r.stop())
	}
	if r.memory, err = resident(r.Pid()); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	if r.before, err = r.metrics(); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	r.packets = n.packets()
	return r, nil
}

// routerConfig has short timeouts, except timeouts.idle, on which nothing may depend.
func (n *network) routerConfig(reuse, odd string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "control: %q\nmetrics: %q\nstate: %q\n", filepath.Join(n.Dir(), "router.sock"), metricsAddress, filepath.Join(n.BPFFS(), "router"))
	b.WriteString("timeouts: {handshake: 3s, idle: 1h, closing: 1s}\nlimits: {pending: 250}\nvips:\n")
	for _, v := range []struct{ address, mode string }{{handoffVIP.String(), "handoff"}, {proxyVIP.String(), "proxy"}} {
		fmt.Fprintf(&b, "  - address: %q\n    mode: %s\n    interfaces: [%s]\n    routes:\n", v.address, v.mode, n.front.Name)
		b.WriteString("      - {match: {path_prefix: /a/}, pool: a}\n      - {match: {path_prefix: /b/}, pool: b}\n" +
			"      - {match: {path_prefix: /p/}, pool: p}\n      - {match: {path_prefix: /x/}, pool: odd}\n" +
			"      - {match: {path_prefix: /l/}, pool: l}\n      - {match: {path_regex: '^/u/a/'}, pool: a}\n")
	}
	b.WriteString("pools:\n")
	for _, pool := range pools {
		kind := reuse
		if pool == "odd" {
			kind = odd
		}
		fmt.Fprintf(&b, "  %s:\n    reuse: %s\n    legs: {min: 4, max: 1000}\n    surrogates:\n", pool, kind)
		for _, s := range n.members(pool) {
			fmt.Fprintf(&b, "      - {name: %s, address: %q}\n", s.name, s.address)
		}
	}
	return b.String()
}

// pools are those that routes lead to.
var pools = []string{"a", "b", "p", "odd", "l"}

type member struct{ name, address string }

// members are the surrogates of a pool.
func (n *network) members(pool string) (list []member) {
	if pool == "l" {
		return []member{{"near", localAddress}}
	}
	for _, s := range n.sites {
		switch {
		case s.pool == pool:
			list = append(list, member{s.name, s.address.String()})
		case pool == "p" && s.server == nil && s.pool != "odd":
			list = append(list, member{"p" + s.name, s.address.Addr().String() + ":81"})
		}
	}
	return list
}

func (r *router) version() string { return "" }

func (r *router) ready() error {
	select {
	case <-r.Done():
		return errors.New("it has ended")
	default:
	}
	status, err := r.client.Router(context.Background())
	if err != nil {
		return err
	}
	for _, p := range status.Pools {
		for _, s := range p.Surrogates {
			if !s.Up || s.Proxied == "" && s.IdleLegs < 4 {
				return fmt.Errorf("%s is %s with %d idle legs", s.Name, s.Phase, s.IdleLegs)
			}
		}
	}
	return nil
}

// once reports a finding the first time.
func (r *router) once(k Kind, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	seen := r.said[text]
	r.said[text] = true
	r.mu.Unlock()
	if !seen {
		r.n.ledger.add(k, "%s", text)
	}
}

// moreMemory is the allowed growth of the process (bytes).
const moreMemory = 64 << 20

func (r *router) check(ctx context.Context) {
	select {
	case <-r.Done():
		r.once(Process, "the router has ended: %s", tail(r.Log(), 2000))
		return
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	status, err := r.client.Router(ctx)
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return
	}
	if err != nil {
		r.once(Process, "the router does not say how it is: %v", err)
		return
	}
	for _, p := range status.Pools {
		for _, s := range p.Surrogates {
			if !s.Up && s.Name != "odd" {
				r.once(Down, "%s is %s since %v: %s", s.Name, s.Phase, s.Since.Format(time.TimeOnly), s.LastError)
			}
		}
	}
	if now, err := resident(r.Pid()); err == nil && now > r.memory+moreMemory {
		r.once(Process, "the router holds more than %d bytes more than at its start", moreMemory)
	}
}

func (r *router) settle(ctx context.Context, b Batch) {
	forged := script.Forged(b.Scripts)
	if err := lab.Poll(settleWithin, func() error { return r.settled(ctx, forged) }); err != nil {
		r.n.ledger.add(Legs, "%v after all have left, %v:\n%s", settleWithin, err, r.sessions(ctx))
	}
	now, err := r.metrics()
	if err != nil {
		r.once(Process, "metrics: %v", err)
		return
	}
	r.transitions(now)
	if b.Class == script.Stranger {
		r.lostLegs(now)
	}
	r.sums(now)
	r.before, r.packets = now, r.n.packets()
}

// settled reports leftover sessions, and differences between the router's legs and the surrogates' connections. A surrogate that
// forges segments of its own connections may have ended some itself.
func (r *router) settled(ctx context.Context, forged bool) error {
	status, err := r.client.Router(ctx)
	if err != nil {
		return err
	}
	if status.Sessions > 0 {
		return fmt.Errorf("%d sessions are left", status.Sessions)
	}
	m, err := r.metrics()
	if err != nil {
		return err
	}
	for _, p := range status.Pools {
		for _, s := range p.Surrogates {
			if s.Proxied != "" {
				continue
			}
			legs := func(state string) float64 { return m[legSeries(p.Name, s.Name, state)] }
			if n := legs("spliced"); n > 0 || s.Sessions > 0 {
				return fmt.Errorf("%s has %v legs in use and %d sessions", s.Name, n, s.Sessions)
			}
			if legs("opening") > 0 {
				return fmt.Errorf("%s has legs on their way", s.Name)
			}
			if legs("idle") != float64(s.IdleLegs) {
				return fmt.Errorf("%s has %v idle legs by the metrics, %d by the status", s.Name, legs("idle"), s.IdleLegs)
			}
			have, err := r.n.connections(s)
			if err != nil {
				return err
			}
			if have != s.IdleLegs && !(forged && p.Name == "odd") {
				return fmt.Errorf("%s has %d connections for %d idle legs", s.Name, have, s.IdleLegs)
			}
		}
	}
	return nil
}

func legSeries(pool, surrogate, state string) string {
	return fmt.Sprintf("baton_router_legs{pool=%q,state=%q,surrogate=%q}", pool, state, surrogate)
}

// transitions finds surrogates that were down between two checks.
func (r *router) transitions(now map[string]float64) {
	for name, value := range now {
		if strings.HasPrefix(name, "baton_router_surrogate_transitions_total") && strings.Contains(name, `phase="down"`) &&
			!strings.Contains(name, `surrogate="odd"`) && value > r.before[name] {
			r.n.ledger.add(Down, "%s grew by %v", name, value-r.before[name])
		}
	}
}

// lostLegs finds idle legs that have ended although no surrogate closes any: an attacker's effect.
func (r *router) lostLegs(now map[string]float64) {
	for name, value := range now {
		if !strings.HasPrefix(name, "baton_router_leg_events_total") || value <= r.before[name] {
			continue
		}
		for _, event := range []string{"closed idle", "reset idle", "refused", "failed"} {
			if strings.Contains(name, fmt.Sprintf("event=%q", event)) {
				r.n.ledger.add(Legs, "%s grew by %v though no surrogate has ended an idle connection", name, value-r.before[name])
			}
		}
	}
}

// sums compares the verdicts with the packets of the interfaces: one per packet, or two after an upcall.
func (r *router) sums(now map[string]float64) {
	verdicts, upcalls := 0.0, 0.0
	for name, value := range now {
		if !strings.HasPrefix(name, "baton_router_packets_total{") {
			continue
		}
		verdicts += value - r.before[name]
		if strings.Contains(name, `"upcall"`) {
			upcalls += value - r.before[name]
		}
	}
	packets := float64(r.n.packets() - r.packets)
	const slack = 200 // packets in flight, ARP, IPv6
	if verdicts < packets-slack || verdicts > packets+2*upcalls+slack {
		r.n.ledger.add(Process, "%v packets have come and %v verdicts were given, %v of them upcalls", packets, verdicts, upcalls)
	}
}

// metrics are the router's series.
func (r *router) metrics() (map[string]float64, error) {
	response, err := r.http.Get("http://" + metricsAddress + "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	out := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		text := lines.Text()
		at := strings.LastIndex(text, " ")
		if at < 0 || text[0] == '#' {
			continue
		}
		if out[text[:at]], err = strconv.ParseFloat(text[at+1:], 64); err != nil {
			return nil, fmt.Errorf("metrics: %q: %w", text, err)
		}
	}
	return out, nil
}

func (r *router) sessions(ctx context.Context) string {
	var b strings.Builder
	count := 0
	for s, err := range r.client.RouterSessions(ctx, api.RouterSessionsQuery{}) {
		if err != nil {
			return err.Error()
		}
		if count++; count <= 12 {
			fmt.Fprintf(&b, "  %v %s %s, leg %v, idle for %v, %d requests\n", s.Client, s.State, s.Surrogate, s.Leg.Local, s.IdleFor.Round(time.Millisecond), s.Requests)
			if whose, ok := r.n.crowd.script(s.Client); ok {
				fmt.Fprintf(&b, "    of %s\n", whose)
			}
		}
	}
	return b.String()
}

func (r *router) dump() string {
	m, err := r.metrics()
	if err != nil {
		return err.Error()
	}
	var lines []string
	for name, value := range m {
		if value != 0 && (strings.HasPrefix(name, "baton_router_packets_total") || strings.HasPrefix(name, "baton_router_leg_events_total")) {
			lines = append(lines, fmt.Sprintf("  %s %v", strings.TrimPrefix(name, "baton_router_"), value))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (r *router) stop() error {
	r.client.Close()
	r.http.CloseIdleConnections()
	if err := r.Stop(10 * time.Second); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := r.n.router.Exec(ctx, r.program, "router", "cleanup", "-c", r.file)
	return err
}

// resident is a process's resident memory, in bytes.
func resident(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	pages, err := strconv.Atoi(fields[1])
	return pages * os.Getpagesize(), err
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
