package accesslog

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"baton/router/config"
)

// grace is how long Close lets an output write what waits, and then how long it lets it stop.
const grace = 2 * time.Second

// Writer gives records to outputs. The zero value has none.
type Writer struct {
	changing sync.Mutex
	version  string
	log      *slog.Logger
	now      atomic.Pointer[outputs]
}

// outputs are what one configuration says. They are not changed.
type outputs struct {
	all      []*output
	unlogged map[netip.AddrPort]bool // VIPs
}

// logged is for VIPs of TCP: one of QUIC may have the same address.
func (o *outputs) logged(r *Record) bool {
	return len(o.unlogged) == 0 || r.Protocol == QUIC || !o.unlogged[r.VIP]
}

// Open begins what the configuration says. It fails when a file cannot be opened; syslogs and collectors may come later. Close ends it.
func Open(cfg *config.Config, version string, log *slog.Logger) (*Writer, error) {
	w := &Writer{version: version, log: log}
	return w, w.Update(cfg)
}

// Update goes over to another configuration. Outputs that both have go on; when it fails, all are as before.
func (w *Writer) Update(cfg *config.Config) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	next := &outputs{unlogged: make(map[netip.AddrPort]bool)}
	for _, v := range cfg.VIPs {
		if v.Unlogged && v.Protocol != config.QUIC {
			next.unlogged[v.Address] = true
		}
	}
	var before []*output
	if now := w.now.Load(); now != nil {
		before = slices.Clone(now.all)
	}
	var opened []*output
	for i, l := range cfg.Access {
		if j := slices.IndexFunc(before, func(o *output) bool { return o.cfg.Same(l) }); j >= 0 {
			next.all = append(next.all, before[j])
			before = slices.Delete(before, j, j+1)
			continue
		}
		o, err := w.open(l)
		if err != nil {
			shut(opened)
			return fmt.Errorf("%s:%d: log.access[%d]: %w", cfg.File, l.Line, i, err)
		}
		opened = append(opened, o)
		next.all = append(next.all, o)
	}
	w.now.Store(next)
	shut(before)
	return nil
}

func (w *Writer) open(l config.AccessLog) (*output, error) {
	f := newFormat(l.Format)
	switch l.To {
	case config.LogToFile:
		s, err := openFile(l.Path)
		if err != nil {
			return nil, err
		}
		return newOutput(l, line{f}, s, w.log), nil
	case config.LogToStdout:
		s, err := openStdout()
		if err != nil {
			return nil, err
		}
		return newOutput(l, line{f}, s, w.log), nil
	case config.LogToSyslog:
		s := newSyslog(l.Address)
		return newOutput(l, newMessage(f, l.Facility, s.over, self()), s, w.log), nil
	case config.LogToOTLP:
		s, err := newCollector(&l, w.version)
		if err != nil {
			return nil, err
		}
		return newOutput(l, &otlp{signal: l.Signal}, s, w.log), nil
	}
	return nil, errors.New("no destination")
}

// Enabled tells whether anybody wants records at all.
func (w *Writer) Enabled() bool {
	now := w.now.Load()
	return now != nil && len(now.all) > 0
}

// Write gives records to all outputs. It does not wait and keeps nothing of them. It may be called from any goroutine; many records in one
// call cost less than many calls.
func (w *Writer) Write(records []Record) {
	now := w.now.Load()
	if now == nil {
		return
	}
	for _, o := range now.all {
		o.add(records, now.logged)
	}
}

// Reopen has files opened again, by their names, once what was logged before is written.
func (w *Writer) Reopen() {
	now := w.now.Load()
	if now == nil {
		return
	}
	for _, o := range now.all {
		o.reopen.Store(true)
		o.wakeUp()
	}
}

// Stats says what has become of the records of each output, in the configuration's order.
func (w *Writer) Stats() (all []Stats) {
	now := w.now.Load()
	if now == nil {
		return nil
	}
	seen := make(map[string]int)
	for _, o := range now.all {
		s := o.stats()
		if seen[s.Output]++; seen[o.name] > 1 {
			s.Output += fmt.Sprintf(" (%d)", seen[o.name])
		}
		all = append(all, s)
	}
	return all
}

// Close writes what waits, for some seconds at most, and ends all outputs. What comes later is dropped.
func (w *Writer) Close() {
	w.changing.Lock()
	defer w.changing.Unlock()
	if now := w.now.Swap(nil); now != nil {
		shut(now.all)
	}
}

// shut ends outputs, all at once.
func shut(all []*output) {
	var ending sync.WaitGroup
	for _, o := range all {
		ending.Go(func() { o.shut(grace) })
	}
	ending.Wait()
}
