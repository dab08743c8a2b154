package anycastflashcrowd

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// siteRate is what a site can send, in Mbit/s.
const siteRate = 40

// flashing is a flash crowd: downloads that begin evenly over some time, half of them in the west, and half in the east, where a new site is
// brought up and taken down again.
type flashing struct {
	file      string
	downloads int
	begin     time.Duration
	bring     time.Duration // after the begin of the first
	left      int           // downloads that still run when the new site is to go
}

func flashes(quick bool) flashing {
	if quick {
		return flashing{file: "/1m", downloads: 48, begin: 8 * time.Second, bring: time.Second, left: 8}
	}
	return flashing{file: "/4m", downloads: 150, begin: 30 * time.Second, bring: 15 * time.Second, left: 30}
}

// crowd is what was seen of one.
type crowd struct {
	fleet   *fleet
	running []float64     // downloads, from the begin on
	help    time.Duration // after the new site's begin
	empty   time.Duration // after the order to go
	last    time.Duration
	mean    time.Duration // of a download
}

// flash has the crowd come, site b come up, and go.
func (n *Network) flash(ctx context.Context, how flashing) (_ *crowd, err error) {
	for _, s := range n.Sites {
		if err := limit(s.uplink, siteRate); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, unlimit(s.uplink)) }()
	}
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	if err := n.leads(ctx, n.Sites[0]); err != nil {
		return nil, err
	}
	c := &crowd{fleet: n.newFleet(how.file)}
	began := time.Now()
	for i := range how.downloads {
		c.fleet.begin(ctx, began.Add(how.begin*time.Duration(i)/time.Duration(how.downloads)), n.Clients[i%2])
	}
	defer c.fleet.wait()
	defer cancel() // before that, for a run that fails
	counted := c.fleet.count(&c.running)
	if err := n.borrow(ctx, c, began, how); err != nil {
		return nil, err
	}
	c.fleet.wait()
	c.last = time.Since(began)
	<-counted
	c.mean = c.fleet.mean()
	return c, context.Cause(ctx)
}

// borrow brings site b up for the crowd, and takes it down.
func (n *Network) borrow(ctx context.Context, c *crowd, began time.Time, how flashing) (err error) {
	b := n.Sites[1]
	if err := sleep(ctx, time.Until(began.Add(how.bring))); err != nil {
		return err
	}
	brought := time.Now()
	defer func() { err = errors.Join(err, b.withdraw()) }()
	if err := b.announce(ctx); err != nil {
		return err
	}
	if err := c.fleet.sends(ctx, b, siteRate/4.); err != nil {
		return fmt.Errorf("wait for the new site to help: %w", err)
	}
	c.help = time.Since(brought)
	if err := sleep(ctx, time.Until(began.Add(how.begin))); err != nil {
		return err
	}
	for c.fleet.running.Load() > int64(how.left) {
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	ordered := time.Now()
	gone := make(chan struct{})
	c.fleet.watch(b.Name, func() { c.empty = time.Since(ordered); close(gone) })
	if err := b.drain(ctx); err != nil {
		return err
	}
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sends waits until a site sends so many Mbit/s, over half a second.
func (f *fleet) sends(ctx context.Context, s *Site, rate float64) error {
	const every, over = 50 * time.Millisecond, 10
	var seen []uint64
	for {
		now, err := sent(s.uplink)
		if err != nil {
			return err
		}
		if seen = append(seen, now); len(seen) > over && float64(now-seen[len(seen)-1-over])*8/1e6/(over*every.Seconds()) >= rate {
			return nil
		}
		if err := sleep(ctx, every); err != nil {
			return err
		}
		select {
		case <-f.over():
			return errors.New("all downloads are over")
		default:
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
