package datapath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Links are a program's attachments to the ingress of interfaces, pinned in a folder. They stay when the process ends. Its methods may
// be called from any goroutine: routes to surrogates and reloads attach, each in its own time.
type Links struct {
	dir     string
	program *ebpf.Program

	mu    sync.Mutex
	links map[int]link.Link // by interface
}

// NewLinks has none yet.
func NewLinks(dir string, program *ebpf.Program) *Links {
	return &Links{dir: dir, program: program, links: make(map[int]link.Link)}
}

// Attach attaches the program to an interface's ingress, where it stays until Detach or until the pin is removed.
func (l *Links) Attach(ifindex int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.links[ifindex] != nil {
		return nil
	}
	fresh, err := AttachPinned(filepath.Join(l.dir, LinkPrefix+strconv.Itoa(ifindex)), ifindex, l.program, ebpf.AttachTCXIngress)
	if err != nil {
		return err
	}
	l.links[ifindex] = fresh
	return nil
}

// Detach detaches the program from an interface.
func (l *Links) Detach(ifindex int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.links[ifindex]
	if old == nil {
		return nil
	}
	delete(l.links, ifindex)
	return errors.Join(old.Unpin(), Detach(old))
}

// Attached lists the interfaces that the program is attached to.
func (l *Links) Attached() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []int
	for ifindex := range l.links {
		all = append(all, ifindex)
	}
	return all
}

// Adopt replaces the program on each interface of the folder's pins by this one. The link of an interface that is gone goes too.
func (l *Links) Adopt() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("adopt the attachments: %w", err)
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), LinkPrefix)
		if !ok {
			continue
		}
		path := filepath.Join(l.dir, e.Name())
		ifindex, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("adopt the attachment %s: not ours", path)
		}
		adopted, err := AdoptPinned(path, l.program)
		if err != nil {
			return err
		}
		if adopted != nil {
			l.links[ifindex] = adopted
		}
	}
	return nil
}

// Close closes them; the program stays attached.
func (l *Links) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, each := range l.links {
		errs = append(errs, each.Close())
	}
	return errors.Join(errs...)
}

// RemovePins removes a folder of pins, and those that processes that were killed have left half made (PinMaps).
func RemovePins(dir string) error {
	stale, _ := filepath.Glob(dir + "_new*")
	for _, d := range append(stale, dir) {
		entries, err := os.ReadDir(d)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("remove the pinned state: %w", err)
		}
		// links first: no packet runs into a program without maps
		for _, links := range []bool{true, false} {
			remove := os.Remove
			if links {
				remove = DetachPinned
			}
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), LinkPrefix) != links {
					continue
				}
				if err := remove(filepath.Join(d, e.Name())); err != nil {
					return fmt.Errorf("remove the pinned state: %w", err)
				}
			}
		}
		if err := os.Remove(d); err != nil {
			return fmt.Errorf("remove the pinned state: %w", err)
		}
	}
	return nil
}
