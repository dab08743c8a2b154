package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openLocked opens or creates the file that has the name, for this process alone. The lock is the file's: one that a rewrite has
// given the name meanwhile is another.
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

// bare is an error without the path, which the caller names.
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

// syncFolder makes the names in a folder last.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
