package relaycost

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	kernel "baton/datapath/sockmap"
)

// sockmapName is what this program is called as a relay whose bytes a sockmap moves.
const sockmapName = "sockmap"

func init() {
	if len(os.Args) > 0 && filepath.Base(os.Args[0]) == sockmapName {
		fmt.Fprintln(os.Stderr, relayBySockmap(os.Args[1:]))
		os.Exit(1)
	}
}

// sockmap is the alternative to splice(2), with no more around it than it needs: no bounds, no time limits.
func sockmap() Contender {
	return plainly(sockmapName, "an event loop of one thread, and a sockmap: the kernel passes on what a socket receives, no process reads it")
}

// joiner is one thread that opens and closes flows.
type joiner struct {
	sockmap   *kernel.Sockmap
	epoll     int
	listeners map[int32]*unix.SockaddrInet4 // to the servers behind them
	ends      map[int32]*end
	late      []*end // that have ended before their partners have all
	serial    int32  // of the last flow
}

// end is a socket of a flow.
type end struct {
	fd         int
	serial     int32 // of the flow: events of one that had the descriptor before are not its own
	partner    *end
	connecting bool
	ended      bool // its peer has
	passed     bool // and the partner's peer was told
}

// relayBySockmap returns when it cannot go on.
func relayBySockmap(forwards []string) error {
	runtime.LockOSThread()
	m, err := kernel.Load(1 << 15)
	if err != nil {
		return err
	}
	defer m.Close()
	j := &joiner{sockmap: m, listeners: map[int32]*unix.SockaddrInet4{}, ends: map[int32]*end{}}
	if j.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create: %w", err)
	}
	for _, f := range forwards {
		port, to, _ := strings.Cut(f, "=")
		if err := j.listen(port, to); err != nil {
			return fmt.Errorf("listen for %s: %w", f, err)
		}
	}
	return j.run()
}

func (j *joiner) listen(port, to string) error {
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	server, err := netip.ParseAddrPort(to)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_NODELAY, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Port: n}), unix.Listen(fd, 1<<16), j.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN, 0))
	j.listeners[int32(fd)] = &unix.SockaddrInet4{Addr: server.Addr().As4(), Port: int(server.Port())}
	return err
}

// watch asks for a socket's events, which have its serial number.
func (j *joiner) watch(how, fd int, events uint32, serial int32) error {
	return unix.EpollCtl(j.epoll, how, fd, &unix.EpollEvent{Fd: int32(fd), Events: events, Pad: serial})
}

func (j *joiner) run() error {
	events := make([]unix.EpollEvent, 256)
	for {
		wait := -1
		if len(j.late) > 0 {
			wait = 1 // ms; nothing tells that a socket was given the last byte
		}
		n, err := unix.EpollWait(j.epoll, events, wait)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("epoll_wait: %w", err)
		}
		for _, v := range events[:max(n, 0)] {
			if to := j.listeners[v.Fd]; to != nil {
				j.accept(int(v.Fd), to)
			} else if e := j.ends[v.Fd]; e != nil && e.serial == v.Pad { // else its flow has just been closed
				j.look(e, v.Events)
			}
		}
		late := j.late
		j.late = nil
		for _, e := range late {
			if j.ends[int32(e.fd)] == e {
				j.pass(e)
			}
		}
	}
}

func (j *joiner) accept(listener int, to *unix.SockaddrInet4) {
	for {
		client, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err == unix.EAGAIN {
			return
		}
		if err != nil { // no descriptor is left
			time.Sleep(10 * time.Millisecond)
			return
		}
		j.serial++
		server, err := j.connect(to)
		if err != nil {
			reset(client)
			continue
		}
		front, back := &end{fd: client, serial: j.serial}, &end{fd: server, serial: j.serial, connecting: true}
		front.partner, back.partner = back, front
		j.ends[int32(client)], j.ends[int32(server)] = front, back
	}
}

func (j *joiner) connect(to *unix.SockaddrInet4) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_NODELAY, 1)
	if err == nil {
		err = unix.Connect(fd, to)
	}
	if err == nil || err == unix.EINPROGRESS {
		err = j.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLOUT, j.serial)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}

// look sees what has become of a socket.
func (j *joiner) look(e *end, events uint32) {
	switch {
	case events&unix.EPOLLERR != 0:
		j.abort(e)
	case e.connecting:
		e.connecting = false
		j.join(e.partner, e)
	case events&(unix.EPOLLRDHUP|unix.EPOLLHUP) != 0 && !e.ended:
		e.ended = true
		j.pass(e)
	}
}

func (j *joiner) join(front, back *end) {
	err := j.sockmap.Join(front.fd, back.fd)
	if errors.Is(err, kernel.ErrNotEstablished) {
		j.forget(front)
		_ = j.watch(unix.EPOLL_CTL_DEL, back.fd, 0, 0)
		go carry(front.fd, back.fd)
		return
	}
	if err == nil {
		const ends = unix.EPOLLRDHUP | unix.EPOLLET
		err = errors.Join(j.watch(unix.EPOLL_CTL_MOD, back.fd, ends, back.serial), j.watch(unix.EPOLL_CTL_ADD, front.fd, ends, front.serial))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		j.abort(front)
	}
}

// pass tells the partner's peer of an end, once it is sent all that came before.
func (j *joiner) pass(e *end) {
	behind, err := kernel.Behind(e.fd, e.partner.fd)
	switch {
	case err != nil || behind < 0:
		j.abort(e)
		return
	case behind > 0:
		j.late = append(j.late, e)
		return
	}
	_ = unix.Shutdown(e.partner.fd, unix.SHUT_WR) // its error is an event of its own
	e.passed = true
	if e.partner.passed {
		j.forget(e)
		unix.Close(e.fd)
		unix.Close(e.partner.fd)
	}
}

func (j *joiner) forget(e *end) {
	delete(j.ends, int32(e.fd))
	delete(j.ends, int32(e.partner.fd))
}

// abort resets both connections.
func (j *joiner) abort(e *end) {
	j.forget(e)
	reset(e.fd)
	reset(e.partner.fd)
}

func reset(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	unix.Close(fd)
}

// carry copies a flow that a sockmap does not take, as its client has ended already.
func carry(front, back int) {
	var ends [2]*net.TCPConn
	for i, fd := range []int{front, back} {
		f := os.NewFile(uintptr(fd), "")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			return
		}
		defer c.Close()
		ends[i] = c.(*net.TCPConn)
	}
	var directions sync.WaitGroup
	directions.Go(func() { pass(ends[0], ends[1], false) })
	directions.Go(func() { pass(ends[1], ends[0], false) })
	directions.Wait()
}
