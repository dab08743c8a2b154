package relay_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"baton/api"
	"baton/lab"
	"baton/lab/build"
)

// relay is a started `baton relay`.
type relay struct {
	*lab.Process
	n       *network
	name    string
	file    string
	control *api.Client
	idle    int // goroutines, without flows
	others  int // descriptors, likewise: see held
	kept    int // pipes that its workers may keep: one for each direction of the flows that there were at a time, with either worker
}

// flowsAtATime are as many as most tests have.
const flowsAtATime = 10

// start runs a relay, and returns when it is ready. What is left after the test, when it has passed, is a failure.
func (n *network) start(h *lab.Host, name, config string) *relay {
	n.t.Helper()
	r, err := n.launch(h, name, config)
	if err != nil {
		n.t.Fatal(err)
	}
	lab.Eventually(n.t, soon, func() error {
		select {
		case <-r.Done():
			n.t.Fatalf("relay %s has ended:\n%s", r.name, r.Log())
		default:
		}
		return r.isReady()
	})
	// One goroutine serves the control client's connection, which stays open.
	if _, err := r.control.Relay(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	if r.idle, err = r.goroutines(); err != nil {
		n.t.Fatal(err)
	}
	has, err := r.holds()
	if err != nil {
		n.t.Fatal(err)
	}
	r.others = has.others
	n.t.Cleanup(func() {
		defer r.control.Close()
		if !n.t.Failed() {
			r.end()
		}
	})
	return r
}

func (n *network) launch(h *lab.Host, name, config string) (*relay, error) {
	n.t.Helper()
	path, err := build.Program("baton")
	if err != nil {
		return nil, err
	}
	r := &relay{n: n, name: name, kept: 2 * 2 * flowsAtATime, file: n.file(name + ".yaml"), control: api.NewClient(n.file(name + ".sock"))}
	if err := r.configure(config); err != nil {
		return nil, err
	}
	r.Process, err = h.Start(lab.Program{Path: path, Args: []string{"relay", "run", "-c", r.file}, Name: name})
	return r, err
}

// configure writes a configuration for the next start or reload.
func (r *relay) configure(config string) error { return os.WriteFile(r.file, []byte(config), 0o600) }

func (r *relay) isReady() error {
	if !strings.Contains(r.Log(), "msg=ready") {
		return fmt.Errorf("relay %s is not ready:\n%s", r.name, r.Log())
	}
	return nil
}

// goroutines are how many the relay runs, those that answer the question included.
func (r *relay) goroutines() (int, error) {
	client := r.Host().HTTPClient(soon)
	defer client.CloseIdleConnections()
	response, err := client.Get("http://" + metricsAddress + "/metrics")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "\ngo_goroutines ")
	return strconv.Atoi(strings.Fields(rest)[0])
}

// restart has the relay's successor run.
func (r *relay) restart(config string) *relay { return r.n.start(r.Host(), r.name, config) }

// end asks the relay to end, and expects it to end well.
func (r *relay) end() {
	r.n.t.Helper()
	select {
	case <-r.Done():
		return // the test has ended it
	default:
	}
	if err := r.Signal(syscall.SIGTERM); err != nil {
		r.n.t.Error(err)
	}
	if err := r.endsWell(); err != nil {
		r.n.t.Error(err)
	}
}

// endsWell waits for the end of a relay that was told to end. One that does not is asked for the stacks of its goroutines.
func (r *relay) endsWell() error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	err := r.Wait(ctx)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		_ = r.Signal(syscall.SIGQUIT)
		select {
		case <-r.Done():
		case <-time.After(time.Second):
		}
	}
	return fmt.Errorf("relay %s does not end well: %w\n%s", r.name, err, r.Log())
}

// hasTrunks waits until trunks to the peer are ready: each has had its hello.
func (r *relay) hasTrunks() {
	r.n.t.Helper()
	lab.Eventually(r.n.t, soon, func() error {
		h, err := r.holds()
		if err == nil && len(h.trunks) < 4 {
			err = fmt.Errorf("relay %s has %d trunks", r.name, len(h.trunks))
		}
		return err
	})
}

// socket is a TCP connection in /proc/net/tcp.
type socket struct {
	local, remote netip.AddrPort
	state         int // of linux/tcp_states.h
}

const stateSYNSent, stateListen = 2, 10

// held is what the threads of a relay have open, each counted once in however many tables it is.
type held struct {
	clients, trunks, servers []socket
	pipes                    int
	others                   int // what is neither, sockets without a connection among it
}

// holds looks at the tables of descriptors of all threads: those of the workers are their own.
func (r *relay) holds() (h held, err error) {
	proc := fmt.Sprintf("/proc/%d", r.Pid())
	names := make(map[string]bool)
	links, err := filepath.Glob(proc + "/task/*/fd/*")
	if err != nil || len(links) == 0 {
		return h, fmt.Errorf("descriptors of relay %s: none, %w", r.name, err)
	}
	for _, l := range links {
		if name, err := os.Readlink(l); err == nil { // or it is closed by now
			names[name] = true
		}
	}
	table, err := os.ReadFile(proc + "/net/tcp")
	if err != nil {
		return h, err
	}
	for _, line := range slices.Collect(strings.Lines(string(table)))[1:] {
		f := strings.Fields(line)
		name := "socket:[" + f[9] + "]"
		if !names[name] {
			continue
		}
		delete(names, name)
		s, err := parseSocket(f)
		if err != nil {
			return h, err
		}
		switch {
		case s.state == stateListen || s.local.Addr().IsLoopback():
		case s.local.Port() == 7000 || s.remote.Port() == 7000:
			h.trunks = append(h.trunks, s)
		case s.local.Port() > 8000 && s.local.Port() < 8100:
			h.clients = append(h.clients, s)
		default:
			h.servers = append(h.servers, s)
		}
	}
	for name := range names {
		if strings.HasPrefix(name, "pipe:") {
			h.pipes++
		} else {
			h.others++
		}
	}
	return h, nil
}

func parseSocket(f []string) (s socket, err error) {
	state, err := strconv.ParseUint(f[3], 16, 8)
	s.state = int(state)
	var errs [2]error
	s.local, errs[0] = parseHexAddr(f[1])
	s.remote, errs[1] = parseHexAddr(f[2])
	return s, errors.Join(err, errs[0], errs[1])
}

// parseHexAddr reads an IPv4 address in the host's order, which is little-endian on every machine of ours, and a port.
func parseHexAddr(s string) (netip.AddrPort, error) {
	ip, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(ip)
	if err != nil || len(b) != 4 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address: %w", s, err)
	}
	p, err := strconv.ParseUint(port, 16, 16)
	slices.Reverse(b)
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b)), uint16(p)), err
}
