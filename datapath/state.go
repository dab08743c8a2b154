package datapath

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ErrLocked says that another process has locked the state.
var ErrLocked = errors.New("another process uses this state")

// Lock keeps other processes off a folder of pins until the file is closed.
func Lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock the state: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
	}
	return f, nil
}

// layoutPin is the name of the map that the layout of those beside it is recorded in, by whoever has pinned them.
const layoutPin = "layout"

// PinMaps makes a folder in which maps outlive the process, by their names in the layout's items. It is made under the name half first, so
// that there is never a part of it only. Whatever has that name is removed.
func PinMaps(dir, half string, pinned map[string]*ebpf.Map, layout Layout) (err error) {
	defer func() {
		if err != nil {
			os.RemoveAll(half)
			err = fmt.Errorf("pin: %w", err)
		}
	}()
	if err := os.RemoveAll(half); err != nil {
		return err
	}
	if err := os.Mkdir(half, 0o700); err != nil {
		return err
	}
	for name, m := range pinned {
		if err := m.Pin(filepath.Join(half, name)); err != nil {
			return err
		}
	}
	if err := layout.pin(filepath.Join(half, layoutPin)); err != nil {
		return err
	}
	return os.Rename(half, dir)
}

// OpenMaps opens the maps that are pinned in a folder, by their names. There are none where there is no folder. It refuses those of another
// layout with ErrLayout. Attachments (LinkPrefix) may be there, too.
func OpenMaps(dir string, layout Layout) (_ map[string]*ebpf.Map, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	opened := make(map[string]*ebpf.Map)
	defer func() {
		if err != nil {
			CloseMaps(opened)
			err = fmt.Errorf("take over %s: %w", dir, err)
		}
	}()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), LinkPrefix) || e.Name() == layoutPin || e.Name() == layoutPin+"_new" {
			continue
		}
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, e.Name()), nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		opened[e.Name()] = m
	}
	earlier, err := openLayout(filepath.Join(dir, layoutPin))
	if err != nil {
		return nil, err
	}
	for name := range opened {
		if earlier["map "+name] == nil && layout["map "+name] != nil {
			return nil, fmt.Errorf("%w: map %s is in no record of it", ErrLayout, name)
		}
	}
	if err := layout.check(earlier); err != nil {
		return nil, err
	}
	return opened, nil
}

// OpenMap opens one of them to be read, with the same check. Where it is not, the error wraps os.ErrNotExist.
func OpenMap(dir, name string, layout Layout) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	earlier, err := openLayout(filepath.Join(dir, layoutPin))
	if err == nil {
		err = layout.check(earlier)
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	return m, nil
}

// PinMissing pins those of the maps that the version which made the folder did not have, and adds to its record.
func PinMissing(dir string, all, opened map[string]*ebpf.Map, layout Layout) error {
	record, err := openLayout(filepath.Join(dir, layoutPin))
	if err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	had := len(record)
	maps.Copy(record, layout)
	if len(record) > had {
		fresh := filepath.Join(dir, layoutPin+"_new")
		_ = os.Remove(fresh) // of a process that was killed
		if err := errors.Join(record.pin(fresh), os.Rename(fresh, filepath.Join(dir, layoutPin))); err != nil {
			return fmt.Errorf("pin: %w", err)
		}
	}
	for name, m := range all {
		if opened[name] != nil {
			continue
		}
		if err := m.Pin(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("pin: %w", err)
		}
	}
	return nil
}

// CloseMaps lets go of maps.
func CloseMaps(all map[string]*ebpf.Map) {
	for _, m := range all {
		m.Close()
	}
}

// pin records the layout in a map of its own.
func (l Layout) pin(path string) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: layoutPin, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(text)), MaxEntries: 1})
	if err != nil {
		return fmt.Errorf("record the layout: %w", err)
	}
	defer m.Close()
	if err := m.Put(uint32(0), text); err != nil {
		return fmt.Errorf("record the layout: %w", err)
	}
	if err := m.Pin(path); err != nil {
		return fmt.Errorf("record the layout: %w", err)
	}
	return nil
}

func openLayout(path string) (Layout, error) {
	m, err := ebpf.LoadPinnedMap(path, &ebpf.LoadPinOptions{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no record of it", ErrLayout)
	}
	if err != nil {
		return nil, fmt.Errorf("read the layout: %w", err)
	}
	defer m.Close()
	var text []byte
	if err := m.Lookup(uint32(0), &text); err != nil {
		return nil, fmt.Errorf("read the layout: %w", err)
	}
	var l Layout
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("read the layout: %w", err)
	}
	return l, nil
}
