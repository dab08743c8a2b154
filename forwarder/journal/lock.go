package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openLocked opens or creates a file, and locks it. The lock is on the file, not the name: a rewrite may have put another file there
// meanwhile.
func openLocked(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, bare(err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, ErrInUse
			}
			return nil, err
		}
		ours, errOurs := f.Stat()
		named, errNamed := os.Stat(path)
		err = errors.Join(errOurs, errNamed)
		if err == nil && os.SameFile(ours, named) {
			return f, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, bare(err)
		}
	}
}

// bare removes the path from an error, because the caller names it.
func bare(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// bareLink is bare for os.Link.
func bareLink(err error) error {
	var l *os.LinkError
	if errors.As(err, &l) {
		return l.Err
	}
	return err
}

// syncFolder syncs a folder's entries.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
