package purge

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"

	"baton/lab"
)

// writer is a server whose connection sends what the test says.
type writer struct {
	n    *network
	host *lab.Host
	port int
	l    net.Listener
	conn net.Conn
}

// writer listens on a host at all its addresses.
func (n *network) writer(h *lab.Host, port int) *writer {
	n.t.Helper()
	l, err := h.Listen("tcp", fmt.Sprintf("0.0.0.0:%d", port))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { l.Close() })
	return &writer{n: n, host: h, port: port, l: l}
}

func (n *network) connectTo(vip string, port int) *download {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), soon)
	defer cancel()
	c, err := n.client.Dial(ctx, "tcp", net.JoinHostPort(vip, fmt.Sprint(port)))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { c.Close() })
	return &download{t: n.t, conn: c, in: bufio.NewReader(c)}
}

func (w *writer) accept() {
	w.n.t.Helper()
	c, err := w.l.Accept()
	if err != nil {
		w.n.t.Fatal(err)
	}
	w.n.t.Cleanup(func() { c.Close() })
	w.conn = c
}

func (w *writer) write(bytes int) {
	w.n.t.Helper()
	if _, err := w.conn.Write(make([]byte, bytes)); err != nil {
		w.n.t.Fatal(err)
	}
}

// settled waits until all that was written is acknowledged.
func (w *writer) settled() {
	w.n.t.Helper()
	lab.Eventually(w.n.t, soon, func() error {
		for _, s := range w.sockets() {
			if f := strings.Fields(s); len(f) < 3 || f[2] != "0" {
				return fmt.Errorf("not acknowledged: %s", s)
			}
		}
		return nil
	})
}

func (w *writer) sockets() []string { return w.n.socketsAt(w.host, w.port) }

// socketsAt lists a host's connections at a port: state, what waits to be read and to be acknowledged, addresses.
func (n *network) socketsAt(h *lab.Host, port int) []string {
	n.t.Helper()
	out, err := h.Exec(n.t.Context(), "ss", "-Htn", "state", "connected", "exclude", "time-wait", fmt.Sprintf("sport = %d", port))
	if err != nil {
		n.t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(out) {
		all = append(all, strings.TrimSpace(line))
	}
	return all
}

// gonePort requires that a host has no connection at a port.
func (n *network) gonePort(h *lab.Host, port int) {
	n.t.Helper()
	if s := n.socketsAt(h, port); len(s) > 0 {
		n.t.Errorf("%s still has %v", h.Name(), s)
	}
}
