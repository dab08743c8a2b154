// Package forwarder is Baton's OpenFlow 1.3 switch: controllers fill its tables, the kernel forwards by them.
//
// A controller's message changes the pipeline (forwarder/pipeline), which is pure data and implements the rules of the specification. The
// changes are compiled (forwarder/compile) into records that the kernel executes (forwarder/install, datapath) before the next message is
// handled, so a barrier has nothing to wait for. Only packets for controllers reach user space.
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

// pins is the folder of the attachments of all forwarders on the host. The router has a folder of its own: it takes over every file in it.
const pins = "/sys/fs/bpf/baton-forwarder"

// StatePath is the folder of a forwarder's pinned attachments.
func StatePath(name string) string { return filepath.Join(pins, name) }

// LoopDevices are the possible names of a forwarder's loop device. A new process uses another name than its predecessor, so that copies in
// flight through the predecessor's tables are not lost. There are more than two names because starts may be killed.
func LoopDevices(name string) [10]string {
	list := [10]string{"loop-" + name}
	for i := 1; i < len(list); i++ {
		list[i] = fmt.Sprintf("loo%d-%s", i, name)
	}
	return list
}

// Forwarder is a switch. The fields after mu are guarded by it, except the controllers, whose turn takes it.
type Forwarder struct {
	cfg     *config.Config // as of the start: Reload may have changed the controllers since
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
	stop        context.CancelFunc // of one of several
	began       time.Time
	ready       chan struct{} // closed when messages can be handled, or never will be: then ended is set

	reloading sync.Mutex     // guards inForce
	inForce   *config.Config // the latest

	sweeping sync.Mutex // guards swept
	swept    bool       // no more sweeps

	mu        sync.Mutex
	pipeline  *pipeline.Pipeline
	installed *install.Kernel
	journal   *journal.Journal // nil: state is not stored
	latest    map[openflow.PortNo]ports.Event
	packetIn  openflow.PacketIn
	ended     bool // the kernel's memory is unmapped
	// dropFragments is set by controllers.
	dropFragments bool
}

// Options of New.
type Options struct {
	Config  *config.Config
	Version string // of the program
	Log     *slog.Logger
	Load    func() (*config.Config, error) // for Reload; nil: not supported
}

// New returns a forwarder to be started with Run.
func New(o Options) *Forwarder {
	return &Forwarder{
		cfg: o.Config, inForce: o.Config, version: o.Version, log: o.Log, load: o.Load, began: time.Now(), ready: make(chan struct{}),
		latest: make(map[openflow.PortNo]ports.Event),
	}
}

// Run runs the forwarder until ctx ends. It may be called once. Afterwards the flow entries keep working in the kernel until [Remove], or the
// next forwarder with that name.
func (f *Forwarder) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := f.start(ctx); err != nil {
		return errors.Join(err, f.close(false))
	}
	f.sayUp()
	<-ctx.Done()
	return f.close(true)
}

func (f *Forwarder) sayUp() {
	f.log.Info("forwarder is up", "name", f.cfg.Name, "datapath_id", fmt.Sprintf("%#x", f.datapathID()), "ports", len(f.cfg.Ports))
}

// room adds spare capacity in the kernel to the pipeline's limit, so that replaced records can be freed late.
func room(n int) int { return n + n/4 + 256 }

const (
	// opsEach is the average number of actions per flow entry that there is space for.
	opsEach = 4
	// At most as many subtables as flow entries are in use. A change of one writes the list of its table again, next to those that packets
	// may still be reading.
	maxSubtables, maxLists, listsEach = 1 << 14, 1 << 17, 16
	// A bridge has no more stations than conversations.
	maxStations = 8192
)

func (f *Forwarder) start(ctx context.Context) (err error) {
	limits := f.cfg.Limits
	paths := 1 << bits.Len(uint(limits.Cache-1))
	loop := chooseLoop(f.cfg.Name)
	f.kernel, err = kernel.Open(kernel.Options{
		State: StatePath(f.cfg.Name), Name: loop,
		Entries: room(limits.Entries), Ops: kernel.OutOps + opsEach*room(limits.Entries),
		Lists: min(maxLists, listsEach*room(limits.Entries)), Subtables: min(maxSubtables, room(limits.Entries)),
		Groups: room(limits.Groups), Buckets: 16 * room(limits.Groups), Slots: 64 * room(limits.Groups),
		Meters: room(limits.Meters), Megaflows: paths, Bindings: limits.Bindings, Upcalls: limits.Upcalls,
		Stations: min(maxStations, paths), NormalStack: f.cfg.NormalStack,
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
	// Errors in the configuration must surface before anything is taken over.
	f.controllers, err = controllers.Open(ctx, f.cfg, controllers.Handler{
		Features: f.features, Handle: f.handle, OnChange: func(is bool) { <-f.ready; f.connected(is) },
	}, f.log)
	if err != nil {
		return err
	}
	if f.cfg.Control != "" { // one of several has none
		if f.listeners, err = daemon.Listen(f.cfg.Control, f.cfg.Metrics); err != nil {
			return fmt.Errorf("%s: %w", f.cfg.File, err)
		}
	}
	f.ports, err = ports.Open(ctx, ports.Options{Ports: f.portList(), Own: f.cfg.NormalStack, Report: f.portChanged, Log: f.log})
	if err != nil {
		return err
	}
	f.mu.Lock()
	if err := f.installed.Begin(); err != nil {
		f.log.Error("a port cannot be used", "error", err) // its interface has just gone, or its next change triggers a retry
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
	if f.cfg.Control != "" {
		f.tasks.Go(func() {
			f.listeners.Serve(ctx, f.backend(), f.Metrics(f.status), f.log)
		})
	}
	f.tasks.Go(f.readUpcalls)
	f.tasks.Go(func() { f.expire(ctx) })
	if limits.Bindings > 0 {
		f.tasks.Go(func() { f.sweepBindings(ctx) })
	}
	return nil
}

// close undoes start. The interfaces are kept if the flow entries are to keep working.
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

// portChanged handles a change of a port.
func (f *Forwarder) portChanged(e ports.Event) {
	f.mu.Lock()
	f.setPort(e)
	c := f.controllers
	f.mu.Unlock()
	if c != nil && f.isReady() { // controllers that connect later ask for the ports
		c.PortStatus(&openflow.PortStatus{Reason: e.Reason, Port: e.Port})
	}
}

// setPort applies a port's state, unless it is outdated. The caller holds mu.
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

// expireEvery is how often timeouts of flow entries, which are in seconds, are checked.
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
					return f.began // an earlier process's packets are unknown
				})
				if c.Empty() {
					return
				}
				if err := f.apply(now, c); err != nil {
					f.log.Error("some expired flow entries were not removed", "error", err)
				}
				f.recordExpired(now, c.Removed)
			})
		}
	}
}

// apply applies a change, and notifies controllers of removed entries. The caller holds mu.
func (f *Forwarder) apply(now time.Time, c pipeline.Change) error {
	return f.installed.Apply(c, func(r *pipeline.Removed, n openflow.Counter) {
		f.tally.gone(r.Reason)
		if r.Report && f.controllers != nil {
			f.controllers.FlowRemoved(r.FlowRemoved(now, n))
		}
	})
}
