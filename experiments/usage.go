package experiments

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
)

// Usage is CPU time for a unit of work, in seconds, by who used it. Machine is everything that was not idle, including interrupts; without
// CONFIG_IRQ_TIME_ACCOUNTING the kernel charges a packet's softirq work to the running process, mostly its sender. So routing and
// translation are part of Generator and Servers and cannot be isolated by subtraction: compare contenders by Machine, and by what one adds
// to the baseline's.
type Usage struct {
	Machine   float64 `json:"machine"`
	Contender float64 `json:"contender"` // its processes
	Generator float64 `json:"generator"` // this process
	Servers   float64 `json:"servers"`   // that all contenders share
}

func usageNow(contender, servers []*lab.Process) (Usage, error) {
	machine, err := machineTime()
	if err != nil {
		return Usage{}, err
	}
	var self unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &self); err != nil {
		return Usage{}, fmt.Errorf("own processor time: %w", err)
	}
	u := Usage{Machine: machine.Seconds(), Generator: time.Duration(self.Utime.Nano() + self.Stime.Nano()).Seconds()}
	if u.Contender, err = processTime(contender); err != nil {
		return Usage{}, err
	}
	u.Servers, err = processTime(servers)
	return u, err
}

func processTime(processes []*lab.Process) (seconds float64, err error) {
	for _, p := range processes {
		d, err := p.CPU()
		if err != nil {
			return 0, err
		}
		seconds += d.Seconds()
	}
	return seconds, nil
}

// since returns the usage after before, for a unit of work.
func (u Usage) since(before Usage, work float64) *Usage {
	return &Usage{(u.Machine - before.Machine) / work, (u.Contender - before.Contender) / work,
		(u.Generator - before.Generator) / work, (u.Servers - before.Servers) / work}
}

// machineTime sums the non-idle fields of /proc/stat (proc_stat(5)): user, nice, system, irq, softirq. It excludes time stolen by a
// hypervisor.
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
