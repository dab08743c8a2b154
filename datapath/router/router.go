package router

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"baton/datapath"
)

// ErrInUse: another process owns the state.
var ErrInUse = errors.New("another router is running on this state")

// mostLingering is how many lingering clients are found without a walk: 40 bytes each.
const mostLingering = 262144

// Options size the data path. They are fixed until the state is removed.
type Options struct {
	State    string // directory on a BPF file system
	Sessions int    // splices: idle legs and sessions together
	Pending  int    // undecided clients, and entries of SYN options
	Legs     int    // idle legs per surrogate and class
	Hosts    int    // named in routes; 0: 65,536
}

// Router is the request router's data path in the kernel.
type Router struct {
	options  Options
	programs routerPrograms
	maps     routerMaps
	counted  *ebpf.Memory // of maps.Surrogates
	links    *datapath.Links
	replay   link.Link // on the tap, not pinned
	lock     *os.File  // of the state directory
	adopted  bool
	top      atomic.Uint32 // splices from here on have never been used
	sweeper  sweeper
	queues   queues
	paths    *datapath.Paths[uint16, routerPathKey]
	tables   tables
	edits    edits
	logs     logs
	salt     uint32
}

// Open adopts the state of an earlier process in o.State with its sessions, or creates a new one. The caller closes the Router;
// the state stays until Remove.
func Open(o Options) (_ *Router, err error) {
	if err := Probe(); err != nil {
		return nil, err
	}
	if err := datapath.EnsureBPFFS(filepath.Dir(o.State)); err != nil {
		return nil, err
	}
	r := &Router{options: o}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if err := r.own(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	layout, err := layout()
	if err != nil {
		return nil, err
	}
	pinned, err := datapath.OpenMaps(o.State, layout)
	if errors.Is(err, datapath.ErrLayout) {
		return nil, fmt.Errorf("%w; run the version that created it, or end its sessions with `baton router cleanup`", err)
	}
	if err != nil {
		return nil, err
	}
	defer datapath.CloseMaps(pinned)
	if err := r.load(pinned); err != nil {
		return nil, err
	}
	r.adopted = len(pinned) > 0
	if r.adopted {
		// the queue may lack clients that ended while no process was running
		r.sweeper.walkAt = time.Now().Add(lingerAtMost)
		if err := datapath.PinMissing(o.State, r.named(), pinned, layout); err != nil {
			return nil, err
		}
		if err := r.adoptLogs(); err != nil {
			return nil, err
		}
		if err := r.EachSplice(func(s Splice) error { return r.used(s.Number) }); err != nil {
			return nil, err
		}
		return r, r.links.Adopt()
	}
	if err := r.pin(layout); err != nil {
		return nil, err
	}
	return r, r.own()
}

// own locks the state.
func (r *Router) own() error {
	lock, err := datapath.Lock(r.options.State)
	if errors.Is(err, datapath.ErrLocked) {
		return fmt.Errorf("%w: %s", ErrInUse, r.options.State)
	}
	r.lock = lock
	return err
}

// used includes the splice in sweeps, and makes a place for its log record. The caller opens legs one at a time.
func (r *Router) used(splice uint32) error {
	if splice < r.top.Load() {
		return nil
	}
	r.top.Store(splice + 1)
	r.logs.Lock()
	defer r.logs.Unlock()
	return r.makePages()
}

// Adopted reports whether the state existed before.
func (r *Router) Adopted() bool { return r.adopted }

// Sessions is the capacity of the state in splices.
func (r *Router) Sessions() int { return int(r.maps.Splices.MaxEntries()) }

// Hosts is how many hosts routes can name.
func (r *Router) Hosts() int { return int(r.maps.Hosts.MaxEntries()) / int(routerBoundGENERATIONS) }

func (r *Router) load(pinned map[string]*ebpf.Map) error {
	spec, err := loadRouter()
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	spec.Maps[routerMapSplices].MaxEntries = uint32(r.options.Sessions)
	spec.Maps[routerMapFlows].MaxEntries = uint32(2*r.options.Sessions + r.options.Pending)
	spec.Maps[routerMapLingering].MaxEntries = uint32(min(r.options.Sessions+r.options.Pending, mostLingering))
	spec.Maps[routerMapClients].MaxEntries = uint32(r.options.Pending)
	spec.Maps[routerMapHelloNames].MaxEntries = uint32(r.options.Pending)
	spec.Maps[routerMapAuthorities].MaxEntries = uint32(r.options.Sessions)
	spec.Maps[routerMapSynOptions].MaxEntries = uint32(r.options.Pending)
	spec.Maps[routerMapIdleLegs].InnerMap.MaxEntries = uint32(r.options.Legs)
	if r.options.Hosts > 0 {
		spec.Maps[routerMapHosts].MaxEntries = uint32(r.options.Hosts) * uint32(routerBoundGENERATIONS)
	}
	spec.Maps[routerMapLogPages].MaxEntries = uint32(r.options.Sessions)/uint32(routerBoundLOG_PAGE) + 1

	var objs routerObjects
	opts := &ebpf.CollectionOptions{MapReplacements: make(map[string]*ebpf.Map)}
	for name, m := range pinned {
		if spec.Maps[name] == nil {
			continue
		}
		spec.Maps[name].MaxEntries = m.MaxEntries()
		opts.MapReplacements[name] = m
	}
	var c routerConfig
	if len(pinned) > 0 {
		m := pinned[routerMapSettings]
		if m == nil {
			return fmt.Errorf("adopt %s: settings are missing", r.options.State)
		}
		if err := m.Lookup(uint32(0), &c); err != nil {
			return fmt.Errorf("adopt %s: %w", r.options.State, err)
		}
	}
	if err := datapath.LoadObjects(spec, &objs, opts); err != nil {
		return err
	}
	r.programs, r.maps = objs.routerPrograms, objs.routerMaps
	if r.counted, err = r.maps.Surrogates.Memory(); err != nil {
		return fmt.Errorf("share the surrogates' counters: %w", err)
	}
	r.links = datapath.NewLinks(r.options.State, r.programs.RouterIngress)
	r.tables.generation, r.salt = c.Generation, c.Salt
	r.paths = newPaths()
	for r.salt == 0 {
		r.salt = rand.Uint32()
	}
	r.sweeper.clients.m, r.sweeper.synOptions.m, r.sweeper.flows.m = r.maps.Clients, r.maps.SynOptions, r.maps.Flows
	return nil
}

// named maps pins to the maps that outlive the process.
func (r *Router) named() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{
		routerMapAuthorities:   r.maps.Authorities,
		routerMapClients:       r.maps.Clients,
		routerMapEvents:        r.maps.Events,
		routerMapFlows:         r.maps.Flows,
		routerMapHelloNames:    r.maps.HelloNames,
		routerMapHosts:         r.maps.Hosts,
		routerMapIdleLegs:      r.maps.IdleLegs,
		routerMapLimits:        r.maps.Limits,
		routerMapLingering:     r.maps.Lingering,
		routerMapLingeringLost: r.maps.LingeringLost,
		routerMapLogHeads:      r.maps.LogHeads,
		routerMapLogPages:      r.maps.LogPages,
		routerMapLogRings:      r.maps.LogRings,
		routerMapLogsLost:      r.maps.LogsLost,
		routerMapPaths:         r.maps.Paths,
		routerMapPoolNames:     r.maps.PoolNames,
		routerMapPools:         r.maps.Pools,
		routerMapEdits:         r.maps.Edits,
		routerMapWatchedFields: r.maps.WatchedFields,
		routerMapSources:       r.maps.Sources,
		routerMapSynOptions:    r.maps.SynOptions,
		routerMapRoutes:        r.maps.Routes,
		routerMapSettings:      r.maps.Settings,
		routerMapSplices:       r.maps.Splices,
		routerMapSurrogates:    r.maps.Surrogates,
		routerMapTables:        r.maps.Tables,
		routerMapVerdicts:      r.maps.Verdicts,
		routerMapVips:          r.maps.Vips,
		routerMapZones:         r.maps.Zones,
	}
}

// pin creates the state.
func (r *Router) pin(layout datapath.Layout) error {
	if err := r.maps.Settings.Update(uint32(0), routerConfig{Salt: r.salt}, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	return datapath.PinMaps(r.options.State, r.options.State+"_new"+strconv.Itoa(os.Getpid()), r.named(), layout)
}

// Close closes the kernel's objects. What is pinned stays and keeps working.
func (r *Router) Close() error {
	errs := []error{r.links.Close()}
	for _, q := range r.queues.open {
		errs = append(errs, q.Close())
	}
	if r.replay != nil {
		errs = append(errs, r.replay.Close())
	}
	errs = append(errs, r.programs.Close(), r.maps.Close(), r.tables.close(), r.logs.close())
	if r.lock != nil {
		errs = append(errs, r.lock.Close())
	}
	return errors.Join(errs...)
}

// Remove removes all state pinned in dir, with its sessions. It fails while a process owns the state.
func Remove(dir string) error {
	owner := &Router{options: Options{State: dir}}
	if err := owner.own(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	} else if err == nil {
		defer owner.lock.Close()
	}
	return datapath.RemovePins(dir)
}
