package quic

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"baton/datapath"
)

// ErrInUse: another process owns the state.
var ErrInUse = errors.New("another router is running on this state")

// Limits of the kernel's tables.
const (
	MaxVIPs = int(quicBoundMAX_VIPS)
	MaxID   = int(quicBoundMAX_ID) // bytes of a connection id
)

// Options size the data path. They are fixed until the state is removed.
type Options struct {
	State    string // directory on a BPF file system
	Sessions int
}

// QUIC is the data path for QUIC in the kernel. Its methods may be called from any goroutine, those that change a session from
// one at a time.
type QUIC struct {
	options   Options
	programs  quicPrograms
	maps      quicMaps
	attaching sync.Mutex
	links     *datapath.Links // under attaching once open
	replay    link.Link       // on the tap, not pinned
	lock      *os.File        // of the state directory
	paths     *datapath.Paths[netip.Addr, quicQuicPath]
}

// Programs is the feature that the programs for QUIC load.
var Programs = datapath.ProgramsOf("router for QUIC", loadQuic)

var needs = []datapath.Need{
	{Feature: datapath.Kernel},
	{Feature: datapath.CapNetAdmin, For: "attach programs"},
	{Feature: datapath.CapBPF, For: "load programs and maps"},
	{Feature: datapath.BPF, For: "load programs"},
}

// Open adopts the state of an earlier process in o.State with its sessions, or creates a new one. The caller closes the QUIC; the state
// stays until Remove.
func Open(o Options) (_ *QUIC, err error) {
	if err := datapath.Require("router", needs); err != nil {
		return nil, err
	}
	q := &QUIC{options: o}
	defer func() {
		if err != nil {
			q.Close()
		}
	}()
	if err := q.own(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	layout, err := layout()
	if err != nil {
		return nil, err
	}
	pinned, err := datapath.OpenMaps(o.State, layout)
	if errors.Is(err, datapath.ErrLayout) {
		return nil, fmt.Errorf("%w; run the version that created it, or end its connections with `baton router cleanup`", err)
	}
	if err != nil {
		return nil, err
	}
	defer datapath.CloseMaps(pinned)
	if err := q.load(pinned); err != nil {
		return nil, err
	}
	if len(pinned) > 0 {
		return q, errors.Join(datapath.PinMissing(o.State, q.named(), pinned, layout), q.links.Adopt())
	}
	if err := datapath.PinMaps(o.State, o.State+"_new"+strconv.Itoa(os.Getpid()), q.named(), layout); err != nil {
		return nil, err
	}
	return q, q.own()
}

func layout() (datapath.Layout, error) {
	spec, err := loadQuic()
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	return datapath.LayoutOf(spec, datapath.Stored{
		Maps:  slices.Collect(maps.Keys((&QUIC{}).named())),
		Types: []string{"side", "session_state", "session_flag", "server_flag"},
	})
}

// own locks the state.
func (q *QUIC) own() error {
	lock, err := datapath.Lock(q.options.State)
	if errors.Is(err, datapath.ErrLocked) {
		return fmt.Errorf("%w: %s", ErrInUse, q.options.State)
	}
	q.lock = lock
	return err
}

func (q *QUIC) load(pinned map[string]*ebpf.Map) error {
	spec, err := loadQuic()
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	spec.Maps[quicMapSessions].MaxEntries = uint32(q.options.Sessions)
	spec.Maps[quicMapFlows].MaxEntries = uint32(2 * q.options.Sessions)
	spec.Maps[quicMapIds].MaxEntries = uint32(3 * q.options.Sessions) // one of the surrogate's header, one or two of the client's
	opts := &ebpf.CollectionOptions{MapReplacements: make(map[string]*ebpf.Map)}
	for name, m := range pinned {
		if spec.Maps[name] != nil {
			spec.Maps[name].MaxEntries = m.MaxEntries()
			opts.MapReplacements[name] = m
		}
	}
	var objects quicObjects
	if err := datapath.LoadObjects(spec, &objects, opts); err != nil {
		return err
	}
	q.programs, q.maps = objects.quicPrograms, objects.quicMaps
	q.paths = newPaths()
	q.links = datapath.NewLinks(q.options.State, q.programs.QuicIngress)
	return nil
}

// named maps pins to the maps that outlive the process.
func (q *QUIC) named() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{
		quicMapBuckets:  q.maps.Buckets,
		quicMapFlows:    q.maps.Flows,
		quicMapIds:      q.maps.Ids,
		quicMapPaths:    q.maps.Paths,
		quicMapSessions: q.maps.Sessions,
		quicMapSettings: q.maps.Settings,
		quicMapVerdicts: q.maps.Verdicts,
		quicMapVips:     q.maps.Vips,
	}
}

// Sessions is the capacity of the state.
func (q *QUIC) Sessions() int { return int(q.maps.Sessions.MaxEntries()) }

// Attach attaches the program to an interface's ingress, where it stays until Remove.
func (q *QUIC) Attach(ifindex int) error {
	q.attaching.Lock()
	defer q.attaching.Unlock()
	return q.links.Attach(ifindex)
}

// Attached lists the interfaces that the program is attached to.
func (q *QUIC) Attached() []int {
	q.attaching.Lock()
	defer q.attaching.Unlock()
	return q.links.Attached()
}

// AttachReplay attaches the program that replays datagrams to the tap. It is detached when the process ends.
func (q *QUIC) AttachReplay(ifindex int) (err error) {
	q.replay, err = link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: q.programs.QuicReplay, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return fmt.Errorf("attach to the tap: %w", err)
	}
	return nil
}

// Close closes the kernel's objects. What is pinned stays and keeps working.
func (q *QUIC) Close() error {
	errs := []error{q.links.Close()}
	if q.replay != nil {
		errs = append(errs, q.replay.Close())
	}
	errs = append(errs, q.programs.Close(), q.maps.Close())
	if q.lock != nil {
		errs = append(errs, q.lock.Close())
	}
	return errors.Join(errs...)
}

// Remove removes all state pinned in dir, with its sessions. It fails while a process owns the state.
func Remove(dir string) error {
	owner := &QUIC{options: Options{State: dir}}
	if err := owner.own(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	} else if err == nil {
		defer owner.lock.Close()
	}
	return datapath.RemovePins(dir)
}

// VerdictNames are the C names of the verdicts in lower case, in their order.
func VerdictNames() []string { return verdictNames[:quicVerdictVERDICTS] }

// Verdicts counts datagrams by verdict since the state was created, by the verdicts' C names in lower case.
func (q *QUIC) Verdicts() (map[string]uint64, error) {
	return datapath.Verdicts(q.maps.Verdicts, VerdictNames())
}
