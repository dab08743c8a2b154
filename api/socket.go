package api

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// maxSocketPath is the capacity of sockaddr_un, in octets.
const maxSocketPath = 107

// ErrInUse is wrapped by Listen's error when another daemon answers on the socket.
var ErrInUse = errors.New("another daemon listens there")

// Listen creates the control socket, which only its owner may open, and its folder if necessary. It replaces a socket file that
// nobody listens on, refuses a live one with ErrInUse, and refuses any other file without touching it. Closing the listener removes
// the socket, unless another daemon has replaced it.
func Listen(path string) (net.Listener, error) {
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("listen on control socket %s: %w", path, err)
	}
	return l, nil
}

func listen(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	// The socket is bound under a temporary name and renamed, so that it never exists without its permissions and
	// two daemons that start at the same time do not unlink each other's.
	temporary := filepath.Join(dir, "."+strconv.FormatInt(int64(os.Getpid()), 36)+strconv.FormatInt(time.Now().UnixNano()%46656, 36))
	if len(path) > maxSocketPath || len(temporary) > maxSocketPath {
		return nil, fmt.Errorf("path is longer than %d octets, the limit for unix sockets", maxSocketPath)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := free(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	closeOnError := func(err error) (net.Listener, error) {
		l.Close()
		os.Remove(temporary)
		return nil, err
	}
	if err := os.Chmod(temporary, 0o600); err != nil {
		return closeOnError(err)
	}
	file, err := os.Lstat(temporary)
	if err != nil {
		return closeOnError(err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return closeOnError(err)
	}
	return &socket{UnixListener: l, path: path, file: file}, nil
}

// lockFolder keeps two daemons from checking and replacing a socket at the same time.
func lockFolder(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil {
		d.Close()
		return nil, fmt.Errorf("lock folder: %w", err)
	}
	return func() { d.Close() }, nil
}

// free reports whether a name may be used: no file has it, or a socket that nobody listens on.
func free(path string) error {
	file, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case file.Mode().Type() != os.ModeSocket:
		return errors.New("the file exists and is not a socket")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return ErrInUse
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if errors.Is(err, syscall.EAGAIN) {
		return ErrInUse // its queue is full
	}
	return err
}

// socket removes its file on Close.
type socket struct {
	*net.UnixListener
	path string
	file os.FileInfo
	once sync.Once
}

func (s *socket) Close() error {
	s.once.Do(func() {
		if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.file) {
			os.Remove(s.path)
		}
	})
	return s.UnixListener.Close()
}

// Addr returns the name that clients dial.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }
