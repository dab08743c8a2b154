package emulator

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"
)

// processName is argv[0] of an emulator's process, which is the program that imports this package, executed again.
const processName = "baton-link-emulator"

// controlFile is the descriptor of the process's control connection.
const controlFile = 3

// memoryLimit is the size (bytes) from which on the process collects its garbage after all.
const memoryLimit = 4 << 30

func init() {
	if len(os.Args) > 0 && os.Args[0] == processName {
		os.Exit(serve())
	}
}

func serve() int {
	// Buffers go round in pools, and there is next to no garbage; but a collection that is kept from a processor by busy
	// threads keeps the world stopped, and every packet waiting. The limit is for a day that nobody has thought of.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memoryLimit)
	_ = os.WriteFile("/proc/self/comm", []byte("link-emulator"), 0) // so that ps shows it
	f := os.NewFile(controlFile, "control")
	conn, err := net.FileConn(f)
	if err != nil {
		fmt.Fprintln(os.Stderr, "link emulator: control connection:", err)
		return 1
	}
	f.Close()
	server := rpc.NewServer()
	if err := server.RegisterName("Emulator", &service{}); err != nil {
		fmt.Fprintln(os.Stderr, "link emulator:", err)
		return 1
	}
	server.ServeConn(conn) // until the owner ends: then the devices go with the process
	return 0
}

// service is what the process does for its owner. Its methods have the form that net/rpc wants.
type service struct {
	mu    sync.Mutex
	links []*link
}

type link struct {
	taps       [2]int
	directions [2]*direction
}

// AddRequest asks for a link between two ports, with the shapes from the first to the second and back.
type AddRequest struct {
	Ports  [2]Port
	Shapes [2]Shape
}

// SetRequest changes the shapes of a link.
type SetRequest struct {
	Link   int
	Shapes [2]Shape
}

// CarrierRequest takes a link down or up.
type CarrierRequest struct {
	Link int
	Up   bool
}

// Nothing is the answer to what only succeeds or fails.
type Nothing struct{}

// Add makes a link and answers its number.
func (s *service) Add(r AddRequest, number *int) error {
	k := &link{}
	for i, p := range r.Ports {
		fd, err := p.Open()
		if err != nil {
			k.close()
			return err
		}
		k.taps[i] = fd
	}
	for i := range k.directions {
		d, err := newDirection(k.taps[i], k.taps[1-i], r.Shapes[i])
		if err != nil {
			k.close()
			return err
		}
		k.directions[i] = d
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, k)
	*number = len(s.links) - 1
	// A thread that comes from its wait must not stand in line for a processor of the Go scheduler.
	runtime.GOMAXPROCS(2*len(s.links) + 2)
	for _, d := range k.directions {
		go d.run()
	}
	return nil
}

// close closes what Add has opened of a link that came to nothing.
func (k *link) close() {
	for _, fd := range k.taps {
		if fd > 0 {
			unix.Close(fd)
		}
	}
	for _, d := range k.directions {
		if d != nil {
			unix.Close(d.wake)
		}
	}
}

func (s *service) link(number int) (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number < 0 || number >= len(s.links) {
		return nil, fmt.Errorf("there is no link %d", number)
	}
	return s.links[number], nil
}

// Set changes the shapes of a link.
func (s *service) Set(r SetRequest, _ *Nothing) error {
	k, err := s.link(r.Link)
	if err != nil {
		return err
	}
	for i, d := range k.directions {
		d.change(func(now int64, l *line) { l.set(now, r.Shapes[i]) })
	}
	return nil
}

// Carrier takes a link down or up.
func (s *service) Carrier(r CarrierRequest, _ *Nothing) error {
	k, err := s.link(r.Link)
	if err != nil {
		return err
	}
	for i, d := range k.directions {
		d.change(func(now int64, l *line) { l.cut(now, !r.Up) })
		if err := setCarrier(k.taps[i], r.Up); err != nil {
			return err
		}
	}
	return nil
}

// Counts answers what has happened to packets on a link.
func (s *service) Counts(number int, counts *[2]Counts) error {
	k, err := s.link(number)
	if err != nil {
		return err
	}
	for i, d := range k.directions {
		d.mu.Lock()
		counts[i] = d.line.counts
		d.mu.Unlock()
	}
	return nil
}

// Emulator is an emulator's process, seen from its owner. Its methods may be called from any goroutine.
type Emulator struct {
	client *rpc.Client
	far    *os.File
}

// Command prepares the process; the caller starts it, as suits its kind of processes, and calls Started then.
func Command() (*exec.Cmd, *Emulator, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("link emulator: %w", err)
	}
	near, far := os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
	conn, err := net.FileConn(near)
	near.Close()
	if err != nil {
		far.Close()
		return nil, nil, fmt.Errorf("link emulator: %w", err)
	}
	// The program's file may have no name any more: this one is good as long as the program runs.
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{processName}, ExtraFiles: []*os.File{far}}
	return cmd, &Emulator{client: rpc.NewClient(conn), far: far}, nil
}

// Started reports that the process has been started, or could not be.
func (e *Emulator) Started() { e.far.Close() }

// Close ends the process and with it all its links.
func (e *Emulator) Close() error {
	if err := e.client.Close(); err != nil && !errors.Is(err, rpc.ErrShutdown) {
		return fmt.Errorf("link emulator: close: %w", err)
	}
	return nil
}

func (e *Emulator) call(method string, request, reply any) error {
	err := e.client.Call("Emulator."+method, request, reply)
	var answer rpc.ServerError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer):
		return fmt.Errorf("link emulator: %w", err)
	}
	return fmt.Errorf("link emulator: its process has ended: %w", err)
}

// Add makes a link between two ports and returns its number. The shapes are valid.
func (e *Emulator) Add(ports [2]Port, shapes [2]Shape) (number int, err error) {
	err = e.call("Add", AddRequest{ports, shapes}, &number)
	return number, err
}

// Set changes the shapes of a link, which are valid. Packets in flight are not affected.
func (e *Emulator) Set(number int, shapes [2]Shape) error {
	return e.call("Set", SetRequest{number, shapes}, &Nothing{})
}

// Carrier takes a link down, and with it what is on it, or up again.
func (e *Emulator) Carrier(number int, up bool) error {
	return e.call("Carrier", CarrierRequest{number, up}, &Nothing{})
}

// Counts returns what has happened to packets from the first port of a link to the second, and back.
func (e *Emulator) Counts(number int) (counts [2]Counts, err error) {
	err = e.call("Counts", number, &counts)
	return counts, err
}
