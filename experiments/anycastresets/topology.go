package anycastresets

import (
	"context"
	"fmt"
	"slices"
	"time"

	"baton/experiments"
	"baton/lab"
	"baton/lab/emulator"
)

// Topology is a client and a server for each contender, and a link between them:
//
//	client 10.1.n.2 ── emulated ── 10.1.n.1 server
type Topology struct {
	paths map[string]*path // by contender
	race  *race            // of the case that is entered
	turn  string           // contender whose turn it is
}

// way is a contender's own.
type path struct {
	client
	host   *lab.Host
	link   *lab.Link
	origin *Origin
	server string // its address
}

func build(_ context.Context, s *experiments.Setup) (*Topology, error) {
	t := &Topology{paths: make(map[string]*path)}
	for i, c := range clients() {
		if len(s.Options.Contenders) > 0 && !slices.Contains(s.Options.Contenders, c.name) {
			continue
		}
		if c.needs != "" {
			s.Lab.Need(c.needs)
		}
		server := s.Lab.Host("server-" + c.name)
		w := &path{client: c, host: s.Lab.Host("client-" + c.name), origin: NewOrigin(size), server: fmt.Sprintf("10.1.%d.1", i)}
		w.link = s.Lab.Link(lab.End{Host: w.host, Addrs: []string{fmt.Sprintf("10.1.%d.2/24", i)}}, lab.End{Host: server, Addrs: []string{w.server + "/24"}},
			lab.LinkOptions{Emulated: true})
		server.CongestionControl("cubic")
		if err := server.Do(func() error { return w.origin.Listen(w.server + ":80") }); err != nil {
			return nil, err
		}
		t.paths[c.name] = w
	}
	return t, nil
}

// enter gives all links the shape of a case.
func enter(ctx context.Context, t *Topology, c experiments.Case) error {
	shape := emulator.Shape{
		Rate:  rate,
		Delay: time.Duration(c.At["rtt"] / 2 * float64(time.Millisecond)),
		Loss:  emulator.Share(c.At["loss"] / 100),
		Queue: emulator.Queue{Bytes: int(rate) / 8 / 5},
	}
	for _, w := range t.paths {
		w.link.Set(shape, shape)
		if err := w.meet(ctx); err != nil {
			return err
		}
	}
	t.race = nil
	return nil
}

// meet has the hosts learn each other's hardware addresses, which is nothing that a download has to wait for elsewhere.
func (w *path) meet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c, err := w.host.Dial(ctx, "tcp", w.server+":80")
	if err != nil {
		return fmt.Errorf("meet the server of %s: %w", w.name, err)
	}
	return c.Close()
}
