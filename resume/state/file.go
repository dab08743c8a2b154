package state

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"baton/resume/part"
)

// ErrLocked is wrapped by the error of Open if another process downloads the same file.
var ErrLocked = errors.New("another process is downloading it")

// ErrAdopted is wrapped by the error of Restart for a file that existed before: it must not be discarded.
var ErrAdopted = errors.New("the existing file is not the beginning of the server's")

// ErrIncomplete is wrapped by the error of Finish if bytes are missing.
var ErrIncomplete = errors.New("bytes are missing")

// How far the number of synced bytes may lag behind.
const (
	everyBytes = 16 << 20
	everyTime  = time.Second
)

// File is a download in progress. The caller closes it.
type File struct {
	path, url string
	every     time.Duration
	data      *os.File
	adopted   bool // data is FILE itself: it existed before, and nothing has arrived yet
	began     part.Have
	known     bool // began was read from the disk
	ignored   error

	mu      sync.Mutex // held while the state is saved
	wake    chan struct{}
	done    chan struct{}
	at      sync.Mutex
	have    part.Have // with the written bytes
	failed  error     // of the last save
	last    time.Time
	lastOff int64
	noted   bool
}

// Options control how a file is opened.
type Options struct {
	Continue bool  // from FILE.part, or from FILE itself
	Offset   int64 // number of valid bytes of FILE itself; negative: all
	Wanted   part.Have
	URL      string
	Every    time.Duration // between saves of the state; 0: a second
}

func partPath(path string) string  { return path + ".part" }
func statePath(path string) string { return partPath(path) + ".json" }

// Open creates a file, or continues one.
func Open(path string, o Options) (*File, error) {
	f := &File{path: path, url: o.URL, began: o.Wanted, every: cmp.Or(o.Every, everyTime)}
	name, adopt := partPath(path), false
	if o.Continue {
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Size() > 0 {
				name, adopt = path, true
			}
		}
	}
	data, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("open the file: %w", err)
	}
	f.data, f.adopted = data, adopt
	if err := f.begin(name, o); err != nil {
		data.Close()
		return nil, err
	}
	f.have = f.began
	f.wake, f.done = make(chan struct{}, 1), make(chan struct{})
	go f.keep()
	return f, nil
}

func (f *File) begin(name string, o Options) error {
	if err := unix.Flock(int(f.data.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		return fmt.Errorf("lock %s: %w", name, err)
	}
	here, err := f.data.Stat()
	if err != nil {
		return fmt.Errorf("open the file: %w", err)
	}
	if there, err := os.Stat(name); err != nil || !os.SameFile(here, there) {
		return fmt.Errorf("lock %s: %w", name, ErrLocked) // it was completed, or removed, between open and lock
	}
	switch {
	case f.adopted:
		f.began.Offset = here.Size()
		if o.Offset >= 0 {
			f.began.Offset = min(o.Offset, here.Size())
		}
		f.began.Offset += f.began.From
		f.known = true
	case o.Continue:
		f.goOn(here.Size(), o.Wanted)
	}
	if f.adopted {
		return nil
	}
	if !f.known {
		if err := os.Remove(statePath(f.path)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the old state: %w", err)
		}
	}
	return f.cut()
}

// goOn uses the saved state if it matches the request.
func (f *File) goOn(size int64, wanted part.Have) {
	b, err := os.ReadFile(statePath(f.path))
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			f.ignored = err
		}
		return
	}
	s, err := Parse(b)
	switch {
	case err != nil:
		f.ignored = err
	case wanted.Suffix == 0 && (s.From != wanted.From || s.Until != wanted.Until):
		f.ignored = errors.New("read the state: it is for another range")
	case size < s.Offset-s.From:
		f.ignored = errors.New("read the state: the file is shorter than it says")
	default:
		f.began, f.known = s.Have(), true
		f.began.Suffix = wanted.Suffix
	}
}

// cut truncates the file to the bytes that are known to be valid.
func (f *File) cut() error {
	if err := f.data.Truncate(f.began.Offset - f.began.From); err != nil {
		return fmt.Errorf("truncate the file: %w", err)
	}
	return nil
}

// Begun returns what existed when the file was opened; known is false if there was nothing to continue; ignored says why existing bytes
// were not used.
func (f *File) Begun() (h part.Have, known bool, ignored error) { return f.began, f.known, f.ignored }

// Kept reads the bytes that existed.
func (f *File) Kept() io.Reader { return io.NewSectionReader(f.data, 0, f.began.Offset-f.began.From) }

// Tail returns the last n of the bytes that existed.
func (f *File) Tail(n int64) ([]byte, error) {
	size := f.began.Offset - f.began.From
	b := make([]byte, min(n, size))
	if _, err := f.data.ReadAt(b, size-int64(len(b))); err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	return b, nil
}

// Note records the state of the file. Its offset is ignored: that is the number of written bytes.
func (f *File) Note(h part.Have) error {
	f.at.Lock()
	offset := f.have.Offset
	if !f.noted {
		offset = h.From + f.began.Offset - f.began.From
	}
	f.have = h
	f.have.Offset = offset
	first, failed := !f.noted, f.failed
	f.noted = true
	f.at.Unlock()
	if failed != nil {
		return failed
	}
	if first {
		if err := f.own(); err != nil {
			return err
		}
		return f.save()
	}
	f.at.Lock()
	due := f.have.Offset-f.lastOff >= everyBytes || time.Since(f.last) >= f.every || time.Since(f.last) < 0
	f.at.Unlock()
	if due {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// own moves a file that existed before to the name of a download in progress.
func (f *File) own() error {
	if !f.adopted {
		return nil
	}
	if err := os.Rename(f.path, partPath(f.path)); err != nil {
		return fmt.Errorf("take over the file: %w", err)
	}
	f.adopted = false
	return f.cut()
}

// Write appends bytes.
func (f *File) Write(b []byte) (int, error) {
	f.at.Lock()
	at := f.have.Offset - f.have.From
	f.at.Unlock()
	n, err := f.data.WriteAt(b, at)
	f.at.Lock()
	f.have.Offset += int64(n)
	f.at.Unlock()
	if err != nil {
		return n, fmt.Errorf("write the file: %w", err)
	}
	return n, nil
}

// keep saves the state whenever it is due.
func (f *File) keep() {
	defer close(f.done)
	for range f.wake {
		if err := f.save(); err != nil {
			f.at.Lock()
			f.failed = err
			f.at.Unlock()
		}
	}
}

// save syncs the written bytes, and then records their number.
func (f *File) save() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at.Lock()
	h := f.have
	f.last, f.lastOff = time.Now(), h.Offset
	f.at.Unlock()
	if err := unix.Fdatasync(int(f.data.Fd())); err != nil {
		return fmt.Errorf("sync the file: %w", err)
	}
	return save(statePath(f.path), saved(f.url, h))
}

// Restart discards what was written.
func (f *File) Restart() error {
	if f.adopted {
		return fmt.Errorf("start over: %w", ErrAdopted)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := os.Remove(statePath(f.path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("start over: %w", err)
	}
	f.at.Lock()
	defer f.at.Unlock()
	f.began = f.began.Again()
	f.have, f.noted, f.lastOff = f.began, false, 0
	return f.cut()
}

// Finish moves the complete file into place, and closes it. It keeps an incomplete one, as Close does: its error then wraps [ErrIncomplete].
func (f *File) Finish() error {
	f.at.Lock()
	have := f.have
	f.at.Unlock()
	if !f.adopted && !have.Done() {
		return errors.Join(fmt.Errorf("move the file into place: %w: %s", ErrIncomplete, missing(have)), f.Close())
	}
	f.stop()
	defer f.data.Close()
	if f.adopted {
		return nil
	}
	if err := unix.Fdatasync(int(f.data.Fd())); err != nil {
		return fmt.Errorf("sync the file: %w", err)
	}
	if err := os.Rename(partPath(f.path), f.path); err != nil {
		return fmt.Errorf("move the file into place: %w", err)
	}
	if err := os.Remove(statePath(f.path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the state: %w", err)
	}
	return syncFolder(f.path)
}

// missing says how much of a file there is.
func missing(h part.Have) string {
	if h.End() < 0 {
		return fmt.Sprintf("%d have arrived, and no server has said how many there are", h.Offset-h.From)
	}
	return fmt.Sprintf("%d of %d have arrived", h.Offset-h.From, h.End()-h.From)
}

// Abandon closes and removes a file that cannot be continued. One that existed before stays.
func (f *File) Abandon() error {
	f.stop()
	defer f.data.Close()
	if f.adopted {
		return nil
	}
	var errs []error
	for _, name := range []string{statePath(f.path), partPath(f.path)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove the file: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Close ends an incomplete download so that it can be continued. A download without bytes is removed.
func (f *File) Close() error {
	f.at.Lock()
	empty := f.have.Offset == f.have.From
	noted := f.noted
	f.at.Unlock()
	if empty && !f.known {
		return f.Abandon()
	}
	f.stop()
	defer f.data.Close()
	if !noted {
		return nil
	}
	return f.save()
}

// stop ends keep.
func (f *File) stop() {
	close(f.wake)
	<-f.done
}
