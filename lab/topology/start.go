package topology

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"baton/lab"
)

// readiness is how long a process may take until it listens.
const readiness = 20 * time.Second

// start starts all processes, and then waits for those that listen.
func (n *Network) start(ctx context.Context, t *Topology) error {
	for _, h := range t.Hosts {
		n.Processes[h.Name] = make(map[string]*lab.Process)
		for _, p := range h.Processes {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			started, err := n.Hosts[h.Name].Start(lab.Program{
				Name: p.Name, Path: p.Command[0], Args: p.Command[1:], Env: p.Env, Dir: p.Dir,
			})
			if err != nil {
				return fmt.Errorf("process %s: %w", p.Name, err)
			}
			n.Processes[h.Name][p.Name] = started
		}
	}
	for _, h := range t.Hosts {
		for _, p := range h.Processes {
			if p.Listens == 0 {
				continue
			}
			if err := ready(ctx, n.Processes[h.Name][p.Name], p.Listens); err != nil {
				return err
			}
		}
	}
	return nil
}

// ready waits until the port is open on the process's host. It does not connect: some servers take that for a client.
func ready(ctx context.Context, p *lab.Process, port int) error {
	var failed error
	err := lab.Poll(readiness, func() error {
		if failed = ctx.Err(); failed != nil {
			return nil
		}
		select {
		case <-p.Done():
			lines := strings.Split(strings.TrimSpace(p.Log()), "\n")
			failed = fmt.Errorf("process %s on %s has ended before it listened on port %d: %s", p.Name(), p.Host().Name(), port, lines[len(lines)-1])
			return nil
		default:
		}
		open, err := listening(p.Host(), port)
		if err == nil && !open {
			err = fmt.Errorf("process %s on %s does not listen on port %d", p.Name(), p.Host().Name(), port)
		}
		return err
	})
	if failed != nil {
		return failed
	}
	return err
}

// listening looks into the kernel's lists of TCP sockets, proc_net_tcp(5).
func listening(h *lab.Host, port int) (open bool, err error) {
	err = h.Do(func() error {
		for _, name := range []string{"tcp", "tcp6"} {
			f, err := os.Open("/proc/thread-self/net/" + name)
			if err != nil {
				return fmt.Errorf("list sockets of %s: %w", h.Name(), err)
			}
			defer f.Close()
			for s := bufio.NewScanner(f); s.Scan(); {
				fields := strings.Fields(s.Text())
				if len(fields) < 4 || fields[3] != "0A" { // TCP_LISTEN
					continue
				}
				_, digits, _ := strings.Cut(fields[1], ":")
				if n, err := strconv.ParseUint(digits, 16, 16); err == nil && int(n) == port {
					open = true
				}
			}
		}
		return nil
	})
	return open, err
}
