package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"baton/api"
	"baton/cmd/cli/part"
)

// topSample is what all parts do at a time. Rates are since the sample before; they are 0 without one.
type topSample struct {
	At       time.Time    `json:"at"`
	Parts    []topPart    `json:"parts"`
	Items    []topItem    `json:"items"`
	Verdicts []topVerdict `json:"verdicts"`
}

// topPart is a daemon. What it counts depends on the part: sessions and handoffs, flows, packets, queries.
type topPart struct {
	Part    string    `json:"part"`
	Name    string    `json:"name,omitempty"`
	Control string    `json:"control"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Live    uint64    `json:"live"`
	Lives   string    `json:"live_is"` // "sessions"
	Total   uint64    `json:"total"`
	Totals  string    `json:"total_is"` // "handoffs"
	Rate    float64   `json:"rate"`     // of the total, a second
	Error   string    `json:"error,omitempty"`
}

// topItem is a surrogate, an entry, a peer, a link, a port or the like.
type topItem struct {
	Part     string  `json:"part"`
	Control  string  `json:"control"`
	Kind     string  `json:"kind"`
	Name     string  `json:"name"`
	State    string  `json:"state"`
	Live     uint64  `json:"live"`
	Total    uint64  `json:"total"`
	Rate     float64 `json:"rate"`
	Bytes    uint64  `json:"bytes"`
	ByteRate float64 `json:"byte_rate"`
}

type topVerdict struct {
	Part    string  `json:"part"`
	Control string  `json:"control"`
	Verdict string  `json:"verdict"`
	Total   uint64  `json:"total"`
	Rate    float64 `json:"rate"`
}

// topSampler asks daemons.
type topSampler struct {
	sockets func() []string
	now     func() time.Time
	before  topSample
}

// topSockets are the control sockets that were named, or else those of all daemons of this host.
func topSockets(named []string) func() []string {
	return func() []string {
		if len(named) > 0 {
			return named
		}
		var all []string
		for _, p := range onHost() {
			all = append(all, p.Live()...)
		}
		return all
	}
}

// sample asks all daemons. One that does not answer is in the sample with its error.
func (t *topSampler) sample(ctx context.Context) topSample {
	s := topSample{At: t.now(), Parts: []topPart{}, Items: []topItem{}, Verdicts: []topVerdict{}}
	for _, socket := range t.sockets() {
		p := topPart{Control: socket}
		if err := s.add(ctx, &p); err != nil {
			p.Error = err.Error()
		}
		s.Parts = append(s.Parts, p)
	}
	s.rates(&t.before)
	t.before = s
	return s
}

// add asks a daemon and adds what it has.
func (s *topSample) add(ctx context.Context, p *topPart) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client := api.NewClient(p.Control)
	defer client.Close()
	process, err := client.Status(ctx)
	if err != nil {
		return err
	}
	p.Part, p.Name, p.PID, p.Started = process.Part, process.Name, process.PID, process.Started
	switch p.Part {
	case "router":
		return fetched(ctx, client.Router, func(x *api.RouterStatus) { s.router(p, x) })
	case "relay":
		return fetched(ctx, client.Relay, func(x *api.RelayStatus) { s.relay(p, x) })
	case "forwarder":
		return fetched(ctx, client.Forwarder, func(x *api.ForwarderStatus) { s.forwarder(p, x) })
	case "balance":
		return fetched(ctx, client.Balance, func(x *api.BalanceStatus) { s.balance(p, x) })
	case "anycast":
		return fetched(ctx, client.Anycast, func(x *api.AnycastStatus) { s.anycast(p, x) })
	case "purge":
		return fetched(ctx, client.Purge, func(x *api.PurgeStatus) { s.purge(p, x) })
	case "nameserver":
		return fetched(ctx, client.Nameserver, func(x *api.NameserverStatus) { s.nameserver(p, x) })
	case "controller":
		return fetched(ctx, client.Controller, func(x *api.ControllerStatus) { s.controller(p, x) })
	}
	return nil
}

func fetched[Status any](ctx context.Context, ask func(context.Context) (Status, error), use func(*Status)) error {
	x, err := ask(ctx)
	if err == nil {
		use(&x)
	}
	return err
}

func (s *topSample) item(p *topPart, i topItem) {
	i.Part, i.Control = p.Part, p.Control
	s.Items = append(s.Items, i)
}

func (s *topSample) verdicts(p *topPart, counts map[string]uint64) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 0 {
			s.Verdicts = append(s.Verdicts, topVerdict{Part: p.Part, Control: p.Control, Verdict: name, Total: counts[name]})
		}
	}
}

func (s *topSample) router(p *topPart, x *api.RouterStatus) {
	p.Live, p.Lives, p.Totals = uint64(x.Sessions), "sessions", "handoffs"
	for _, pool := range x.Pools {
		for i := range pool.Surrogates {
			u := &pool.Surrogates[i]
			p.Total += u.Handoffs
			s.item(p, topItem{Kind: "surrogate", Name: pool.Name + "/" + u.Name, State: topState(u), Live: uint64(u.Sessions + u.QUIC),
				Total: u.Handoffs, Bytes: u.BytesTo + u.BytesFrom})
		}
	}
	for i := range x.VIPs {
		if v := &x.VIPs[i]; v.Proxied != nil && v.Proxied.Total() > 0 {
			s.item(p, topItem{Kind: "proxied", Name: v.Address.String(), State: proxiedReasons(v.Proxied)[0],
				Live: uint64(v.Proxied.Live), Total: v.Proxied.Total()})
		}
	}
	s.verdicts(p, x.Packets)
	if x.QUIC != nil {
		p.Live += uint64(x.QUIC.Sessions)
		quic := make(map[string]uint64)
		for verdict, n := range x.QUIC.Packets {
			quic["quic "+verdict] = n
		}
		s.verdicts(p, quic)
	}
}

func topState(u *api.RouterSurrogate) string {
	switch {
	case u.Leaving:
		return "leaving"
	case u.Draining:
		return "draining"
	case u.Up:
		return "up"
	}
	return u.Phase
}

func (s *topSample) relay(p *topPart, x *api.RelayStatus) {
	p.Live, p.Lives, p.Totals = uint64(x.Flows.Used), "flows", "flows"
	for i := range x.Entries {
		e := &x.Entries[i]
		s.item(p, topItem{Kind: "entry", Name: e.Name, State: entryState(e), Live: uint64(e.Live), Total: e.Flows})
	}
	for i := range x.Workers {
		p.Total += x.Workers[i].Flows
	}
	for i := range x.Peers {
		e := &x.Peers[i]
		state := "up"
		if e.Down {
			state = "down"
		}
		s.item(p, topItem{Kind: "peer", Name: e.Name, State: state, Live: uint64(e.Ready), Total: e.Taken + e.Missed})
	}
	s.verdicts(p, x.Packets)
}

func (s *topSample) forwarder(p *topPart, x *api.ForwarderStatus) {
	p.Lives, p.Totals, p.Live = "entries", "packets", uint64(x.Entries.Used)
	all := x.Datapaths
	if len(all) == 0 {
		all = []api.ForwarderStatus{*x}
	}
	packets := make(map[string]uint64)
	for i := range all {
		for verdict, n := range all[i].Packets {
			packets[verdict] += n
			p.Total += n
		}
		for j := range all[i].Ports {
			o := &all[i].Ports[j]
			item := topItem{Kind: "port", Name: all[i].Name + "/" + o.Interface, State: linkState(o)}
			if c := o.Counters; c != nil {
				item.Total, item.Bytes = c.RxPackets+c.TxPackets, c.RxBytes+c.TxBytes
			}
			s.item(p, item)
		}
	}
	s.verdicts(p, packets)
}

func (s *topSample) balance(p *topPart, x *api.BalanceStatus) {
	p.Live, p.Lives, p.Totals = uint64(x.Flows.Used), "flows", "connections"
	for i := range x.Links {
		l := &x.Links[i]
		p.Total += l.Connections
		s.item(p, topItem{Kind: "link", Name: l.Name, State: l.State, Live: l.Flows, Total: l.Connections, Bytes: l.Sent + l.Received})
	}
	s.verdicts(p, x.Verdicts)
}

func (s *topSample) anycast(p *topPart, x *api.AnycastStatus) {
	p.Lives, p.Totals = "sessions", "changes"
	if site := x.Site; site != nil {
		p.Total = site.Changes
		s.item(p, topItem{Kind: "level", Name: site.Level, State: site.Health, Total: site.Changes})
		for _, o := range site.Peers {
			if o.State == "established" {
				p.Live++
			}
			s.item(p, topItem{Kind: "peer", Name: o.Name, State: o.State, Total: uint64(o.Ups)})
		}
	}
	if x.Planner != nil {
		for _, o := range x.Planner.Sites {
			state := "unknown"
			if o.Alive {
				state = "up"
			}
			s.item(p, topItem{Kind: "site", Name: o.Name, State: state})
		}
	}
}

func (s *topSample) purge(p *topPart, x *api.PurgeStatus) {
	p.Live, p.Lives, p.Totals = uint64(x.Waiting.Used), "marked", "marks"
	for i := range x.Policies {
		o := &x.Policies[i]
		p.Total += o.Marked
		s.item(p, topItem{Kind: "policy", Name: o.Name, State: policyState(o), Total: o.Ended})
	}
	s.verdicts(p, x.Verdicts)
}

func (s *topSample) nameserver(p *topPart, x *api.NameserverStatus) {
	p.Live, p.Lives, p.Total, p.Totals = uint64(x.Connections.Used), "connections", x.Queries, "queries"
	for i := range x.Surrogates {
		u := &x.Surrogates[i]
		state := u.State
		if !u.Up {
			state = "down"
		}
		s.item(p, topItem{Kind: "surrogate", Name: u.Name, State: state, Total: u.Chosen})
	}
	answers := maps.Clone(x.Answers)
	if answers == nil {
		answers = make(map[string]uint64)
	}
	maps.Copy(answers, x.Refused)
	s.verdicts(p, answers)
}

func (s *topSample) controller(p *topPart, x *api.ControllerStatus) {
	p.Live, p.Lives, p.Total, p.Totals = uint64(x.Hosts), "hosts", x.Packets, "packet-ins"
	for i := range x.Switches {
		w := &x.Switches[i]
		state := "not connected"
		if w.Up {
			state = w.Role
		}
		s.item(p, topItem{Kind: "switch", Name: w.Name, State: state, Live: uint64(w.Flows)})
	}
	s.verdicts(p, x.Refused)
}

// rates compares with the sample before. A counter that has become smaller is of a daemon that has restarted.
func (s *topSample) rates(before *topSample) {
	span := s.At.Sub(before.At).Seconds()
	if before.At.IsZero() || span <= 0 {
		return
	}
	old := make(map[string]uint64)
	for _, p := range before.Parts {
		old[p.Control] = p.Total
	}
	for _, i := range before.Items {
		old[i.key()], old[i.key()+" bytes"] = i.Total, i.Bytes
	}
	for _, v := range before.Verdicts {
		old[v.key()] = v.Total
	}
	rate := func(key string, now uint64) float64 {
		then, known := old[key]
		if !known || then > now {
			return 0
		}
		return float64(now-then) / span
	}
	for i := range s.Parts {
		s.Parts[i].Rate = rate(s.Parts[i].Control, s.Parts[i].Total)
	}
	for i := range s.Items {
		x := &s.Items[i]
		x.Rate, x.ByteRate = rate(x.key(), x.Total), rate(x.key()+" bytes", x.Bytes)
	}
	for i := range s.Verdicts {
		s.Verdicts[i].Rate = rate(s.Verdicts[i].key(), s.Verdicts[i].Total)
	}
}

func (i *topItem) key() string    { return i.Control + " " + i.Kind + " " + i.Name }
func (v *topVerdict) key() string { return v.Control + " verdict " + v.Verdict }

// topOrders are what items can be sorted by, by the key that people press.
var topOrders = map[byte]string{'l': "live", 'r': "rate", 'b': "bytes", 'n': "name"}

// sort orders the items, and the verdicts by their rate.
func (s *topSample) sort(by string) {
	slices.SortStableFunc(s.Items, func(a, b topItem) int {
		name := strings.Compare(a.Part+" "+a.Kind+" "+a.Name, b.Part+" "+b.Kind+" "+b.Name)
		switch by {
		case "live":
			return cmp.Or(cmp.Compare(b.Live, a.Live), name)
		case "rate":
			return cmp.Or(cmp.Compare(b.Rate, a.Rate), name)
		case "bytes":
			return cmp.Or(cmp.Compare(b.ByteRate, a.ByteRate), cmp.Compare(b.Bytes, a.Bytes), name)
		}
		return name
	})
	slices.SortStableFunc(s.Verdicts, func(a, b topVerdict) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Total, a.Total), strings.Compare(a.Verdict, b.Verdict))
	})
}

// check says why there is nothing to show.
func (s *topSample) check(all []*part.Part) error {
	if len(s.Parts) > 0 {
		return nil
	}
	return part.NoneRuns(all)
}
