package forwarder

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"baton/datapath"
)

// Records of the forwarder's maps, described in bpf/forwarder/types.h.
type (
	Entry      = forwarderFlowEntry
	Op         = forwarderOp
	Group      = forwarderGroup
	Bucket     = forwarderBucket
	Meter      = forwarderMeter
	Band       = forwarderBand
	Port       = forwarderPort
	Counts     = forwarderCounts
	Listed     = forwarderListed
	Table      = forwarderTable
	UpcallHead = forwarderUpcall
)

// Fields is a packet's fields, or a mask of them (struct fields).
type Fields = [128]byte

// Limits of the forwarder.
const (
	MaxTables    = int(forwarderBoundMAX_TABLES)
	MaxPorts     = int(forwarderBoundMAX_PORTS)
	MaxBands     = int(forwarderBoundMAX_BANDS)
	OutOps       = int(forwarderBoundOUT_OPS)
	MaxSubtables = int(forwarderBoundMAX_SUBTABLES)
	MaxFrame     = int(forwarderBoundMAX_FRAME)

	// NoEntry is the index of no flow entry.
	NoEntry = ^uint32(0)
)

// ErrInUse reports that another process owns the state.
var ErrInUse = errors.New("another forwarder of this name is running")

// Options size the forwarder's data path.
type Options struct {
	State string // folder on a BPF file system, where attachments outlive the process
	// Name names the loop device.
	Name string
	// Entries counts those of all tables together, Lists the items of their lists of subtables, Subtables the different masks.
	Entries, Ops, Lists, Subtables            int
	Groups, Buckets, Slots, Meters, Megaflows int  // Megaflows: per processor, a power of two
	Bindings                                  int  // size of the binding table; 0: none, and bind drops
	Upcalls                                   int  // bytes of upcalls that wait, a power of two; 0: 4 MiB
	Stations                                  int  // MACs that NORMAL has learnt; 0: 8192
	NormalStack                               bool // NORMAL passes packets to the host's stack
}

// Forwarder is the forwarder's data path in the kernel. The slices are its maps' memory: what is written there takes effect at once. See
// bpf/forwarder/types.h for what may be written while packets pass.
type Forwarder struct {
	Tables       []Table
	Lists        []Listed
	Subtables    []Fields
	Entries      []Entry
	EntryCounts  []Counts
	Ops          []Op
	GroupHeads   []uint64 // versions; the upper half is OpenFlow's number
	Groups       []Group
	GroupCounts  []Counts
	Buckets      []Bucket
	BucketCounts []Counts
	Slots        []uint64 // buckets, relative to the group's first
	Meters       []Meter
	MeterCounts  []Counts
	Ports        []Port

	options  Options
	objects  forwarderObjects
	whole    *forwarderPipeline
	out      *forwarderPacketOut
	memories [][]byte
	loop     *datapath.Tap
	links    map[string]link.Link // by pin name
	lock     *os.File
	upcalls  *ringbuf.Reader
}

// Needs is what the forwarder needs of a host.
var Needs = []datapath.Need{
	{Feature: datapath.Kernel},
	{Feature: datapath.CapNetAdmin, For: "attach programs and make the loop device"},
	{Feature: datapath.CapBPF, For: "load programs and maps"},
	{Feature: datapath.CapPerfmon, For: "load programs that index tables"}, // without it the verifier rejects variable offsets into records
	{Feature: datapath.BPF, For: "load programs"},
	{Feature: datapath.BPFFileSystem, For: "keep flow entries while its process is replaced"},
	{Feature: datapath.Tun, For: "make the loop device"},
	{Feature: datapath.TCX, For: "attach programs to interfaces"},
	{Feature: datapath.JIT, For: "call functions of the kernel"},
	{Feature: datapath.BTF, For: "call functions of the kernel"},
	{Feature: datapath.ProgramsOf("forwarder", loadForwarder)},
}

// Open loads the programs with empty tables, and makes the loop device or takes over an earlier process's. Nothing is attached yet. The caller
// closes the Forwarder; attached programs keep running with their tables until Remove.
func Open(o Options) (_ *Forwarder, err error) {
	if err := datapath.Require("forwarder", Needs); err != nil {
		return nil, err
	}
	if err := datapath.EnsureBPFFS(filepath.Dir(o.State)); err != nil {
		return nil, err
	}
	f := &Forwarder{options: o, links: make(map[string]link.Link)}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := os.MkdirAll(o.State, 0o700); err != nil {
		return nil, fmt.Errorf("make the state: %w", err)
	}
	if f.lock, err = datapath.Lock(o.State); errors.Is(err, datapath.ErrLocked) {
		return nil, fmt.Errorf("%w: %s", ErrInUse, o.State)
	}
	if err != nil {
		return nil, err
	}
	if err := f.load(); err != nil {
		return nil, err
	}
	if f.loop, err = openLoop(o.Name); err != nil {
		return nil, err
	}
	f.whole.Loop = uint32(f.loop.Ifindex)
	if f.upcalls, err = ringbuf.NewReader(f.objects.Upcalls); err != nil {
		return nil, fmt.Errorf("read upcalls: %w", err)
	}
	return f, f.attach(f.loop.Ifindex, false, f.objects.ForwarderIngress)
}

// program is read once for all forwarders of a process.
var program = sync.OnceValues(loadForwarder)

func (f *Forwarder) load() error {
	spec, err := program()
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	spec = spec.Copy() // each has its own sizes
	processors, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count processors: %w", err)
	}
	o := f.options
	for name, n := range map[string]int{
		forwarderMapEntries: o.Entries, forwarderMapEntryCounts: o.Entries, forwarderMapRules: o.Entries, forwarderMapOps: o.Ops,
		forwarderMapLists: o.Lists, forwarderMapSubtables: o.Subtables,
		forwarderMapGroups: o.Groups, forwarderMapGroupHeads: o.Groups, forwarderMapGroupCounts: o.Groups, forwarderMapBuckets: o.Buckets,
		forwarderMapBucketCounts: o.Buckets, forwarderMapSlots: o.Slots, forwarderMapMeters: o.Meters, forwarderMapMeterCounts: o.Meters,
		forwarderMapMegaflows: max(processors*o.Megaflows, 1), forwarderMapUpcallBuffers: processors,
	} {
		spec.Maps[name].MaxEntries = uint32(n)
	}
	for name, n := range map[string]int{forwarderMapUpcalls: o.Upcalls, forwarderMapStations: o.Stations} {
		if n > 0 {
			spec.Maps[name].MaxEntries = uint32(n)
		}
	}
	remembered, err := openBindings(spec, o)
	if err != nil {
		return err
	}
	defer datapath.CloseMaps(remembered)
	if err := datapath.LoadObjects(spec, &f.objects, &ebpf.CollectionOptions{MapReplacements: remembered}); err != nil {
		return err
	}
	if err := f.keepBindings(remembered); err != nil {
		return err
	}
	m := &f.objects.forwarderMaps
	f.Tables, err = share[Table](f, m.Tables, err)
	f.Lists, err = share[Listed](f, m.Lists, err)
	f.Subtables, err = share[Fields](f, m.Subtables, err)
	f.Entries, err = share[Entry](f, m.Entries, err)
	f.EntryCounts, err = share[Counts](f, m.EntryCounts, err)
	f.Ops, err = share[Op](f, m.Ops, err)
	f.GroupHeads, err = share[uint64](f, m.GroupHeads, err)
	f.Groups, err = share[Group](f, m.Groups, err)
	f.GroupCounts, err = share[Counts](f, m.GroupCounts, err)
	f.Buckets, err = share[Bucket](f, m.Buckets, err)
	f.BucketCounts, err = share[Counts](f, m.BucketCounts, err)
	f.Slots, err = share[uint64](f, m.Slots, err)
	f.Meters, err = share[Meter](f, m.Meters, err)
	f.MeterCounts, err = share[Counts](f, m.MeterCounts, err)
	f.Ports, err = share[Port](f, m.Ports, err)
	whole, err := share[forwarderPipeline](f, m.Pipelines, err)
	outs, err := share[forwarderPacketOut](f, m.PacketOuts, err)
	if err != nil {
		return err
	}
	f.whole, f.out = &whole[0], &outs[0]
	f.whole.Megaflows = uint32(o.Megaflows)
	f.whole.Bindings = uint32(o.Bindings)
	f.whole.Epoch = rand.Uint64() // invalidates an earlier process's microflow ids in the binding table
	if o.NormalStack {
		f.whole.Stack = 1
	}
	return fillCRC(m.CrcPowers)
}

// share maps an array's memory.
func share[T any](f *Forwarder, m *ebpf.Map, before error) ([]T, error) {
	if before != nil {
		return nil, before
	}
	var v T
	if size := int(unsafe.Sizeof(v)); size != (int(m.ValueSize())+7)&^7 {
		return nil, fmt.Errorf("share %v: records of %d bytes, not %d", m, m.ValueSize(), size)
	}
	length := int(m.MaxEntries()) * int(unsafe.Sizeof(v))
	page := os.Getpagesize()
	b, err := unix.Mmap(m.FD(), 0, (length+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("share %v: %w", m, err)
	}
	f.memories = append(f.memories, b)
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), m.MaxEntries()), nil
}

// fillCRC fills in the images of each bit of a CRC-32C register under 1, 2, 4... zero bytes.
func fillCRC(m *ebpf.Map) error {
	table := crc32.MakeTable(crc32.Castagnoli)
	var power [32]uint32
	for bit := range power {
		v := uint32(1) << bit
		power[bit] = v>>8 ^ table[v&0xff]
	}
	times := func(v uint32) (out uint32) {
		for bit := range power {
			if v>>bit&1 == 1 {
				out ^= power[bit]
			}
		}
		return out
	}
	for n := range m.MaxEntries() {
		if err := m.Put(n, power); err != nil {
			return fmt.Errorf("fill in the powers of CRC-32C: %w", err)
		}
		var square [32]uint32
		for bit := range power {
			square[bit] = times(power[bit])
		}
		power = square
	}
	return nil
}

// SetList switches a table to the list of subtables Lists[first : first+count].
func (f *Forwarder) SetList(table int, first, count uint32) {
	word := uint64(count)<<32 | uint64(first)
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&f.Tables[table])), word)
}

// SetRule sets the entry that packets with these masked fields match in a subtable.
func (f *Forwarder) SetRule(fields *Fields, entry, priority uint32) error {
	v := forwarderRule{Entry: entry, Priority: priority}
	if err := f.objects.Rules.Put(unsafe.Pointer(fields), unsafe.Pointer(&v)); err != nil {
		return fmt.Errorf("write a flow entry: %w", err)
	}
	return nil
}

// RemoveRule removes such a rule.
func (f *Forwarder) RemoveRule(fields *Fields) error {
	if err := f.objects.Rules.Delete(unsafe.Pointer(fields)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("remove a flow entry: %w", err)
	}
	return nil
}

// Changed starts a new epoch: packets no longer use flows cached before.
func (f *Forwarder) Changed() { atomic.AddUint64(&f.whole.Epoch, 1) }

// SetUsed sets the union of all entries' masks. Changed must follow.
func (f *Forwarder) SetUsed(mask *Fields) {
	*(*Fields)(unsafe.Pointer(&f.whole.Used)) = *mask
}

// SetPorts sets the number of port indices in use.
func (f *Forwarder) SetPorts(n int) { atomic.StoreUint32(&f.whole.Ports, uint32(n)) }

// SetFragments says whether IP fragments are dropped.
func (f *Forwarder) SetFragments(drop bool) {
	v := uint32(0)
	if drop {
		v = 1
	}
	atomic.StoreUint32(&f.whole.Fragments, v)
}

// Send executes ops on a frame as if it had come in by in_port. One caller at a time.
func (f *Forwarder) Send(frame []byte, inPort uint32, ops []Op) error {
	if len(ops) > OutOps {
		return fmt.Errorf("send a packet: %d actions, at most %d", len(ops), OutOps)
	}
	copy(f.Ops[:OutOps], ops)
	f.out.InPort, f.out.Ops = inPort, uint32(len(ops))
	// The program has run when the write returns.
	return f.loop.Write(frame)
}

// Upcall waits for a packet for the controllers, and reads it into r, reusing its memory. It returns datapath.ErrClosed after Close.
func (f *Forwarder) Upcall(r *Upcall) error {
	if err := f.upcalls.ReadInto(&r.record); err != nil {
		return err
	}
	n := int(unsafe.Sizeof(UpcallHead{}))
	if len(r.record.RawSample) < n {
		return fmt.Errorf("upcall of %d bytes", len(r.record.RawSample))
	}
	r.Head = (*UpcallHead)(unsafe.Pointer(&r.record.RawSample[0]))
	r.Frame = r.record.RawSample[n:]
	return nil
}

// Upcall is a packet for the controllers.
type Upcall struct {
	Head   *UpcallHead
	Frame  []byte
	record ringbuf.Record
}

// Verdicts returns the packet counters by name of the verdict.
func (f *Forwarder) Verdicts() (map[string]uint64, error) {
	return datapath.Verdicts(f.objects.Verdicts, verdictNames[:])
}

// Close releases the kernel's objects. Attached programs keep running.
func (f *Forwarder) Close() error {
	var errs []error
	if f.upcalls != nil {
		errs = append(errs, f.upcalls.Close())
	}
	for _, l := range f.links {
		errs = append(errs, l.Close())
	}
	if f.loop != nil {
		errs = append(errs, f.loop.Close())
	}
	for _, b := range f.memories {
		errs = append(errs, unix.Munmap(b))
	}
	f.memories = nil
	errs = append(errs, f.objects.Close())
	if f.lock != nil {
		errs = append(errs, f.lock.Close())
	}
	return errors.Join(errs...)
}

// Remove removes all that a forwarder has left in the kernel. It must not be running.
func Remove(state, name string) error {
	lock, err := datapath.Lock(state)
	switch {
	case errors.Is(err, datapath.ErrLocked):
		return fmt.Errorf("%w: %s", ErrInUse, state)
	case err == nil:
		defer lock.Close()
		err = errors.Join(detachPinned(state, func(string) bool { return false }), os.RemoveAll(state))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", state, err)
	}
	return removeLoop(name)
}
