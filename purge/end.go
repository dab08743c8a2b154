package purge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	kernel "baton/datapath/purge"
	"baton/packet"
	"baton/purge/reset"
	"baton/sockdiag"
)

const (
	// atOnce is the size of a batch: its connections are checked, then ended. A small batch shortens the window in which one may answer
	// unnoticed: 32 take about 0.15 ms.
	atOnce = 32
	// A connection that the kernel does not end is tried again.
	mostTries = 3
	tryAgain  = time.Second
)

// end ends due connections until the context is done.
func (p *Purge) end(ctx context.Context) error {
	batches := make(chan []*waiting)
	var enders errgroup.Group
	for _, c := range p.diags {
		enders.Go(func() error {
			for b := range batches {
				p.endThese(c, b)
			}
			return nil
		})
	}
	p.handOut(ctx, batches)
	close(batches)
	return enders.Wait()
}

// handOut passes due connections to the workers in batches.
func (p *Purge) handOut(ctx context.Context, batches chan<- []*waiting) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		p.mu.Lock()
		due := p.queue.pop(time.Now(), atOnce)
		next, some := p.queue.next()
		if len(due) > 0 {
			p.notFull.Signal()
		}
		p.mu.Unlock()
		if len(due) > 0 {
			batches <- due
			continue
		}
		wait := time.Hour
		if some {
			wait = time.Until(next)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-timer.C:
		}
	}
}

// endThese checks marked connections and ends those that are still unresponsive.
func (p *Purge) endThese(diag *sockdiag.Conn, due []*waiting) {
	sockets := make([]kernel.Socket, len(due))
	for i, w := range due {
		sockets[i] = w.mark.Socket
	}
	rules := p.inForce()
	checks, err := p.dp.Check(sockets)
	if err != nil {
		for _, w := range due {
			p.failed(w, rules[w.policy].counters, err)
		}
		return
	}
	var (
		ended   []*waiting
		how     []kernel.Check
		destroy []sockdiag.Socket
	)
	for i, w := range due {
		c := rules[w.policy]
		switch {
		case checks[i].Answer == kernel.Heard:
			c.heard.Add(1)
			p.logConnection(slog.LevelDebug, "answered in time", w)
		case checks[i].Answer == kernel.Gone:
			c.gone.Add(1)
		case !c.inForce:
			c.dropped.Add(1)
		case c.dry:
			c.spared.Add(1)
			p.logConnection(slog.LevelInfo, "dormant; not ended as dry_run is set", w)
		default:
			ended, how = append(ended, w), append(how, checks[i])
			destroy = append(destroy, sockdiag.Socket{
				Local: w.mark.Server, Remote: w.mark.Client, Ifindex: w.mark.Ifindex, Cookie: w.mark.Cookie,
			})
		}
	}
	results := diag.Destroy(destroy)
	for i, w := range ended {
		p.ended(w, rules[w.policy].counters, how[i], results[i])
	}
}

// ended counts the kernel's result, and sends the resets that the kernel does not.
func (p *Purge) ended(w *waiting, c *counters, how kernel.Check, result error) {
	switch {
	case result == nil:
		c.ended.Add(1)
		p.logConnection(slog.LevelDebug, "ended", w)
		p.reset(w, how)
	case errors.Is(result, sockdiag.ErrGone):
		c.gone.Add(1)
	default:
		p.failed(w, c, result)
	}
}

// failed queues a connection again, or gives it up until it is marked again.
func (p *Purge) failed(w *waiting, c *counters, err error) {
	w.tries++
	if w.tries < mostTries {
		w.due = time.Now().Add(tryAgain)
		p.mu.Lock()
		p.queue.add(w)
		p.mu.Unlock()
		p.awake()
		return
	}
	c.failed.Add(1)
	p.failure.Store(&err)
}

// reset sends the resets that the kernel does not. The kernel has sent one with the next sequence number, except in the states that
// tcp_need_reset() leaves out. Package reset explains the other sequence number.
func (p *Purge) reset(w *waiting, how kernel.Check) {
	if p.resets == nil {
		return
	}
	r := reset.Reset{Server: w.mark.Server, Client: w.mark.Client, Ifindex: w.mark.Ifindex, Ack: packet.Seq(how.Rcv)}
	var numbers []uint32
	if how.State == "LAST-ACK" || how.State == "CLOSING" {
		numbers = append(numbers, how.Next)
	}
	if how.Una != how.Next {
		numbers = append(numbers, how.Una)
	}
	for _, n := range numbers {
		r.Seq = packet.Seq(n)
		if err := p.resets.Send(r); err != nil {
			p.resetsFailed.Add(1)
			p.log.Debug("cannot send a reset to the client", "err", err)
			continue
		}
		p.resetsSent.Add(1)
	}
}

func (p *Purge) logConnection(level slog.Level, what string, w *waiting) {
	if !p.log.Enabled(context.Background(), level) {
		return
	}
	m := &w.mark
	p.log.Log(context.Background(), level, what, "policy", w.policy, "client", m.Client, "server", m.Server, "state", m.State,
		"timeouts", m.Count, "unresponsive", m.Unresponsive+m.Within, "rtt", m.SRTT)
}
