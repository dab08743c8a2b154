// Package state keeps an incomplete download on disk so that another process can continue it, whenever this one dies.
//
// While FILE is downloaded there are FILE.part with its bytes, and FILE.part.json with its metadata and the number of synced bytes. The
// second file follows the first: bytes are synced, then a new FILE.part.json with their number is renamed into place. A later process
// trusts only that number. FILE itself appears when it is complete.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"baton/resume/part"

	"github.com/google/renameio/v2"
)

// version of Saved. Others are ignored.
const version = 1

// Saved is the content of FILE.part.json.
type Saved struct {
	Version   int            `json:"version"`
	URL       string         `json:"url"`
	From      int64          `json:"from"`
	Until     int64          `json:"until"` // exclusive, -1: to the end
	Offset    int64          `json:"offset"`
	Length    int64          `json:"length"` // -1: unknown
	Validator part.Validator `json:"validator"`
	Digests   part.Digests   `json:"digests,omitempty"`
	Coding    string         `json:"coding,omitempty"`
}

// Have converts the saved state.
func (s *Saved) Have() part.Have {
	return part.Have{From: s.From, Until: s.Until, Offset: s.Offset, Length: s.Length, Validator: s.Validator, Digests: s.Digests, Coding: s.Coding}
}

func saved(url string, h part.Have) Saved {
	return Saved{Version: version, URL: url, From: h.From, Until: h.Until, Offset: h.Offset, Length: h.Length,
		Validator: h.Validator, Digests: h.Digests, Coding: h.Coding}
}

// Parse parses a saved state, and refuses an impossible one.
func Parse(b []byte) (Saved, error) {
	var s Saved
	if err := json.Unmarshal(b, &s); err != nil {
		return Saved{}, fmt.Errorf("read the state: %w", err)
	}
	switch {
	case s.Version != version:
		return Saved{}, fmt.Errorf("read the state: version %d, not %d", s.Version, version)
	case s.From < 0, s.Offset < s.From, s.Length < -1, s.Until < -1, s.Length >= 0 && s.Offset > s.Length, s.Until >= 0 && s.Offset > s.Until:
		return Saved{}, errors.New("read the state: its numbers contradict each other")
	}
	return s, nil
}

// save replaces the file atomically.
func save(path string, s Saved) error {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	if err := renameio.WriteFile(path, append(b, '\n'), 0o666, renameio.WithTempDir(filepath.Dir(path))); err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	return syncFolder(path)
}

func syncFolder(of string) error {
	d, err := os.Open(filepath.Dir(of))
	if err != nil {
		return fmt.Errorf("sync the folder: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync the folder: %w", err)
	}
	return nil
}
