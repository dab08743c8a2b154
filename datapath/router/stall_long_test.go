package router

import (
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"baton/datapath"
)

// sleepers are high-priority threads, one per CPU, that sleep a millisecond at a time. Whatever delays their wake-up delays the
// CPU's packets.
type sleepers struct {
	stop atomic.Bool
	wg   sync.WaitGroup
	mu   sync.Mutex
	late []time.Duration
}

func startSleepers(t testing.TB) *sleepers {
	s := &sleepers{}
	procs := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(procs + runtime.NumCPU()) // a sleeper keeps its own
	t.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	for cpu := range runtime.NumCPU() {
		s.wg.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread goes with its goroutine
			var set unix.CPUSet
			set.Set(cpu)
			if err := unix.SchedSetaffinity(0, &set); err != nil {
				t.Error(err)
			}
			if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 90}, 0); err != nil {
				t.Error(err)
			}
			s.sleep()
		})
	}
	return s
}

func (s *sleepers) sleep() {
	late := make([]time.Duration, 0, 1<<17)
	for !s.stop.Load() {
		now := monotonic()
		until := unix.NsecToTimespec(now + int64(time.Millisecond))
		// raw: without the Go scheduler
		unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&until)), 0, 0, 0)
		late = append(late, time.Duration(monotonic()-now)-time.Millisecond)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, late...)
}

// end returns how late the sleepers woke, in order.
func (s *sleepers) end() []time.Duration {
	s.stop.Store(true)
	s.wg.Wait()
	slices.Sort(s.late)
	return s.late
}

func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

// TestSweepsOfAMillionSessions measures the cost of a router's sweeps, and how long they delay another program's thread, with a
// million sessions and everything else full. Nothing else should run beside it.
func TestSweepsOfAMillionSessions(t *testing.T) {
	const n, pending = 1_000_000, 65536
	k := sized(t, Options{Sessions: n, Pending: pending, Legs: 1})
	client := k.fill(n)
	k.must(k.used(n - 1))
	vip := families[0].vip
	measureSweeps(t, "nothing", func() {})
	timeouts := Timeouts{Handshake: time.Hour, Idle: time.Hour, Closing: time.Hour}
	sweep := func() {
		_, err := k.Sweep(timeouts)
		k.must(err)
		k.must(k.SweepClients(timeouts))
	}
	measureSweeps(t, "sessions", sweep)
	ended := 0
	end := func(each int) func() {
		return func() {
			for range each {
				e := routerEnded{Client: tuple(client(ended), vip), Since: since(4 * time.Second)}
				k.must(k.maps.Flows.Update(e.Client, endedFlow(e.Since, routerSideSIDE_LINGER), ebpf.UpdateAny))
				k.must(k.maps.Lingering.Update(nil, e, ebpf.UpdateAny))
				ended++
			}
		}
	}
	const each = 40_000 / int(time.Second/SweepEvery)
	measureSweeps(t, "40,000 written to end in a second", end(each))
	measureSweeps(t, "and swept", func() { end(each)(); sweep() })
	for i := range pending {
		key := tuple(client(n+i), vip)
		k.must(k.maps.Clients.Update(key, &routerClient{State: uint8(routerClientStateCLIENT_UPCALL), Since: datapath.Clock()}, ebpf.UpdateAny))
		k.must(k.maps.SynOptions.Update(routerSynOptionsKey{Client: key}, &routerClient{Since: datapath.Clock()}, ebpf.UpdateAny))
	}
	k.measureRuns("run of splices", routerCommandKindCOMMAND_SWEEP, spliceRun)
	for range 4 {
		end(each)()
	}
	k.measureRuns("run of lingering clients", routerCommandKindCOMMAND_SWEEP_ENDED, endedRun)
	measureSweeps(t, "undecided clients", sweep)
	measureSweeps(t, "a walk of all flows", func() {
		if !k.sweeper.walking {
			k.sweeper.walkAt = time.Now()
		}
		sweep()
	})
}

// measureSweeps sweeps at a router's interval.
func measureSweeps(t *testing.T, name string, sweep func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const seconds = 5
	s := startSleepers(t)
	before := threadTime(t)
	for range seconds * int(time.Second/SweepEvery) {
		next := unix.NsecToTimespec(monotonic() + int64(SweepEvery))
		sweep()
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &next, nil)
	}
	used := threadTime(t) - before
	late := s.end()
	t.Logf("%s: %.1f %% of a processor; woken late by %v in the median, %v in 1 of 1000, %v at most", name,
		100*used.Seconds()/seconds, late[len(late)/2], late[len(late)-len(late)/1000-1], late[len(late)-1])
}

// measureRuns times runs of a command by the kernel's clock, each on other splices.
func (k *rig) measureRuns(name string, kind routerCommandKind, size uint32) {
	k.t.Helper()
	times := make([]time.Duration, 100)
	for i := range times {
		c := routerSpliceCommand{Kind: uint16(kind), Idle: millis(time.Hour), Closing: millis(time.Hour), First: uint32(i) * size, Count: size}
		in, err := binary.Append(nil, binary.NativeEndian, &c)
		k.must(err)
		_, times[i], err = k.programs.RouterCommand.Benchmark(in, 1, nil)
		k.must(err)
	}
	slices.Sort(times)
	k.t.Logf("%s (%d): %v in the median, %v in 9 of 10, %v at most", name, size, times[50], times[90], times[99])
}

// threadTime is the CPU time of this thread.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
