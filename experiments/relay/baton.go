package relay

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"baton/api"
	"baton/experiments/load"
	"baton/lab"
	"baton/lab/peers"
)

// settings are what contenders of Baton differ in.
type settings struct {
	early      bool   // early_syn: optimistic
	trunks     bool   // between the relays; else each relay has an entry whose destination is the next one
	congestion string // of trunks; "": the default
	start      string // of trunks; "": the default
	learnt     bool   // the relays have had downloads before, until they learn nothing more
}

// The steps of the paper's figures 7 and 8, and what one gets without a word about it.
var (
	split   = settings{}
	early   = settings{early: true}
	trunks  = settings{early: true, trunks: true, congestion: "cubic", start: "system"}
	turbo   = settings{early: true, trunks: true, start: strconv.Itoa(turboWindow)}
	usually = settings{early: true, trunks: true, learnt: true}
)

// turboWindow is the paper's first window (segments): initcwnd of K-split's scripts.
const turboWindow = 2000

func steps() []Contender {
	return []Contender{
		baton("split", "`baton relay` on both relays, plain entries", split),
		baton("early", "split, and `early_syn: optimistic`", early),
		baton("trunks", "early, and trunks between the relays; CUBIC, the system's first window", trunks),
		baton("turbo", fmt.Sprintf("trunks with BBR and a first window of %d segments", turboWindow), turbo),
		baton("baton", "trunks with all defaults: BBR and a first window that is learnt, here from downloads of a second or so until it stays", usually),
	}
}

// baton is `baton relay` on all of the path's relays.
func baton(name, is string, o settings) Contender {
	return batonOn(name, is, o, func(t *Turn) []int {
		all := make([]int, len(t.Topology.Relays))
		for i := range all {
			all[i] = i
		}
		return all
	})
}

// batonOn is `baton relay` on some of the path's relays, by their numbers from 0.
func batonOn(name, is string, o settings, choose func(*Turn) []int) Contender {
	return Contender{Name: name, Is: is, Start: func(_ context.Context, t *Turn) error {
		p, chosen := t.Topology, choose(t)
		secret := filepath.Join(t.Lab.Dir(), "relays.secret")
		if err := writeSecret(secret); err != nil {
			return err
		}
		var running []*lab.Process
		for at := len(chosen) - 1; at >= 0; at-- {
			r, err := Start(t, p.Relays[chosen[at]], p.config(o, chosen, at, secret))
			if err != nil {
				return err
			}
			running = append(running, r)
		}
		p.front = front{target: netip.AddrPortFrom(p.address(chosen[0]), relayPort)}
		if err := Await(p.Client, p.front.target, running...); err != nil {
			return err
		}
		if err := p.inForce(o, chosen); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if o.learnt {
			return p.teach(p.Relays[chosen[len(chosen)-1]])
		}
		return nil
	}}
}

// config is what the relay at a place among the chosen ones reads.
func (p *Path) config(o settings, chosen []int, at int, secret string) string {
	h := p.Relays[chosen[at]]
	var b strings.Builder
	w := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	w("name: %s\ncontrol: %q", h.Name(), control(h))
	tuning := ""
	if o.congestion != "" {
		tuning += ", congestion: " + o.congestion
	}
	if o.start != "" {
		tuning += ", start: " + o.start
	}
	first, last := at == 0, at == len(chosen)-1
	linked := o.trunks && len(chosen) > 1
	if linked {
		w("plaintext: {secret_file: %q}", secret)
		if !first {
			w("trunks: {listen: [\"0.0.0.0:%d\"]%s}", trunkPort, tuning)
		}
		if !last {
			next := chosen[at+1]
			w("peers: [{name: %s, address: \"%v:%d\"%s}]", p.Relays[next].Name(), p.address(next), trunkPort, tuning)
		}
	}
	site := p.site()
	if linked && last {
		w("allow: [{prefix: %v/32, ports: [%d]}]", site.Addr(), site.Port())
	}
	if linked && !first {
		return b.String()
	}
	destination, more := site, ""
	switch {
	case linked:
		var via []string
		for _, i := range chosen[1:] {
			via = append(via, p.Relays[i].Name())
		}
		more = fmt.Sprintf(", via: [%s]", strings.Join(via, ", "))
	case !last:
		destination = netip.AddrPortFrom(p.address(chosen[at+1]), relayPort)
	}
	if o.early {
		more += fmt.Sprintf(", early_syn: optimistic, interfaces: [%s]", p.Legs[chosen[at]].B.Name)
	}
	w("entries: [{listen: \"0.0.0.0:%d\", destination: %q%s}]", relayPort, destination, more)
	return b.String()
}

// inForce says what of the settings has no effect: a configuration that is read and not obeyed would be measured as if it were.
func (p *Path) inForce(o settings, chosen []int) error {
	if o.early {
		if err := p.isEarly(p.Relays[chosen[0]]); err != nil {
			return fmt.Errorf("early_syn: %w", err)
		}
	}
	if o.trunks && len(chosen) > 1 {
		last := p.Relays[chosen[len(chosen)-1]]
		if err := lab.Poll(readiness, func() error { return o.tuned(last) }); err != nil {
			return fmt.Errorf("trunks: %w", err)
		}
	}
	return nil
}

// isEarly looks whether flows begin with their SYN.
func (p *Path) isEarly(first *lab.Host) error {
	const flows = 3
	before, err := begunEarly(first)
	if err != nil {
		return err
	}
	r, err := p.ask(load.Options{Path: "/128", Size: peers.Files["/128"], Connections: flows, Requests: flows})
	if err != nil {
		return err
	}
	after, err := begunEarly(first)
	if err == nil && after == before {
		err = fmt.Errorf("none of %d flows was begun by a SYN; the first byte came after %v", flows, time.Duration(r.FirstByte.Min()))
	}
	return err
}

func begunEarly(h *lab.Host) (n uint64, err error) {
	status, err := statusOf(h)
	for _, w := range status.Workers {
		n += w.Early
	}
	return n, err
}

// statusOf asks the relay of a host.
func statusOf(h *lab.Host) (api.RelayStatus, error) {
	client := api.NewClient(control(h))
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), readiness)
	defer cancel()
	return client.Relay(ctx)
}

// control is where the relay of a host can be talked to.
func control(h *lab.Host) string { return filepath.Join(h.Lab().Dir(), h.Name()+".sock") }

var windowOf = regexp.MustCompile(`\bcwnd:(\d+)`)

// tuned looks at the trunks of a relay that has accepted some: by which algorithm they send, and how much at once.
func (o settings) tuned(h *lab.Host) error {
	congestion := o.congestion
	if congestion == "" {
		congestion = "bbr"
	}
	least := 0
	if n, err := strconv.Atoi(o.start); err == nil {
		least = n
	}
	out, err := h.Exec(context.Background(), "ss", "-tinH", "state", "established", "sport", "=", fmt.Sprintf(":%d", trunkPort))
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		window := windowOf.FindStringSubmatch(line)
		if window == nil || !strings.Contains(line, " "+congestion+" ") {
			continue
		}
		if n, _ := strconv.Atoi(window[1]); n >= least { // those that have had a flow may have more, or less
			return nil
		}
	}
	return fmt.Errorf("none on %s sends by %s and begins with %d segments:\n%s", h.Name(), congestion, least, out)
}

// teach has the relays see downloads, with time to look at each, until the first window of the one that sends over the trunks stays.
func (p *Path) teach(sender *lab.Host) error {
	const (
		look = time.Second // how often a relay draws its conclusions
		same = 4           // times in a row: trunks with a new window are there some time after it
		most = 24
	)
	lesson := fileOf(10 << 20)
	if p.slow || p.route.legs[0].rate < fastAccess*1e6 {
		lesson = fileOf(1 << 20)
	}
	window, times := 0, 0
	for n := 0; n < most && times < same; n++ {
		began := time.Now()
		if _, err := p.ask(load.Options{Path: lesson.path, Size: lesson.size, Requests: 1}); err != nil {
			return fmt.Errorf("a download before the first: %w", err)
		}
		time.Sleep(look - time.Since(began))
		status, err := statusOf(sender)
		if err != nil {
			return err
		}
		now := 0
		for _, s := range status.Starts {
			if s.Trunks == "from" {
				now = max(now, s.Window)
			}
		}
		if times++; now > window+window/8 {
			window, times = now, 0
		}
	}
	return nil
}
