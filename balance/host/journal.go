package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/google/renameio/v2"
)

// Folder contains the journals. Like what they record, they do not survive a reboot.
const Folder = "/run/baton"

// ErrRunning says that another process has the name.
var ErrRunning = errors.New("already running")

// ErrNewer says that the journal has a version that this program cannot read.
var ErrNewer = errors.New("the journal has another version")

const journalVersion = 2

// journal lists what we may have made: never less than what exists. It belongs to the process that holds its lock.
type journal struct {
	path  string
	lock  *os.File
	items items
}

type journalFile struct {
	Version int
	PID     int
	Items   items
}

// openJournal takes the lock, and reads what a previous process has left.
func openJournal(folder, name string) (*journal, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("create the journal's folder: %w", err)
	}
	j := &journal{path: filepath.Join(folder, "balance-"+name+".json")}
	var err error
	if j.lock, err = takeLock(filepath.Join(folder, "balance-"+name+".lock")); err != nil {
		return nil, fmt.Errorf("balance %s: %w", name, err)
	}
	if err := j.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("read the journal %s: %w", j.path, err), j.close())
	}
	return j, nil
}

// takeLock takes the lock, a file that its owner removes when it gives the lock up.
func takeLock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, fmt.Errorf("take the lock: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			defer f.Close()
			if err != unix.EWOULDBLOCK {
				return nil, fmt.Errorf("take the lock %s: %w", path, err)
			}
			text := make([]byte, 20)
			n, _ := f.Read(text)
			if pid := strings.TrimSpace(string(text[:n])); pid != "" {
				return nil, fmt.Errorf("%w: process %s has %s", ErrRunning, pid, path)
			}
			return nil, fmt.Errorf("%w: another process has %s", ErrRunning, path)
		}
		mine, err1 := f.Stat()
		there, err2 := os.Stat(path)
		if err1 != nil || err2 != nil || !os.SameFile(mine, there) {
			f.Close() // it was removed meanwhile
			continue
		}
		err = f.Truncate(0)
		if err == nil {
			_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("take the lock %s: %w", path, err), f.Close())
		}
		return f, nil
	}
}

func (j *journal) read() error {
	text, err := os.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var head struct{ Version int }
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	if head.Version != journalVersion {
		return fmt.Errorf("%w: %d instead of %d", ErrNewer, head.Version, journalVersion)
	}
	var file journalFile
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	j.items = file.Items
	return nil
}

// write replaces the file atomically, or removes it when the journal is empty.
func (j *journal) write() error {
	if len(j.items) == 0 {
		if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the journal: %w", err)
		}
		return nil
	}
	text, err := json.Marshal(journalFile{journalVersion, os.Getpid(), j.items})
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if err := renameio.WriteFile(j.path, text, 0o644, renameio.WithTempDir(filepath.Dir(j.path))); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// add records items before they are made.
func (j *journal) add(i Item) error {
	for _, there := range j.items {
		if same(there, i) {
			return nil
		}
	}
	j.items = append(j.items, i)
	return j.write()
}

// drop removes items that do not exist any more.
func (j *journal) drop(gone ...Item) error {
	var left items
	for _, i := range j.items {
		stays := true
		for _, g := range gone {
			stays = stays && !same(i, g)
		}
		if stays {
			left = append(left, i)
		}
	}
	if len(left) == len(j.items) {
		return nil
	}
	j.items = left
	return j.write()
}

// close gives up the lock.
func (j *journal) close() error {
	err := os.Remove(j.lock.Name())
	return errors.Join(err, j.lock.Close())
}
