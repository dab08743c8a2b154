package router

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"baton/datapath"
	"baton/datapath/kerneltest"
	"baton/packet"
)

func TestMain(m *testing.M) {
	kerneltest.Main(m, func() error { return datapath.SetUp("lo") })
}

// rig is the loaded program with empty maps.
type rig struct {
	t testing.TB
	*Router
	ifindex uint32 // ingress of the packets; 0 is lo
}

// Sizes of the tests' maps.
const (
	testSessions = 64
	testPending  = 64
	testLegs     = 8
)

var loaded struct {
	sync.Once
	*Router
	err error
}

// The MSS classes of the tests' legs by index, and the usual class with timestamps.
var testMSS = []uint16{536, 1220, 1400, 1440, 1460, 8960}

const (
	usualClass    = 4<<1 | 1
	usualClassNTS = 4 << 1
)

// newRig loads the program once and empties its maps for each test.
func newRig(t testing.TB) *rig {
	t.Helper()
	kerneltest.Need(t)
	loaded.Do(func() {
		if loaded.err = Probe(); loaded.err != nil {
			return
		}
		loaded.Router = &Router{options: Options{Sessions: testSessions, Pending: testPending, Legs: testLegs}}
		loaded.err = loaded.load(nil)
	})
	if loaded.err != nil {
		t.Fatal(loaded.err)
	}
	k := &rig{t: t, Router: loaded.Router}
	k.empty()
	k.must(k.SetConfig(Config{MSS: testMSS, TSOffset: 0x7fff0000}))
	return k
}

func (k *rig) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// empty clears the maps, except the counters of verdicts.
func (k *rig) empty() {
	k.t.Helper()
	k.must(replace(k.maps.Flows, map[routerTuple]routerFlow{}, all))
	k.endedClients()
	k.must(k.maps.LingeringLost.Update(uint32(0), uint64(0), ebpf.UpdateAny))
	k.sweeper.splice, k.sweeper.lost, k.sweeper.walkAt, k.sweeper.walking = 0, 0, time.Time{}, false
	k.must(replace(k.maps.Clients, map[routerTuple]routerClient{}, all))
	k.emptySources()
	k.must(replace(k.maps.SynOptions, map[routerSynOptionsKey]routerClient{}, all))
	k.must(replace(k.maps.HelloNames, map[routerTuple]routerAuthority{}, all))
	k.must(replace(k.maps.Authorities, map[uint32]routerAuthority{}, all))
	k.must(replace(k.maps.Vips, map[routerVipKey]routerVip{}, all))
	k.must(replace(k.maps.Hosts, map[routerHostKey]uint32{}, all))
	k.must(replace(k.maps.Routes, map[routerRouteKey]routerRoute{}, all))
	k.must(replace(k.maps.Zones, map[routerZoneKey]uint32{}, all))
	k.must(replace(k.maps.Paths, map[routerPathKey]uint8{}, all))
	for i := range uint32(testSessions) {
		k.must(k.maps.Splices.Update(i, &routerSplice{}, ebpf.UpdateAny))
	}
	for i := range uint32(8) {
		k.must(k.maps.Surrogates.Update(i, &routerSurrogate{}, ebpf.UpdateAny))
		k.must(k.maps.Limits.Update(i, routerLimit{}, ebpf.UpdateAny))
		for generation := range uint32(2) {
			k.must(k.maps.Pools.Update(poolPlace(generation, uint16(i)), &routerPool{}, ebpf.UpdateAny))
			k.must(k.maps.Tables.Update(tablePlace(generation, uint16(i)), &routerChoices{}, ebpf.UpdateAny))
		}
		for class := range uint8(LegClasses) { // removing a queue itself would wait for the kernel (RCU)
			k.queued(uint16(i), class)
		}
	}
}

func all[K any](*K) bool { return true }

// The actions of a tc program.
const (
	actPass     = kerneltest.ActPass
	actShot     = kerneltest.ActShot
	actRedirect = kerneltest.ActRedirect
)

// result is the result of one packet.
type result struct {
	verdict Verdict
	action  uint32
	frame   []byte // after the program
}

func (r result) parsed(t testing.TB) packet.Frame {
	t.Helper()
	f, err := packet.Parse(r.frame)
	if err != nil {
		t.Fatalf("%v: parse what came out: %v\n% x", r.verdict, err, r.frame)
	}
	return f
}

// checksumComplete makes the kernel set CHECKSUM_COMPLETE, as some devices do, and fail the run with EBADMSG if the sum is not
// kept up to date (BPF_F_TEST_SKB_CHECKSUM_COMPLETE, Linux 6.17).
const checksumComplete = 1 << 2

func (k *rig) run(frame []byte) result { return k.runWith(frame, 0) }

func (k *rig) runWith(frame []byte, flags uint32) result {
	k.t.Helper()
	before := k.counts()
	out := make([]byte, len(frame)+512)
	opts := &ebpf.RunOptions{Data: frame, DataOut: out, Flags: flags}
	if k.ifindex != 0 {
		opts.Context = kerneltest.SKBuff{Ifindex: k.ifindex, IngressIfindex: k.ifindex}
	}
	action, err := k.programs.RouterIngress.Run(opts)
	if err != nil {
		k.t.Fatalf("run: %v\n% x", err, frame)
	}
	r := result{verdict: Verdict(routerVerdictVERDICTS), action: action, frame: opts.DataOut}
	for v, n := range k.counts() {
		switch n - before[v] {
		case 0:
		case 1:
			if r.verdict != Verdict(routerVerdictVERDICTS) {
				k.t.Fatalf("one packet, two verdicts: %v and %v", r.verdict, Verdict(v))
			}
			r.verdict = Verdict(v)
		default:
			k.t.Fatalf("one packet, verdict %v counted %d times", Verdict(v), n-before[v])
		}
	}
	if r.verdict == Verdict(routerVerdictVERDICTS) {
		k.t.Fatal("a packet without a verdict")
	}
	return r
}

// counts reads all verdicts at once.
func (k *rig) counts() []uint64 {
	k.t.Helper()
	n, cpus := int(routerVerdictVERDICTS), kerneltest.PossibleCPUs()
	var cursor ebpf.MapBatchCursor
	keys, each := make([]uint32, n), make([]uint64, n*cpus)
	got, err := k.maps.Verdicts.BatchLookup(&cursor, keys, each, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) || got != n {
		k.t.Fatalf("read verdicts: %d of %d: %v", got, n, err)
	}
	counts := make([]uint64, n)
	for i, v := range each {
		counts[keys[i/cpus]] += v
	}
	return counts
}

// want runs a packet and requires its verdict and action.
func (k *rig) want(frame []byte, verdict routerVerdict, action uint32) result {
	k.t.Helper()
	r := k.run(frame)
	if r.verdict != Verdict(verdict) || r.action != action {
		k.t.Fatalf("got verdict %v, action %d; want %v, %d\n% x", r.verdict, r.action, Verdict(verdict), action, frame)
	}
	return r
}

func (k *rig) splice(n uint32) *routerSplice {
	k.t.Helper()
	var s routerSplice
	k.must(k.maps.Splices.LookupWithFlags(n, &s, ebpf.LookupLock))
	return &s
}

// localFlow is the flow of a client that arrives on ifindex and has a socket of this host.
func localFlow(ifindex uint32) routerFlow {
	return routerFlow{Splice: ifindex, Side: uint32(routerSideSIDE_LOCAL)}
}

// endedFlow is the flow of a session that ended at ms.
func endedFlow(ms uint32, side routerSide) routerFlow { return endedFlowAt(ms, side, 0) }

func endedFlowAt(ms uint32, side routerSide, seq packet.Seq) routerFlow {
	return routerFlow{Splice: ms, Side: uint32(side), Seq: uint32(seq)}
}

func (k *rig) flow(src, dst netip.AddrPort) (routerFlow, bool) {
	k.t.Helper()
	var f routerFlow
	err := k.maps.Flows.Lookup(tuple(src, dst), &f)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return f, false
	}
	k.must(err)
	return f, true
}

func (k *rig) pending(src, dst netip.AddrPort) (routerClient, bool) {
	k.t.Helper()
	var c routerClient
	err := k.maps.Clients.Lookup(tuple(src, dst), &c)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return c, false
	}
	k.must(err)
	return c, true
}

// queued empties a queue of idle legs and returns its content.
func (k *rig) queued(surrogate uint16, class uint8) []uint32 {
	k.t.Helper()
	var all []uint32
	for _, band := range testBands {
		for {
			n, ok, err := k.PopIdle(surrogate, class, band)
			k.must(err)
			if !ok {
				break
			}
			all = append(all, n)
		}
	}
	return all
}

// testBands are the bands with queues: fresh legs, and those of clients as near as the tests' are.
var testBands = []uint8{BandFresh, BandNearest}

func (k *rig) makeQueue(surrogate uint16, class uint8) error {
	var failed error
	for _, band := range testBands {
		failed = errors.Join(failed, k.MakeQueues([]LegQueue{{surrogate, class, band}}))
	}
	return failed
}

// putIdle puts a leg into the queue of its band.
func (k *rig) putIdle(surrogate uint16, class uint8, n uint32) error {
	return k.PushIdle(surrogate, class, k.splice(n).Band, n)
}

// endedClients empties the queue of lingering clients and returns its content.
func (k *rig) endedClients() []routerEnded {
	k.t.Helper()
	var all []routerEnded
	for {
		var e routerEnded
		err := k.maps.Lingering.LookupAndDelete(nil, &e)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return all
		}
		k.must(err)
		all = append(all, e)
	}
}

func (k *rig) surrogate(id uint16) Surrogate {
	k.t.Helper()
	s, err := k.Surrogate(id)
	k.must(err)
	return s
}

// link creates an interface for the test and returns its ifindex.
func (k *rig) link(name string) uint32 {
	k.t.Helper()
	kerneltest.IP(k.t, "link", "add", name, "type", "veth", "peer", "name", name+"peer")
	k.t.Cleanup(func() { kerneltest.IP(k.t, "link", "del", name) })
	k.must(datapath.SetUp(name + "peer")) // first: the other then has carrier
	k.must(datapath.SetUp(name))
	dev, err := net.InterfaceByName(name)
	k.must(err)
	return uint32(dev.Index)
}

// wire reads the packets sent on an interface.
type wire struct {
	t  testing.TB
	fd int
}

func (k *rig) capture(ifindex uint32) wire {
	k.t.Helper()
	all := int(datapath.BigEndian(unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	k.must(err)
	k.t.Cleanup(func() { unix.Close(fd) })
	k.must(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: int(ifindex)}))
	k.must(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}))
	return wire{k.t, fd}
}

// next returns the next TCP frame.
func (w wire) next() packet.Frame {
	w.t.Helper()
	for {
		b := make([]byte, 2048)
		n, _, err := unix.Recvfrom(w.fd, b, 0)
		if err != nil {
			w.t.Fatalf("no frame came: %v", err)
		}
		if f, err := packet.Parse(b[:n]); err == nil && f.Protocol == packet.ProtocolTCP {
			return f
		}
	}
}
