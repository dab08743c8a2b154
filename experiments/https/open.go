package https

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"baton/experiments"
	"baton/experiments/scale"
	"baton/lab"
)

// Open is the question what many TLS sessions cost that are open at the same time.
func Open() experiments.Experiment[*Stage] {
	return experiments.Experiment[*Stage]{
		Name:     "https-open",
		Question: "How many TLS sessions may be open at the same time, and what memory do they take?",
		Method: "Clients and one surrogate without sockets, as so many sessions would need more files than a process may have. Each client sends a captured hello, gets an answer, and stays. " +
			"When all are open, each sends as much again, and must get its own answer. The router starts legs from eight addresses (`legs.sources`).",
		Parameters: []experiments.Parameter{{Name: "sessions", Title: "open sessions", Values: []float64{10_000, 100_000}}},
		Contenders: []experiments.Contender[*Stage]{{Name: "baton", Is: "`baton router`, `protocol: tls`, `legs.sources`", Start: openBaton}},
		Measures:   openMeasures(),
		Rounds:     1, IPv6: true,
		Build: buildOpen,
		Claims: []experiments.Claim{
			{What: "sessions open at the same time, each of which answers again", Unit: "sessions", AtLeast: 100_000, Ours: experiments.ValueOf("sessions 100000", againName, "baton")},
			{What: "of 100,000, memory of the kernel for each", Unit: "bytes", Ours: experiments.ValueOf("sessions 100000", "kernel memory", "baton")},
			{What: "of 100,000, memory of the router's process", Unit: "MB", Ours: experiments.ValueOf("sessions 100000", "process memory", "baton")},
		},
		Caveats: []string{"Kernel memory is the growth of Slab, VmallocUsed, Percpu, KernelStack and PageTables in /proc/meminfo since before the router's start: it contains all of its maps, " +
			"sized for `limits.sessions`. Map memory is the sum of `memlock` in the fdinfo of the router's maps."},
	}
}

// opened is what came of the sessions of a turn.
type opened struct {
	outcome
	talks  []*talk
	before scale.Memory
	router scale.Process
	times  *hdrhistogram.Histogram
}

// far is an address of the router towards the farm.
func (s *Stage) far(n int) string { return s.either("10.3.2.%d", "fd03:2::%x", 16+n) }

func buildOpen(_ context.Context, s *experiments.Setup) (*Stage, error) {
	t, err := buildStage(s, 1)
	if err != nil {
		return nil, err
	}
	if t.list, err = newList(); err != nil {
		return nil, err
	}
	k := t.Lab.Link(lab.End{Host: t.Lab.Host("farm"), Addrs: []string{"10.3.2.2/24", "fd03:2::2/64"}},
		lab.End{Host: t.Router, Addrs: []string{"10.3.2.1/24", "fd03:2::1/64"}}, lab.LinkOptions{})
	for n := range sources {
		k.B.Address(t.far(n) + t.either("/24", "/64"))
	}
	for via, prefix := range map[string]string{"10.3.2.2": "10.7.0.0/16", "fd03:2::2": "fd07::/64"} {
		t.Router.Route(prefix, via)
		t.Router.Neighbour(k.B, via, k.A.MAC)
	}
	if t.farm, err = startFarm(k.A, k.B, "farm"); err != nil {
		return nil, err
	}
	t.Lab.T().Cleanup(func() {
		if err := t.farm.close(); err != nil {
			t.Lab.T().Errorf("https: farm: %v", err)
		}
	})
	return t, nil
}

func openBaton(ctx context.Context, t *experiments.Turn[*Stage]) (err error) {
	s, n := t.Topology, int(t.Case.At["sessions"])
	s.opened = &opened{}
	if s.opened.before, err = scale.KernelMemory(); err != nil {
		return err
	}
	var from []string
	for i := range sources {
		from = append(from, s.far(i))
	}
	server := net.JoinHostPort(s.either("10.7.0.1", "fd07::1"), "443")
	config := fmt.Sprintf("limits: {sessions: %d}\nvips:\n  - {address: %q, interfaces: [%s, %s], protocol: tls, routes: [{match: {no_sni: true}, pool: farm}, {pool: farm}]}\n"+
		"pools:\n  farm: {legs: {max: %d, sources: %s}, surrogates: [{name: farm, address: %q}]}\n",
		n+20_000, s.vip(), s.ClientSide.Name, s.side.Name, n+10_000, quoted(from), server)
	if err := s.start(t, config); err != nil {
		return err
	}
	s.opened.router.Pid = t.Processes()[0].Pid()
	if err := lab.Poll(10*time.Second, func() error { return s.answers(ctx) }); err != nil {
		return err
	}
	return s.openAll(ctx, n)
}

// answers reports whether a session is answered.
func (s *Stage) answers(ctx context.Context) error {
	o := &opened{}
	if err := s.begin(ctx, o, 1); err != nil {
		return err
	}
	if o.fates[right] == 0 {
		return errors.New("a hello has no answer")
	}
	return nil
}

// openAll opens the sessions.
func (s *Stage) openAll(ctx context.Context, n int) error {
	if err := s.begin(ctx, s.opened, n); err != nil {
		return err
	}
	if s.opened.fates[right] < n {
		return fmt.Errorf("%d of %d sessions were opened: %s", s.opened.fates[right], n, s.opened.first)
	}
	return nil
}

// opening is how many sessions are being opened at the same time.
const opening = 256

func (s *Stage) begin(ctx context.Context, o *opened, n int) error {
	if s.clients == nil {
		s.clients = newCrowd(s.crowd, s.from)
	}
	fit := s.list.fit()
	began, i := time.Now(), 0
	o.times = hdrhistogram.New(1, longest, 3)
	err := s.clients.drive(ctx, func(waiting int, _ time.Duration) (*talk, bool) {
		if i >= n || waiting >= opening {
			return nil, i < n
		}
		h := fit[i%len(fit)]
		i++
		t := &talk{to: s.vip(), stream: h.stream, pieces: h.pieces(0, inOrder), stays: true, done: o.hears(h)}
		o.talks = append(o.talks, t)
		return t, true
	})
	o.took = time.Since(began)
	return err
}

// hears takes an answer, or that there is none.
func (o *opened) hears(h *framed) func(*talk) {
	return func(t *talk) {
		_ = o.times.RecordValue(int64(t.ended - t.began)) // within its range
		if !o.add(judge(t, "farm", h.sum, "")) && o.first == "" {
			o.first = fmt.Sprintf("%s: answered %q, reset %v", h.name, t.answer, t.reset)
		}
	}
}

const againName = "answer again"

func openMeasures() []experiments.Measure[*Stage] {
	return []experiments.Measure[*Stage]{
		{Name: "set-up", Title: "Sessions a second that are opened", Unit: "sessions/s", Take: func(_ context.Context, t *experiments.Turn[*Stage]) (experiments.Sample, error) {
			o := t.Topology.opened
			return experiments.Sample{Value: float64(o.tried) / o.took.Seconds(), Single: experiments.NewDistribution(o.times)}, nil
		}},
		{Name: againName, Title: "Open sessions that answer again", Unit: "sessions", Per: "session", Take: func(ctx context.Context, t *experiments.Turn[*Stage]) (experiments.Sample, error) {
			return t.Topology.sayAgain(ctx)
		}},
		{Name: "kernel memory", Title: "Growth of the kernel's memory for each open session", Unit: "bytes", Less: true, Take: perSession(func(o *opened) (float64, error) {
			now, err := scale.KernelMemory()
			return float64(now - o.before), err
		})},
		{Name: "map memory", Title: "Memory of the router's maps for each open session", Unit: "bytes", Less: true, Take: perSession(func(o *opened) (float64, error) {
			n, err := o.router.Maps()
			return float64(n), err
		})},
		{Name: "process memory", Title: "Resident memory of the router's process", Unit: "MB", Less: true, Take: func(_ context.Context, t *experiments.Turn[*Stage]) (experiments.Sample, error) {
			n, err := t.Topology.opened.router.Resident()
			return experiments.Sample{Value: float64(n) / 1e6}, err
		}},
	}
}

func perSession(of func(*opened) (float64, error)) func(context.Context, *experiments.Turn[*Stage]) (experiments.Sample, error) {
	return func(_ context.Context, t *experiments.Turn[*Stage]) (experiments.Sample, error) {
		n, err := of(t.Topology.opened)
		return experiments.Sample{Value: n / t.Case.At["sessions"]}, err
	}
}

// sayAgain has each client say the same again.
func (s *Stage) sayAgain(ctx context.Context) (experiments.Sample, error) {
	o := s.opened
	before, i := o.fates[right], 0
	err := s.clients.drive(ctx, func(waiting int, now time.Duration) (*talk, bool) {
		for ; i < len(o.talks) && waiting < opening; waiting, i = waiting+1, i+1 {
			s.clients.again(o.talks[i], now)
		}
		return nil, i < len(o.talks)
	})
	return experiments.Sample{Value: float64(o.fates[right] - before), Work: float64(len(o.talks)), Errors: int64(len(o.talks) - (o.fates[right] - before)), First: o.first}, err
}
