package scale

import (
	"context"
	"fmt"
	"os"
	"time"

	"baton/experiments"
	"baton/experiments/handoff"
)

const (
	coldName   = "cold session"
	kernelName = "kernel memory"
	mapName    = "map memory"
)

func (g *stage) measures() []handoff.Measure {
	return []handoff.Measure{
		{Name: "set-up", Title: "Sessions a second that come to be: handshake, request, answer", Unit: "sessions/s", Take: g.setUp},
		{Name: coldName, Title: "Round trips a second on idle sessions drawn by lot", Unit: "round trips/s", Per: "round trip",
			Take: g.cold},
		handoff.KeepAlive(),
		handoff.ConnectionPerRequest(),
		handoff.FirstByte(),
		{Name: "at rest", Title: "Processor time of the machine while all sessions are idle", Unit: "ms/s", Less: true, Per: "second",
			Take: atRest},
		{Name: kernelName, Title: "Growth of the kernel's memory for each idle session", Unit: "bytes", Less: true,
			Take: g.kernelGrowth},
		{Name: mapName, Title: "Memory of the router's maps for each idle session", Unit: "bytes", Less: true, Take: g.mapMemory},
		{Name: "process memory", Title: "Resident memory of the contender's processes", Unit: "MB", Less: true, Take: g.processMemory},
	}
}

// setUp tells what was seen at the start of the turn.
func (g *stage) setUp(context.Context, *handoff.Turn) (experiments.Sample, error) {
	return sample(g.begun, g.lost), nil
}

// cold asks on idle sessions.
func (g *stage) cold(ctx context.Context, t *handoff.Turn) (experiments.Sample, error) {
	d, err := g.people.askAny(ctx, g.crowd, atOnce, t.Options.Duration)
	if err == nil && d.answered == 0 {
		err = fmt.Errorf("no session answers: %v", d)
	}
	return sample(d, d.counts.Ended+d.counts.Silent), err
}

func sample(d done, failed int) experiments.Sample {
	s := experiments.Sample{Value: float64(d.answered) / d.took.Seconds(), Work: float64(d.answered),
		Single: experiments.NewDistribution(d.times), Errors: int64(failed + d.counts.Foreign)}
	if s.Errors > 0 {
		s.First = d.String()
	}
	return s
}

// atRest leaves the machine alone for a while.
func atRest(ctx context.Context, t *handoff.Turn) (experiments.Sample, error) {
	before, err := busyTicks()
	if err != nil {
		return experiments.Sample{}, err
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return experiments.Sample{}, ctx.Err()
	case <-time.After(t.Options.Duration):
	}
	after, err := busyTicks()
	took := time.Since(began).Seconds()
	return experiments.Sample{Value: (after - before).Seconds() * 1e3 / took, Work: took}, err
}

// busyTicks is the processor time that the whole machine has spent: all of /proc/stat but idle, iowait and steal.
func busyTicks() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("machine's processor time: %w", err)
	}
	var user, nice, system, idle, iowait, irq, softirq int64
	_, err = fmt.Sscanf(string(b), "cpu %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq, &softirq)
	if err != nil {
		return 0, fmt.Errorf("machine's processor time: %w", err)
	}
	const tick = 10 * time.Millisecond // USER_HZ
	return time.Duration(user+nice+system+irq+softirq) * tick, nil
}

func (g *stage) kernelGrowth(_ context.Context, t *handoff.Turn) (experiments.Sample, error) {
	now, err := KernelMemory()
	return experiments.Sample{Value: float64(now-g.before) / float64(sessions(t))}, err
}

func (g *stage) mapMemory(_ context.Context, t *handoff.Turn) (experiments.Sample, error) {
	if g.process == nil {
		return experiments.Sample{}, nil
	}
	bytes, err := g.process.Maps()
	return experiments.Sample{Value: float64(bytes) / float64(sessions(t))}, err
}

func (g *stage) processMemory(context.Context, *handoff.Turn) (experiments.Sample, error) {
	if g.process == nil {
		return experiments.Sample{}, nil
	}
	bytes, err := g.process.Resident()
	return experiments.Sample{Value: float64(bytes) / 1e6}, err
}
