package purge

import (
	"errors"
	"fmt"
	"io"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"baton/datapath"
)

// Purge reports connections on which this host's servers retransmit without a response. Nothing is pinned: all of it goes with the
// process, except a flag on sockets that has no effect then.
//
// Its methods may be called at any time by any goroutine, but SetPolicies and AttachCgroup by one at a time each, and Close last. All
// act on the network namespace in which Load was called.
type Purge struct {
	objects    purgeObjects
	generation uint32
	tables     tables // in force
	stale      tables // of the other generation
	groups     map[string]*datapath.Cgroup
	hierarchy  datapath.Hierarchy
}

// Options make a Purge.
type Options struct {
	Marks   int  // how many unread marks the ring holds, up to 16 MiB
	Orphans bool // also mark connections that the application may have closed (FIN-WAIT-1, LAST-ACK, CLOSING)
}

// MaxCgroups is the most control groups that a Purge may be attached to.
const MaxCgroups = int(purgeBoundMAX_GROUPS)

// Needs is what the purge's programs need of a host.
var Needs = []datapath.Need{
	{Feature: datapath.Kernel},
	{Feature: datapath.CapPerfmon, For: "load programs that look into sockets"},
	{Feature: datapath.CapNetAdmin, For: "attach programs and end connections"},
	{Feature: datapath.CapBPF, For: "load programs and maps"},
	{Feature: datapath.BPF, For: "load programs"},
	{Feature: datapath.BTF, For: "look into sockets"},
	{Feature: datapath.SockOps, For: "watch the connections of control groups"},
	{Feature: datapath.Cgroup2, For: "find the control groups"},
	{Feature: datapath.JIT, For: "call back its programs"},
	{Feature: datapath.IPv6, Without: "IPv4 only"},
	{Feature: datapath.ProgramsOf("purge", loadPurge)},
}

// Load loads the programs without attaching them. The caller closes the Purge.
func Load(o Options) (*Purge, error) {
	if o.Marks < 1 {
		return nil, fmt.Errorf("load the purge: %d marks: at least one", o.Marks)
	}
	if err := datapath.Require("purge", Needs); err != nil {
		return nil, err
	}
	spec, err := loadPurge()
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	netns, err := datapath.OwnNetns()
	if err != nil {
		return nil, err
	}
	hertz, err := jiffiesPerSecond()
	if err != nil {
		return nil, err
	}
	err = datapath.SetConstants(spec, map[string]any{purgeVarOwnNetns: netns, purgeVarHertz: hertz, purgeVarOrphans: o.Orphans})
	if err != nil {
		return nil, err
	}
	spec.Maps[purgeMapMarks].MaxEntries = datapath.RingSize(o.Marks, int(unsafe.Sizeof(purgeMark{})), 64<<10, 16<<20)
	p := &Purge{groups: make(map[string]*datapath.Cgroup)}
	if err := datapath.LoadObjects(spec, &p.objects, nil); err != nil {
		return nil, err
	}
	return p, nil
}

// jiffiesPerSecond returns the rate of the kernel's coarse clock (CONFIG_HZ).
func jiffiesPerSecond() (uint32, error) {
	var tick unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &tick); err != nil {
		return 0, fmt.Errorf("ask for the length of a jiffy: %w", err)
	}
	if tick.Nano() <= 0 || tick.Nano() > int64(time.Second) {
		return 0, fmt.Errorf("ask for the length of a jiffy: %d ns", tick.Nano())
	}
	return uint32(int64(time.Second) / tick.Nano()), nil
}

// Arm starts to watch the control groups' connections that are older than the programs or the policies. It marks those that are already
// unresponsive.
func (p *Purge) Arm() error {
	if err := iterate(p.objects.PurgeArm); err != nil {
		return fmt.Errorf("watch connections that are there: %w", err)
	}
	return nil
}

// iterate runs a program over all TCP sockets of the network namespace.
func iterate(program *ebpf.Program) error {
	l, err := link.AttachIter(link.IterOptions{Program: program})
	if err != nil {
		return err
	}
	defer l.Close()
	r, err := l.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}

// Verdicts returns the names of enum verdict, in its order.
func Verdicts() []string { return verdictNames[:purgeVerdictVERDICTS] }

// Verdicts returns the count of each verdict since Load.
func (p *Purge) Verdicts() (map[string]uint64, error) {
	return datapath.Verdicts(p.objects.Verdicts, Verdicts())
}

// Close detaches everything.
func (p *Purge) Close() error {
	return errors.Join(p.detachGroups(), p.objects.Close())
}
