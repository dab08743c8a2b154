package handoff

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
)

// usage is processor time by who spent it. Machine is everything that was not idle, interrupts included; without
// CONFIG_IRQ_TIME_ACCOUNTING the kernel books the softirq work of a packet on whichever process was running, mostly
// the one that sent it. So the routing and translating of packets is inside Generator and Servers, and no
// subtraction can isolate it: what tells contenders apart is Machine, and what one adds to Machine over direct.
type usage struct {
	machine, generator, servers, contender time.Duration
}

func measureUsage(t *Topology, r *Running) (usage, error) {
	var u usage
	var err error
	if u.machine, err = machineTime(); err != nil {
		return u, err
	}
	var self unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &self); err != nil {
		return u, fmt.Errorf("own processor time: %w", err)
	}
	u.generator = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	for _, s := range t.Servers {
		d, err := s.CPU()
		if err != nil {
			return u, err
		}
		u.servers += d
	}
	for _, p := range r.Processes {
		d, err := p.CPU()
		if err != nil {
			return u, err
		}
		u.contender += d
	}
	return u, nil
}

func (u usage) since(before usage) usage {
	return usage{u.machine - before.machine, u.generator - before.generator, u.servers - before.servers,
		u.contender - before.contender}
}

// machineTime sums the non-idle fields of /proc/stat (proc_stat(5)): user, nice, system, irq, softirq. Time stolen
// by a hypervisor is not ours.
func machineTime() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("machine's processor time: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, fmt.Errorf("machine's processor time: %q", line)
	}
	ticks := 0
	for _, i := range []int{1, 2, 3, 6, 7} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return 0, fmt.Errorf("machine's processor time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * lab.Tick, nil
}
