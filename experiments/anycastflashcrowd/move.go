package anycastflashcrowd

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	accessRate = 50 // Mbit/s of the link to the clients, as in the paper
	lookEvery  = 200 * time.Millisecond
	runTime    = 15 * time.Minute // at most
)

// moving is how many downloads there are, and when they are moved.
type moving struct {
	file      string
	downloads int
	begin     time.Duration // within which they begin
	order     time.Duration // after the begin of the first
	settle    time.Duration // from so long after the order on is looked whether the queue swings,
	watch     time.Duration // and for so long
}

func moves(quick bool) moving {
	if quick {
		return moving{file: "/1m", downloads: 30, begin: 500 * time.Millisecond, order: 1500 * time.Millisecond, settle: 500 * time.Millisecond, watch: 2 * time.Second}
	}
	return moving{file: "/1m", downloads: 1000, begin: 5 * time.Second, order: 40 * time.Second, settle: 5 * time.Second, watch: 40 * time.Second}
}

// move is what was seen of one.
type move struct {
	fleet   *fleet
	queue   []float64     // packets, from the begin on
	watched []float64     // of them, those after the order
	use     float64       // of the link meanwhile, beside its rate
	empty   time.Duration // after the order
	last    time.Duration
}

// move has the downloads run at site a, drains it, and looks at the queue in front of the clients until all are complete.
func (n *Network) move(ctx context.Context, how moving) (_ *move, err error) {
	bottleneck := n.toClients[0]
	a, b := n.Sites[0], n.Sites[1]
	if err := limit(bottleneck, accessRate); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlimit(bottleneck)) }()
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	defer func() { err = errors.Join(err, b.withdraw()) }()
	if err := b.announce(ctx); err != nil {
		return nil, err
	}
	if err := n.leads(ctx, a); err != nil {
		return nil, err
	}
	m := &move{fleet: n.newFleet(how.file)}
	began := time.Now()
	for i := range how.downloads {
		m.fleet.begin(ctx, began.Add(how.begin*time.Duration(i)/time.Duration(how.downloads)), n.Clients[0])
	}
	defer m.fleet.wait()
	defer cancel() // before that, for a run that fails
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var ordered time.Time
	var first, bytes uint64
	var firstAt time.Time
	for {
		select {
		case <-m.fleet.over():
			m.last = time.Since(began)
			switch {
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case m.empty == 0 || len(m.watched) < int(how.watch/lookEvery)/2:
				return nil, fmt.Errorf("the downloads were over after %v, before the queue could be looked at", m.last)
			}
			return m, a.undrain(ctx)
		case <-look.C:
		}
		packets, err := waiting(bottleneck)
		if err != nil {
			return nil, err
		}
		m.queue = append(m.queue, float64(packets))
		now := time.Now()
		switch {
		case ordered.IsZero() && now.Sub(began) >= how.order:
			ordered = now
			m.fleet.watch(a.Name, func() { m.empty = time.Since(ordered) })
			if err := a.drain(ctx); err != nil {
				return nil, err
			}
		case ordered.IsZero():
		case now.Sub(ordered) >= how.settle && now.Sub(ordered) < how.settle+how.watch:
			m.watched = append(m.watched, float64(packets))
			if bytes, err = sent(bottleneck); err != nil {
				return nil, err
			}
			if first == 0 {
				first, firstAt = bytes, now
				break
			}
			m.use = float64(bytes-first) * 8 / (accessRate * 1e6) / now.Sub(firstAt).Seconds()
		}
	}
}
