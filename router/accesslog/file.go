package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stall is how long a pipe or a syslog may take nothing before that counts as a failure.
const stall = time.Second

// stream writes records to what is never opened again.
type stream struct {
	w    io.Writer
	torn int // bytes of the next record that are written
}

func (s *stream) deliver(_ context.Context, b *batch) error {
	n, err := s.w.Write(b.rest()[s.torn:])
	s.torn = b.wroteBytes(s.torn + n)
	return err
}

func (s *stream) refresh(bool) error { return nil }

func (s *stream) close() error {
	if c, ok := s.w.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// openStdout makes a file of its own for standard output: a write to descriptor 1 whose reader has gone ends the process (os/signal).
func openStdout() (*stream, error) {
	fd, err := unix.FcntlInt(os.Stdout.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("standard output: %w", err)
	}
	return &stream{w: os.NewFile(uintptr(fd), "standard output")}, nil
}

// file appends records to a file, and opens it again when another one, or none, has its name.
type file struct {
	path string
	f    *os.File // nil: it could not be opened
	stream
}

func openFile(path string) (*file, error) {
	s := &file{path: path}
	return s, s.open()
}

func (s *file) open() error {
	// Without O_NONBLOCK the open of a pipe waits for a reader.
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o640)
	if err != nil {
		return err
	}
	s.f, s.stream = f, stream{w: f}
	return nil
}

func (s *file) deliver(ctx context.Context, b *batch) error {
	if s.f == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	_ = s.f.SetWriteDeadline(time.Now().Add(stall)) // a pipe has one; other files do not wait for anybody
	return s.stream.deliver(ctx, b)
}

func (s *file) refresh(reopen bool) error {
	if !reopen && s.isCurrent() {
		return nil
	}
	if err := s.close(); err != nil {
		return err
	}
	// Records wait when there is none: the old file may be on its way to an archive, or have no name any more.
	return s.open()
}

// isCurrent tells whether the open file is the one that has the name.
func (s *file) isCurrent() bool {
	if s.f == nil {
		return false
	}
	open, err := s.f.Stat()
	if err != nil {
		return true
	}
	named, err := os.Stat(s.path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return os.SameFile(open, named)
}

func (s *file) close() error {
	if s.f == nil {
		return nil
	}
	f, torn := s.f, s.torn
	s.f, s.stream = nil, stream{}
	return errors.Join(trim(f, torn), f.Close())
}

// trim takes the beginning of a record off an ordinary file, so that the next line is not glued to it.
func trim(f *os.File, torn int) error {
	if torn == 0 {
		return nil
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return f.Truncate(info.Size() - int64(torn))
}
