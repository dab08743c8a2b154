package demo

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"baton/lab"
)

// beyondWindow counts the packets that a host's TCP has discarded because they lie outside of the receive window that it has advertised
// (TcpExtBeyondWindow, Linux 6.15). The translation carries windows over; with an error there the bytes would come all the same,
// repeated.
func beyondWindow(h *lab.Host) (n uint64, counted bool, err error) {
	var text []byte
	if err := h.Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/netstat")
		return err
	}); err != nil {
		return 0, false, fmt.Errorf("read the counters of TCP: %w", err)
	}
	return tcpExt(string(text), "BeyondWindow")
}

// tcpExt finds a counter in /proc/net/netstat: a line of names, then one of values.
func tcpExt(text, name string) (n uint64, counted bool, err error) {
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "TcpExt:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i, have := range names {
			if have == name && i < len(fields) {
				n, err = strconv.ParseUint(fields[i], 10, 64)
				return n, err == nil, err
			}
		}
	}
	return 0, false, nil
}

// windows is the count of the client and of each surrogate, in their order; nothing on a kernel that does not count.
func (t *topology) windows() ([]uint64, error) {
	var all []uint64
	for _, h := range append([]*lab.Host{t.client}, t.surrogates...) {
		n, counted, err := beyondWindow(h)
		if err != nil || !counted {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// checkWindows has no host discard what lay outside of its window since then.
func (d *demo) checkWindows(before, now []uint64) {
	if len(now) == 0 {
		return
	}
	beyond := uint64(0)
	for i := range now {
		beyond += now[i] - before[i]
	}
	d.report.check(beyond == 0, "%d packets lay outside of the window that their receiver had advertised", beyond)
}
