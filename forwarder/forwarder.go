// Package forwarder is Baton's OpenFlow 1.3 switch: controllers fill its tables, the kernel forwards by them.
//
// A message of a controller changes the pipeline (forwarder/pipeline), which is data and holds the rules of the specification. What changed is
// compiled (forwarder/compile) into the records that the kernel executes (forwarder/install, datapath) before the next message is looked at;
// so a barrier has nothing to wait for. Packets come up here for controllers alone.
package forwarder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"baton/daemon"
	kernel "baton/datapath/forwarder"
	"baton/forwarder/config"
	"baton/forwarder/controllers"
	"baton/forwarder/install"
	"baton/forwarder/journal"
	"baton/forwarder/pipeline"
	"baton/forwarder/ports"
	"baton/openflow"
)

// pins is where the attachments of all forwarders of the machine are.
const pins = "/sys/fs/bpf/baton"

// StatePath is where the attachments of a forwarder are pinned.
func StatePath(name string) string { return filepath.Join(pins, "forwarder-"+name) }

// LoopDevices are the names that a forwarder's loop device may have. One that takes over has another than its predecessor, so that copies of
// packets that are on the way through the predecessor's tables come to their end there. There are more than two for starts that were killed.
func LoopDevices(name string) [10]string {
	list := [10]string{"loop-" + name}
	for i := 1; i < len(list); i++ {
		list[i] = fmt.Sprintf("loo%d-%s", i, name)
	}
	return list
}

// Forwarder is a switch. What follows mu is guarded by it but for the controllers' turn, which takes it.
type Forwarder struct {
	cfg     *config.Config // of the start: where controllers are may have changed since, see Reload
	version string
	log     *slog.Logger
	load    func() (*config.Config, error)
	tally   tally

	reloads, reloadsFailed atomic.Uint64

	kernel      *kernel.Forwarder
	controllers *controllers.Controllers
	ports       *ports.Ports
	tasks       sync.WaitGroup
	listeners   daemon.Listeners
	began       time.Time
	ready       chan struct{} // closed when messages can be carried out, or will not be: then ended is set

	reloading sync.Mutex     // holds inForce
	inForce   *config.Config // the latest

	sweeping sync.Mutex // holds swept
	swept    bool       // the kernel is not asked to forget flows any more

	mu        sync.Mutex
	pipeline  *pipeline.Pipeline
	installed *install.Kernel
	journal   *journal.Journal // nil: nothing survives
	latest    map[openflow.PortNo]ports.Event
	packetIn  openflow.PacketIn
	ended     bool // the kernel's memory is not ours any more
	// dropFragments is what controllers have asked for.
	dropFragments bool
}

// Options make a Forwarder.
type Options struct {
	Config  *config.Config
	Version string // of the program
	Log     *slog.Logger
	Load    func() (*config.Config, error) // for a reload; nil: there is none
}

// New makes a forwarder that Run has to start.
func New(o Options) *Forwarder {
	return &Forwarder{
		cfg: o.Config, inForce: o.Config, version: o.Version, log: o.Log, load: o.Load, began: time.Now(), ready: make(chan struct{}),
		latest: make(map[openflow.PortNo]ports.Event),
	}
}

// Run forwards until ctx ends, and may be called once. The flow entries go on in the kernel afterwards, until [Remove] or the next forwarder
// of that name.
func (f *Forwarder) Run(ctx context.Context) error {
	cfg, log := f.cfg, f.log
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := f.start(ctx); err != nil {
		return errors.Join(err, f.close(false))
	}
	log.Info("forwarder is up", "name", cfg.Name, "datapath_id", fmt.Sprintf("%#x", f.datapathID()), "ports", len(cfg.Ports))
	<-ctx.Done()
	return f.close(true)
}

// room is how much more the kernel has than the pipeline may hold, so that what is replaced can rest.
func room(n int) int { return n + n/4 + 256 }

// opsEach is how many actions a flow entry has on average at most, so many that only odd tables run out of room for them first.
const opsEach = 4

func (f *Forwarder) start(ctx context.Context) (err error) {
	limits := f.cfg.Limits
	paths := 1 << bits.Len(uint(limits.Cache-1))
	loop := chooseLoop(f.cfg.Name)
	f.kernel, err = kernel.Open(kernel.Options{
		State: StatePath(f.cfg.Name), Name: loop,
		Entries: room(limits.Entries), Ops: kernel.OutOps + opsEach*room(limits.Entries),
		Lists: 1 << 17, Subtables: 1 << 14,
		Groups: room(limits.Groups), Buckets: 16 * room(limits.Groups), Slots: 64 * room(limits.Groups),
		Meters: room(limits.Meters), Megaflows: paths, Bindings: limits.Bindings, NormalStack: f.cfg.NormalStack,
	})
	if err != nil {
		return err
	}
	f.installed = install.New(f.kernel)
	f.pipeline = pipeline.New(pipeline.Limits{
		Tables: limits.Tables, Entries: limits.Entries, Groups: limits.Groups, Meters: limits.Meters, Bands: kernel.MaxBands,
		Bindings: limits.Bindings > 0,
	})
	if err := f.replay(); err != nil {
		return err
	}
	// What can fail by the configuration does so before anything is taken over.
	f.controllers, err = controllers.Open(ctx, f.cfg, controllers.Handler{
		Features: f.features, Handle: f.handle, OnChange: func(is bool) { <-f.ready; f.connected(is) },
	}, f.log)
	if err != nil {
		return err
	}
	if f.listeners, err = daemon.Listen(f.cfg.Control, f.cfg.Metrics); err != nil {
		return fmt.Errorf("%s: %w", f.cfg.File, err)
	}
	f.ports, err = ports.Open(ctx, ports.Options{Ports: f.portList(), Own: f.cfg.NormalStack, Report: f.portChanged, Log: f.log})
	if err != nil {
		return err
	}
	f.mu.Lock()
	if err := f.installed.Begin(); err != nil {
		f.log.Error("a port cannot be used", "error", err) // its interface has just gone; or the next change of it tells
	}
	f.mu.Unlock()
	if err := f.kernel.DetachOthers(); err != nil {
		return err
	}
	if err := removeLoops(f.cfg.Name, loop); err != nil {
		return err
	}
	f.connected(false)
	close(f.ready)
	f.tasks.Go(func() { f.listeners.Serve(ctx, f.backend(), metricsHandler(f.version, f.status, &f.tally), f.log) })
	f.tasks.Go(f.readUpcalls)
	f.tasks.Go(func() { f.expire(ctx) })
	if limits.Bindings > 0 {
		f.tasks.Go(func() { f.sweepBindings(ctx) })
	}
	return nil
}

// close ends what start began. When flow entries go on, so must the interfaces.
func (f *Forwarder) close(goesOn bool) error {
	var errs []error
	if !goesOn {
		f.mu.Lock()
		f.ended = true
		f.mu.Unlock()
		if !f.isReady() {
			close(f.ready)
		}
		errs = append(errs, f.listeners.Close())
	}
	if f.controllers != nil {
		f.controllers.Close()
	}
	switch {
	case f.ports != nil && goesOn:
		errs = append(errs, f.ports.Leave())
	case f.ports != nil:
		errs = append(errs, f.ports.Close())
	}
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.endSweeps()
	if f.kernel != nil {
		errs = append(errs, f.kernel.Close())
	}
	f.tasks.Wait()
	if f.journal != nil {
		errs = append(errs, f.journal.Close())
	}
	return errors.Join(errs...)
}

func (f *Forwarder) isReady() bool {
	select {
	case <-f.ready:
		return true
	default:
		return false
	}
}

func (f *Forwarder) portList() []ports.Port {
	var list []ports.Port
	for _, p := range f.cfg.Ports {
		list = append(list, ports.Port{Number: p.No, Name: p.Interface})
	}
	if f.cfg.Local != "" {
		list = append(list, ports.Port{Number: openflow.PortLocal, Name: f.cfg.Local})
	}
	return list
}

// portChanged is told of a port as it has become.
func (f *Forwarder) portChanged(e ports.Event) {
	f.mu.Lock()
	f.setPort(e)
	c := f.controllers
	f.mu.Unlock()
	if c != nil && f.isReady() { // who comes before that will ask
		c.PortStatus(&openflow.PortStatus{Reason: e.Reason, Port: e.Port})
	}
}

// setPort puts a port into force, unless something later is. The caller holds mu.
func (f *Forwarder) setPort(e ports.Event) {
	no := e.Port.No
	if before, ok := f.latest[no]; ok && before.Serial > e.Serial {
		return
	}
	f.latest[no] = e
	err := f.installed.SetPort(no, install.Port{Ifindex: e.Ifindex, Config: e.Port.Config, Live: e.Up, Host: f.hostSide(no)})
	if err != nil {
		f.log.Error("a port cannot be used", "port", no.String(), "error", err)
	}
}

func (f *Forwarder) hostSide(no openflow.PortNo) bool {
	return slices.ContainsFunc(f.cfg.Ports, func(p config.Port) bool { return p.No == no && p.HostSide })
}

func (f *Forwarder) datapathID() uint64 {
	if f.cfg.DatapathID != 0 || f.ports == nil {
		return f.cfg.DatapathID
	}
	id := uint64(0)
	if list := f.ports.List(); len(list) > 0 {
		for _, b := range list[0].MAC {
			id = id<<8 | uint64(b)
		}
	}
	return id
}

func (f *Forwarder) features() openflow.FeaturesReply {
	<-f.ready
	return openflow.FeaturesReply{
		DatapathID: f.datapathID(),
		Tables:     uint8(f.cfg.Limits.Tables),
		Capabilities: openflow.CapabilityFlowStats | openflow.CapabilityTableStats | openflow.CapabilityPortStats |
			openflow.CapabilityGroupStats,
	}
}

// expireEvery is how often the time-outs of flow entries are looked at; they have seconds.
const expireEvery = 100 * time.Millisecond

func (f *Forwarder) expire(ctx context.Context) {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			f.controllers.Do(func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				if f.ended {
					return
				}
				c := f.pipeline.Expire(now, func(e *pipeline.Entry) time.Time {
					if used := f.installed.Used(e.ID, now); used.After(f.began) {
						return used
					}
					return f.began // what an earlier process has seen is not known
				})
				if c.Empty() {
					return
				}
				if err := f.apply(now, c); err != nil {
					f.log.Error("flow entries whose time is over are not all removed", "error", err)
				}
				f.recordExpired(now, c.Removed)
			})
		}
	}
}

// apply puts a change into force and tells of the entries that are gone. The caller holds mu.
func (f *Forwarder) apply(now time.Time, c pipeline.Change) error {
	return f.installed.Apply(c, func(r *pipeline.Removed, n openflow.Counter) {
		f.tally.gone(r.Reason)
		if r.Report && f.controllers != nil {
			f.controllers.FlowRemoved(r.FlowRemoved(now, n))
		}
	})
}
