package legs

import (
	"fmt"
	"math/rand/v2"
	"os"
)

// ports allocates the source ports of legs between one local address and one surrogate. They are outside of the kernel's
// ephemeral range, so that no socket of this host collides with a leg.
type ports struct {
	PortRange
	next uint16
	left int      // not in use
	used []uint64 // a bit for each port
}

const (
	lowestPort  = 2048
	defaultHigh = 32767 // the default ephemeral range starts at 32768
)

// PortRange is the ports from Low to High, inclusive.
type PortRange struct{ Low, High uint16 }

// FreePorts finds the widest range outside of the kernel's ephemeral ports.
func FreePorts() (PortRange, error) {
	const file = "/proc/sys/net/ipv4/ip_local_port_range"
	text, err := os.ReadFile(file)
	if err != nil {
		return PortRange{}, fmt.Errorf("choose ports for legs: %w", err)
	}
	var from, to int
	if _, err := fmt.Sscan(string(text), &from, &to); err != nil {
		return PortRange{}, fmt.Errorf("choose ports for legs: %s: %w", file, err)
	}
	free := PortRange{uint16(to + 1), 65535}
	if below, above := from-lowestPort, 65535-to; below >= above {
		free = PortRange{lowestPort, uint16(from - 1)}
	}
	if int(free.High)-int(free.Low) < 1024 {
		return PortRange{}, fmt.Errorf("choose ports for legs: %s leaves fewer than 1024 ports free; narrow it", file)
	}
	return free, nil
}

func newPorts(r PortRange) *ports {
	size := int(r.High) - int(r.Low) + 1
	// a random start: after a restart, the surrogate may still have connections on the last ports
	return &ports{PortRange: r, next: r.Low + uint16(rand.N(size)), left: size, used: make([]uint64, (size+63)/64)}
}

// alloc returns the least recently used port. False: all are in use.
func (p *ports) alloc() (uint16, bool) {
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
		if word, bit := p.at(port); *word&bit == 0 {
			p.claim(port)
			return port, true
		}
	}
}

// at is the place of a port's bit.
func (p *ports) at(port uint16) (word *uint64, bit uint64) {
	n := port - p.Low
	return &p.used[n/64], 1 << (n % 64)
}

// holds reports whether the port is in the range: an earlier process may have had another.
func (p *ports) holds(port uint16) bool { return port >= p.Low && port <= p.High }

func (p *ports) claim(port uint16) {
	if !p.holds(port) {
		return
	}
	if word, bit := p.at(port); *word&bit == 0 {
		*word |= bit
		p.left--
	}
}

func (p *ports) free(port uint16) {
	if !p.holds(port) {
		return
	}
	if word, bit := p.at(port); *word&bit != 0 {
		*word &^= bit
		p.left++
	}
}
