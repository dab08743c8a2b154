package legs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
)

// ports allocates the source ports of legs between one local address and one surrogate. They are outside of the
// kernel's ephemeral range, so that no socket of this host collides with a leg.
type ports struct {
	PortRange
	next uint16
	left int      // not in use
	used []uint64 // a bit for each port
}

const (
	lowestPort  = 2048
	highestPort = 65535
	fewestPorts = 1024 // as docs/router.md says
)

// ephemeralRange holds the first and the last port that the kernel gives to sockets of its own accord, for IPv6 too.
const ephemeralRange = "/proc/sys/net/ipv4/ip_local_port_range"

// PortRange is the ports from Low to High, inclusive.
type PortRange struct{ Low, High uint16 }

// Size is how many ports the range has.
func (r PortRange) Size() int { return int(r.High) - int(r.Low) + 1 }

// FreePorts finds the widest range outside of the kernel's ephemeral ports.
func FreePorts() (PortRange, error) {
	text, err := os.ReadFile(ephemeralRange)
	if err != nil {
		return PortRange{}, fmt.Errorf("choose ports for legs: %w", err)
	}
	free, err := findFreePorts(string(text))
	if err != nil {
		const remedy = `sysctl -w net.ipv4.ip_local_port_range="32768 60999"` // Linux's default
		return PortRange{}, fmt.Errorf("choose ports for legs: %s %w (%s)", ephemeralRange, err, remedy)
	}
	return free, nil
}

// findFreePorts finds the widest range outside of the ephemeral ports, given as the kernel writes them.
func findFreePorts(ephemeral string) (PortRange, error) {
	var from, to int
	n, err := fmt.Sscanf(ephemeral, "%d %d\n", &from, &to)
	if n != 2 || err != nil || from < 0 || from > to || to > highestPort {
		return PortRange{}, fmt.Errorf("is %q, which is not a first and a last port", strings.TrimSpace(ephemeral))
	}
	// as int: the port after the last one is none
	low, high := lowestPort, from-1
	if above := max(to+1, lowestPort); highestPort-above > high-low {
		low, high = above, highestPort
	}
	if left := max(high-low+1, 0); left < fewestPorts {
		return PortRange{}, fmt.Errorf("is %d %d, which leaves at most %d ports in a row from %d on, and %d are needed",
			from, to, left, lowestPort, fewestPorts)
	}
	return PortRange{uint16(low), uint16(high)}, nil
}

func newPorts(r PortRange) *ports {
	size := r.Size()
	// a random start: after a restart, the surrogate may still have connections on the last ports
	return &ports{PortRange: r, next: r.Low + uint16(rand.N(size)), left: size, used: make([]uint64, (size+63)/64)}
}

// allocPort returns the least recently used port. False: all are in use.
func (p *ports) allocPort() (uint16, bool) {
	if p.left == 0 {
		return 0, false
	}
	for {
		port := p.next
		if p.next == p.High {
			p.next = p.Low
		} else {
			p.next++
		}
		if word, bit := p.findBit(port); *word&bit == 0 {
			p.claimPort(port)
			return port, true
		}
	}
}

// findBit is the place of a port's bit.
func (p *ports) findBit(port uint16) (word *uint64, bit uint64) {
	n := port - p.Low
	return &p.used[n/64], 1 << (n % 64)
}

// hasPort reports whether the port is in the range: an earlier process may have had another.
func (p *ports) hasPort(port uint16) bool { return port >= p.Low && port <= p.High }

func (p *ports) claimPort(port uint16) {
	if !p.hasPort(port) {
		return
	}
	if word, bit := p.findBit(port); *word&bit == 0 {
		*word |= bit
		p.left--
	}
}

func (p *ports) freePort(port uint16) {
	if !p.hasPort(port) {
		return
	}
	if word, bit := p.findBit(port); *word&bit != 0 {
		*word &^= bit
		p.left++
	}
}
