package discover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"baton/router/config"
)

// Store keeps changes and sets in a folder, across restarts. The zero value keeps nothing.
type Store struct{ Dir string }

// The files of a store. Each is replaced as a whole.
const (
	changesFile = "backends.json"
	setsFile    = "discovered.json"

	storeFormat = 1
	maxStored   = 64 << 20 // bytes
)

type storedChanges struct {
	Format  int      `json:"format"`
	Changes []Change `json:"changes"`
}

type storedSets struct {
	Format int         `json:"format"`
	Sets   []storedSet `json:"sets"`
}

type storedSet struct {
	Key

	Surrogates []Surrogate   `json:"surrogates"`
	Zones      []config.Zone `json:"zones,omitempty"`
}

// Changes returns the saved changes. A file that is not one of ours is set aside, and the error says so: the router is to start.
func (s Store) Changes() (Changes, error) {
	var in storedChanges
	if err := s.read(changesFile, &in, func() int { return in.Format }); err != nil {
		return nil, err
	}
	out := make(Changes)
	for _, c := range in.Changes {
		if len(out) < MaxChanges && !c.empty() && (c.Pool == "" || c.Address.IsValid()) {
			out[c.Name] = c
		}
	}
	return out, nil
}

// SaveChanges saves the changes before they are in force.
func (s Store) SaveChanges(cs Changes) error {
	return s.write(changesFile, storedChanges{storeFormat, cs.Sorted()})
}

// Sets returns the sets that an earlier process had.
func (s Store) Sets() (map[Key]Set, error) {
	var in storedSets
	if err := s.read(setsFile, &in, func() int { return in.Format }); err != nil {
		return nil, err
	}
	out := make(map[Key]Set)
	for _, set := range in.Sets {
		out[set.Key] = Set{set.Surrogates, set.Zones}
	}
	return out, nil
}

// SaveSets saves the sets, in the order of the configuration.
func (s Store) SaveSets(states []State) error {
	out := storedSets{Format: storeFormat}
	for _, st := range states {
		if st.Set != nil {
			out.Sets = append(out.Sets, storedSet{st.Key, st.Set.Surrogates, st.Set.Zones})
		}
	}
	return s.write(setsFile, out)
}

func (s Store) read(name string, v any, format func() int) error {
	if s.Dir == "" {
		return nil
	}
	path := filepath.Join(s.Dir, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what is saved: %w", err)
	}
	if info.Size() > maxStored {
		return s.setAside(path, fmt.Errorf("it has %d bytes", info.Size()))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read what is saved: %w", err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return s.setAside(path, err)
	}
	if got := format(); got != storeFormat {
		return s.setAside(path, fmt.Errorf("its format is %d, and not %d", got, storeFormat))
	}
	return nil
}

// setAside keeps a file that cannot be read from being overwritten.
func (s Store) setAside(path string, why error) error {
	return errors.Join(fmt.Errorf("%s cannot be used, and is %s.broken now: %w", path, filepath.Base(path), why), os.Rename(path, path+".broken"))
}

func (s Store) write(name string, v any) error {
	if s.Dir == "" {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("save %s: %w", name, err)
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("save %s: %w", name, err)
	}
	path := filepath.Join(s.Dir, name)
	if err := renameio.WriteFile(path, append(text, '\n'), 0o600, renameio.WithTempDir(s.Dir)); err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	return nil
}
