package legs

import (
	"fmt"
	"math/rand/v2"
	"os"
)

// ports hands out the source ports of the legs between one address of ours and one surrogate. They lie below the range
// that the kernel gives to sockets, so that no socket of this host ever meets a leg's numbers.
type ports struct {
	low, high uint16
	next      uint16
	used      map[uint16]struct{}
}

const (
	lowestPort  = 2048
	defaultHigh = 32767 // the kernel's range starts at 32768 unless changed
)

// portRange finds the widest range outside of the kernel's own.
func portRange() (low, high uint16, err error) {
	const file = "/proc/sys/net/ipv4/ip_local_port_range"
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, fmt.Errorf("choose ports for legs: %w", err)
	}
	var from, to int
	if _, err := fmt.Sscan(string(text), &from, &to); err != nil {
		return 0, 0, fmt.Errorf("choose ports for legs: %s: %w", file, err)
	}
	if below, above := from-lowestPort, 65535-to; below >= above {
		low, high = lowestPort, uint16(from-1)
	} else {
		low, high = uint16(to+1), 65535
	}
	if int(high)-int(low) < 1024 {
		return 0, 0, fmt.Errorf("choose ports for legs: %s leaves fewer than 1024 ports free; narrow it", file)
	}
	return low, high, nil
}

func newPorts(low, high uint16) *ports {
	// a random start: after a restart, the surrogate may still have sessions on the ports used last
	return &ports{low: low, high: high, next: low + uint16(rand.N(int(high-low)+1)), used: make(map[uint16]struct{})}
}

// take gives the port whose last use is longest ago. False: all are in use.
func (p *ports) take() (uint16, bool) {
	for range int(p.high) - int(p.low) + 1 {
		port := p.next
		if p.next == p.high {
			p.next = p.low
		} else {
			p.next++
		}
		if _, busy := p.used[port]; !busy {
			p.used[port] = struct{}{}
			return port, true
		}
	}
	return 0, false
}

func (p *ports) claim(port uint16) { p.used[port] = struct{}{} }

func (p *ports) release(port uint16) { delete(p.used, port) }
