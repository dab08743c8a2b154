package http3

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"baton/experiments"
	"baton/lab/peers"
	"baton/packet/quic"
)

// situation is a column of the matrix.
type situation struct {
	name string
	try  func(context.Context, *attempt) error
}

// situations are those of the QUIC interop runner that concern a router.
var situations = []situation{
	{"handshake", handshake},
	{"transfer", transfer},
	{"retry", retried},
	{"resumption", resumed},
	{"0-RTT", early},
	{"v2", secondVersion},
	{"loss", loss},
	{"amplification", amplification},
	{"rebind port", func(ctx context.Context, a *attempt) error { return rebound(ctx, a, false) }},
	{"rebind address", func(ctx context.Context, a *attempt) error { return rebound(ctx, a, true) }},
	{"migration", migration},
}

// everything stands for all situations, in what a server lacks.
const everything = "everything"

// attempt is a client and a server in a situation.
type attempt struct {
	t      *Topology
	client client
	server *server
}

// tryWithin is for a situation; those with losses wait for timeouts.
const tryWithin = 40 * time.Second

// lacks is why a pair has no such situation, or "".
func (a *attempt) lacks(situation string) string {
	for _, of := range []map[string]string{a.server.lacks, a.client.lacks} {
		for _, key := range []string{everything, situation} {
			if why := of[key]; why != "" {
				return why
			}
		}
	}
	if situation == "resumption" || situation == "0-RTT" {
		if a.client.name == "chromium" && (a.server.kind == "caddy" || a.server.kind == "nginx") {
			return "neither ends a connection by itself, and the client keeps no session for its next run"
		}
	}
	return ""
}

// visit sends the client to the server, directly or through the contender.
func (a *attempt) visit(ctx context.Context, way variant, v peers.Visit) ([]peers.Visited, error) {
	v.To = a.t.target(a.server, way)
	return a.send(ctx, way, v)
}

func (a *attempt) send(ctx context.Context, way variant, v peers.Visit) ([]peers.Visited, error) {
	v.Name, v.Authorities = a.server.name(way), a.t.authority
	all, err := a.client.visit(ctx, a.t.client, v)
	for _, one := range all {
		if err == nil && one.Surrogate != a.server.kind {
			err = fmt.Errorf("answered by %q", one.Surrogate)
		}
	}
	return all, err
}

// behind is visit by way of a NAT.
func (a *attempt) behind(ctx context.Context, c conditions, way variant, v peers.Visit) ([]peers.Visited, witness, error) {
	n, err := newNAT(a.t.client, a.t.target(a.server, way), addresses, c)
	if err != nil {
		return nil, witness{}, err
	}
	defer n.close()
	v.To = natAddress
	all, err := a.send(ctx, way, v)
	return all, n.witnessed(), err
}

const (
	small = "/128"
	some  = "/4m"
)

func handshake(ctx context.Context, a *attempt) error {
	_, seen, err := a.behind(ctx, conditions{}, plain, peers.Visit{Path: small})
	if err == nil && seen.toServer[quic.Handshake] == 0 {
		err = errors.New("no Handshake packet passed")
	}
	return err
}

// transfer has no NAT, so that packets of several datagrams (GSO, GRO) meet the router as they are.
func transfer(ctx context.Context, a *attempt) error {
	_, err := a.visit(ctx, plain, peers.Visit{Path: some})
	return err
}

func retried(ctx context.Context, a *attempt) error {
	_, seen, err := a.behind(ctx, conditions{}, retry, peers.Visit{Path: "/100k"})
	if err == nil && seen.toClient[quic.Retry] == 0 {
		err = errors.New("no Retry passed")
	}
	return err
}

func resumed(ctx context.Context, a *attempt) error {
	all, seen, err := a.behind(ctx, conditions{}, big, peers.Visit{Path: small, Again: true})
	switch {
	case err != nil:
		return err
	case len(seen.handshakes) < 2:
		return errors.New("there was one connection")
	case !all[1].Resumed && !(a.server.silent && seen.handshakes[1] < seen.handshakes[0]/2):
		return errors.New("the session was not resumed")
	}
	return nil
}

func early(ctx context.Context, a *attempt) error {
	all, seen, err := a.behind(ctx, conditions{}, plain, peers.Visit{Path: small, Again: true, Early: true})
	switch {
	case err != nil:
		return err
	case seen.toServer[quic.ZeroRTT] == 0:
		return errors.New("the client sent no early data")
	case !all[1].Early && !a.server.silent:
		return errors.New("the server refused early data")
	}
	return nil
}

func secondVersion(ctx context.Context, a *attempt) error {
	all, seen, err := a.behind(ctx, conditions{}, plain, peers.Visit{Path: "/100k", Version: uint32(quic.Version2)})
	switch {
	case err != nil:
		return err
	case seen.versions[quic.Version2] == 0 || len(seen.versions) != 1 || all[0].Version != uint32(quic.Version2):
		return fmt.Errorf("packets by version: %v", seen.versions)
	}
	return nil
}

func loss(ctx context.Context, a *attempt) error {
	_, seen, err := a.behind(ctx, conditions{loss: 0.03}, plain, peers.Visit{Path: "/1m"})
	if err == nil && seen.lost == 0 {
		err = errors.New("nothing was lost")
	}
	return err
}

// amplification loses the first and the second datagram of a client: the second part of a hello of two. The server's first flight is more than it may send.
func amplification(ctx context.Context, a *attempt) error {
	for lose := range 2 {
		_, seen, err := a.behind(ctx, conditions{lose: lose + 1}, big, peers.Visit{Path: small})
		switch {
		case err != nil:
			return fmt.Errorf("without the client's datagram %d: %w", lose+1, err)
		case seen.amplified != "":
			return errors.New(seen.amplified)
		case seen.lost != 1:
			return errors.New("nothing was lost")
		}
	}
	return nil
}

const rebinds = 3

func rebound(ctx context.Context, a *attempt, address bool) error {
	before, err := a.moved(ctx)
	if err != nil {
		return err
	}
	_, seen, err := a.behind(ctx, conditions{rebind: 1 << 20, most: rebinds, readdr: address}, plain, peers.Visit{Path: some})
	if err != nil {
		return err
	}
	after, err := a.moved(ctx)
	switch {
	case err != nil:
		return err
	case seen.rebound != rebinds:
		return fmt.Errorf("the client's address changed %d times, want %d", seen.rebound, rebinds)
	case a.t.status != nil && after == before:
		return errors.New("the router has followed none of the changes")
	}
	return nil
}

func migration(ctx context.Context, a *attempt) error {
	before, err := a.moved(ctx)
	if err != nil {
		return err
	}
	all, err := a.visit(ctx, named, peers.Visit{Path: some, Migrate: addresses[1]})
	if err != nil {
		return err
	}
	after, err := a.moved(ctx)
	switch {
	case err != nil:
		return err
	case !all[0].Migrated:
		return errors.New("the client did not migrate")
	case a.t.status != nil && after == before:
		return errors.New("the router did not follow")
	}
	return nil
}

// moved is how many sessions the router has made because a client's address changed.
func (a *attempt) moved(ctx context.Context) (uint64, error) {
	if a.t.status == nil {
		return 0, nil
	}
	q, err := a.t.status(ctx)
	if err != nil || q == nil {
		return 0, errors.Join(errors.New("the router has no QUIC"), err)
	}
	return q.Moved, nil
}

// result is what came of a pair: by situation nil, a failure, or why it is not offered.
type result struct {
	failed  map[string]error
	lacking map[string]string
}

// all tries a pair in all situations.
func (a *attempt) all(ctx context.Context) result {
	r := result{failed: make(map[string]error), lacking: make(map[string]string)}
	for _, s := range situations {
		if why := a.lacks(s.name); why != "" {
			r.lacking[s.name] = why
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, tryWithin)
		r.failed[s.name] = s.try(ctx, a)
		cancel()
	}
	return r
}

// interop counts the situations that work.
func interop() measure {
	return measure{
		Name: "interop", Title: "Situations that work", Unit: "situations",
		Take: func(ctx context.Context, t *turn) (experiments.Sample, error) {
			of, at, _ := strings.Cut(t.Case.Name, " → ")
			all := clients()
			i := slices.IndexFunc(all, func(c client) bool { return c.name == of })
			a := &attempt{t.Topology, all[i], t.Topology.serverOf(at)}
			r := a.all(ctx)
			s := experiments.Sample{Also: make(map[string]float64), Notes: r.lacking}
			for _, situation := range situations {
				err, tried := r.failed[situation.name]
				switch {
				case !tried:
				case err == nil:
					s.Value++
					s.Also[situation.name] = 1
				default:
					s.Also[situation.name] = 0
					s.Notes[situation.name] = err.Error()
					s.Errors++
				}
			}
			return s, nil
		},
	}
}

// worst is the least share of situations that work directly and through Baton, too.
func worst(r *experiments.Results) (experiments.Estimate, error) {
	var least experiments.Estimate
	for _, c := range r.Cases {
		if e := r.Ratio(c.Name, "baton", "direct", "interop"); e.Rounds > 0 && (least.Rounds == 0 || e.Median < least.Median) {
			least = e
		}
	}
	if least.Rounds == 0 {
		return least, errors.New("not measured: interop")
	}
	return least, nil
}

// matrix is the table of clients, servers and situations, with the reasons for what did not work.
func matrix(r *experiments.Results) string {
	var b strings.Builder
	head := []string{"Client → server"}
	for _, s := range situations {
		head = append(head, s.name)
	}
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	var notes []string
	note := func(text string) int {
		if i := slices.Index(notes, text); i >= 0 {
			return i + 1
		}
		notes = append(notes, text)
		return len(notes)
	}
	rows := 0
	for _, c := range r.Cases {
		through, plain := sampleOf(r, c.Name, "baton"), sampleOf(r, c.Name, "direct")
		if through == nil {
			continue
		}
		rows++
		row := []string{c.Name}
		for _, s := range situations {
			row = append(row, cell(s.name, through, plain, note))
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	if rows == 0 {
		return ""
	}
	b.WriteString("\n`–`: not offered by the client or the server.\n\n")
	for i, n := range notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, n)
	}
	return "## Clients, servers and situations\n\n" + b.String()
}

func sampleOf(r *experiments.Results, kase, contender string) *experiments.Sample {
	for i, s := range r.Samples {
		if s.Case == kase && s.Contender == contender && s.Measure == "interop" {
			return &r.Samples[i]
		}
	}
	return nil
}

// cell is a cell of the matrix. A failure that is there without Baton, too, is said so.
func cell(situation string, through, plain *experiments.Sample, note func(string) int) string {
	ok, tried := through.Also[situation]
	why := through.Notes[situation]
	switch {
	case !tried:
		return fmt.Sprintf("– (%d)", note(why))
	case ok == 1:
		return "ok"
	case plain != nil && plain.Also[situation] == 0:
		return fmt.Sprintf("fails directly, too (%d)", note(plain.Notes[situation]))
	}
	return fmt.Sprintf("**failed** (%d)", note(why))
}
