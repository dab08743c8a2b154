package sockmap

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"baton/datapath"
)

// Sockmap joins pairs of TCP sockets in the kernel: what one receives the other sends. Nothing of it is pinned.
//
// It is there to be measured. Nothing bounds what the kernel holds for a socket whose peer reads slowly: what is redirected counts as read,
// so that the sender's window stays open, and is in no account of memory (TestSockmapHoldsAll). So it is not for peers who are strangers.
//
// Its methods may be called at any time by any goroutine.
type Sockmap struct {
	objects sockmapObjects
}

var needs = []datapath.Need{
	{Feature: datapath.Kernel},
	{Feature: datapath.CapNetAdmin, For: "attach programs"},
	{Feature: datapath.CapBPF, For: "load programs and maps"},
	{Feature: datapath.BPF, For: "load programs"},
}

// Load loads the program, for so many pairs at one time. The caller closes the Sockmap.
func Load(pairs int) (*Sockmap, error) {
	if pairs < 1 {
		return nil, fmt.Errorf("load the sockmap: %d pairs: at least one", pairs)
	}
	if err := datapath.Require("sockmap", needs); err != nil {
		return nil, err
	}
	spec, err := loadSockmap()
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	for _, m := range spec.Maps {
		m.MaxEntries = uint32(2 * pairs)
	}
	m := &Sockmap{}
	if err := datapath.LoadObjects(spec, &m.objects, nil); err != nil {
		return nil, err
	}
	err = link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: m.objects.Sources.FD(), Program: m.objects.SockmapRedirect, Attach: ebpf.AttachSkSKBStreamVerdict,
	})
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("attach the program to its map: %w", err)
	}
	return m, nil
}

// ErrNotEstablished is that of Join when a socket is not connected or its peer has ended already, which the kernel does not take. No byte
// has been moved, and the sockets are as they were.
var ErrNotEstablished = errors.New("not in the state ESTABLISHED")

// Join has two connected sockets pass on to each other what they receive, beginning with what they have received and nobody has read. Who
// has read a part of it must have read all of it, as the kernel begins with whole segments (TestSockmapRepeatsWhatWasRead).
//
// a is the one whose peer speaks first, as a client does: its bytes wait until the way back is there too, as the answer to them may be the
// end of b's peer.
//
// The sockets stay the caller's. An end of one (EPOLLRDHUP) and an error of one (EPOLLERR) are not passed on; see Behind. To close
// one is to discard what it has not been given to send yet.
//
// After an error that is not ErrNotEstablished bytes may have been moved, so that the connections are to be reset.
func (m *Sockmap) Join(a, b int) error {
	ends := [2]int{a, b}
	var cookies [2]uint64
	for i, fd := range ends {
		var err error
		if cookies[i], err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE); err != nil {
			return fmt.Errorf("join sockets: ask for its cookie: %w", err)
		}
	}
	for i := range ends {
		if err := m.objects.Partners.Update(cookies[i], uint64(ends[1-i]), ebpf.UpdateNoExist); err != nil {
			return fmt.Errorf("join sockets: name the partner: %w", m.undo(cookies, notEstablished(err)))
		}
	}
	if err := m.objects.Sources.Update(cookies[1], uint64(b), ebpf.UpdateNoExist); err != nil {
		return fmt.Errorf("join sockets: redirect: %w", m.undo(cookies, notEstablished(err)))
	}
	if err := m.objects.Sources.Update(cookies[0], uint64(a), ebpf.UpdateNoExist); err != nil {
		if e := m.stop(cookies[1], b); e != nil {
			return fmt.Errorf("join sockets: redirect: %v; and to undo it: %w", err, e)
		}
		return fmt.Errorf("join sockets: redirect: %w", m.undo(cookies, notEstablished(err)))
	}
	for _, fd := range ends {
		if err := kick(fd); err != nil {
			return fmt.Errorf("join sockets: redirect what has come before: %w", err)
		}
	}
	return nil
}

func notEstablished(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return ErrNotEstablished
	}
	return err
}

// stop ends the redirection of what a socket receives. It fails when bytes were moved, or read before.
func (m *Sockmap) stop(cookie uint64, fd int) error {
	if err := m.objects.Sources.Delete(cookie); err != nil {
		return err
	}
	waiting, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return fmt.Errorf("ask what waits: %w", err)
	}
	info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
	if err != nil {
		return fmt.Errorf("ask what was received: %w", err)
	}
	if moved := info.Bytes_received - uint64(waiting); moved != 0 {
		return fmt.Errorf("%d bytes were moved", moved)
	}
	return nil
}

// undo takes sockets out again of which no byte was redirected.
func (m *Sockmap) undo(cookies [2]uint64, why error) error {
	for _, c := range cookies {
		if err := m.objects.Partners.Delete(c); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("%v; and to undo it: %w", why, err)
		}
	}
	return why
}

// kick has what waits in a socket's queue redirected. Else that is done when more comes; to read is to ask for it.
func kick(fd int) error {
	n, _, err := unix.Recvfrom(fd, make([]byte, 1), unix.MSG_DONTWAIT)
	switch {
	case n > 0:
		return errors.New("it was read instead")
	case err == unix.EAGAIN:
		return nil
	}
	return err
}

// Behind is how many bytes one socket has received, whose peer has sent its FIN, that the other has not been given to send. Nobody
// else may have written to the other. At 0 the other may be shut down; before, that would cut off what is on its way
// (TestSockmapShutdownOvertakes).
func Behind(from, to int) (int64, error) {
	in, err := unix.GetsockoptTCPInfo(from, unix.SOL_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, fmt.Errorf("ask what a socket has received: %w", err)
	}
	out, err := unix.GetsockoptTCPInfo(to, unix.SOL_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, fmt.Errorf("ask what a socket has sent: %w", err)
	}
	received := in.Bytes_received - 1 // the kernel counts the FIN
	given := out.Bytes_sent - out.Bytes_retrans + uint64(out.Notsent_bytes)
	return int64(received - given), nil
}

// Close ends the redirection.
func (m *Sockmap) Close() error {
	return m.objects.Close()
}
