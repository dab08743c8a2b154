package demo

import (
	"context"
	"fmt"
	"time"

	"baton/lab"
)

// counts are the kernel program's numbers: packets by verdict, and what became of server legs.
type counts map[string]uint64

func (c counts) since(before counts) counts {
	d := make(counts)
	for name, n := range c {
		d[name] = n - before[name]
	}
	return d
}

// translated counts the packets that were rewritten and sent on without leaving the kernel.
func (c counts) translated() uint64 {
	return c["to_server"] + c["to_client"] + c["handoff"] + c["moved"]
}

func (d *demo) counters(ctx context.Context) (counts, error) {
	all, err := d.control.Counters(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the router: %w", err)
	}
	c := make(counts)
	for _, n := range all {
		switch n.Name {
		case "packets_total":
			c[n.Labels["verdict"]] += n.Value
		case "legs_recycled_total", "handoffs_failed_total":
			c[n.Name] += n.Value
		}
	}
	return c, nil
}

// usage is what a way has used so far.
type usage struct {
	cpu    time.Duration // of its process on the router
	kernel counts
}

func (d *demo) usage(ctx context.Context, w way) (u usage, err error) {
	if w.process == nil {
		return u, nil
	}
	if u.cpu, err = w.process.CPU(); err != nil {
		return u, err
	}
	if w.name == handoff {
		u.kernel, err = d.counters(ctx)
	}
	return u, err
}

// longestCPU is the most processor time that the router may use while a GiB flows past it. It looks after its leg pools
// all the time; a proxy needs a second and more.
const longestCPU = 250 * time.Millisecond

// look compares what the kernel did in the whole run with what was asked of it.
func (d *demo) look(ctx context.Context, before counts) error {
	connections := uint64(1) // of oneConnection
	for _, row := range d.report.Rows {
		connections += uint64(row.cell(handoff).Requests)
		d.checkKernel(row)
	}
	var k Kernel
	err := lab.Poll(5*time.Second, func() error { // the last client's FIN may be on its way
		now, err := d.counters(ctx)
		if err != nil {
			return err
		}
		n := now.since(before)
		k = Kernel{
			Connections: connections, Handoffs: n["handoff"], Moved: n["moved"], Translated: n.translated(), Upcalls: n["upcall"],
			Proxied: n["assigned"], Recycled: n["legs_recycled_total"], Failed: n["handoffs_failed_total"],
		}
		if k.Recycled < k.Handoffs+k.Moved {
			return fmt.Errorf("%d of %d legs are back", k.Recycled, k.Handoffs+k.Moved)
		}
		return nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	d.report.kernel(k, err == nil)
	return nil
}

func (r *Report) kernel(k Kernel, recycled bool) {
	r.Kernel = k
	r.check(k.Handoffs == k.Connections && k.Proxied == 0 && k.Failed == 0,
		"%d connections to %s: %d handed off, %d proxied, %d failed", k.Connections, handoffVIP, k.Handoffs, k.Proxied, k.Failed)
	r.check(recycled, "%d server legs taken (%d handoffs, %d moves), %d taken back", k.Handoffs+k.Moved, k.Handoffs, k.Moved, k.Recycled)
}

// checkKernel checks who read a row's requests, and that their bodies flowed past user space.
func (d *demo) checkKernel(row Row) {
	c := row.cell(handoff)
	if row.Decides == byRouter {
		d.report.check(c.Upcalls >= uint64(c.Requests), "%s: %d of %d requests went to user space for a decision", row.Path, c.Upcalls, c.Requests)
	} else {
		d.report.check(c.Upcalls == 0, "%s: %d packets of %d downloads went to user space", row.Path, c.Upcalls, c.Requests)
	}
	if row.Size >= 1<<30 {
		d.report.check(c.CPU <= longestCPU, "%s: the router's process used %v for %s; HAProxy's %v", row.Path,
			c.CPU, sizeText(row.Size), row.cell(viaHAProxy).CPU)
	}
}
