package anycast

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"baton/anycast/level"
	"baton/api"

	"github.com/google/renameio/v2"
)

// kept is the state that survives a restart. Without it a drained site would announce again after a crash, and a site that crashes
// repeatedly would flap without limit.
type kept struct {
	Instruction api.AnycastInstruction `json:"instruction,omitzero"`
	Penalty     float64                `json:"penalty"`
	At          time.Time              `json:"at"`        // of the penalty
	Announced   bool                   `json:"announced"` // so that any exit of the process counts as one more withdrawal
}

// maxState limits the size of the file, in bytes.
const maxState = 64 << 10

// remember loads the saved state. A file that cannot be read is logged and ignored.
func (s *site) remember() {
	if s.cfg.State == "" {
		return
	}
	k, err := readState(s.cfg.State)
	if err != nil {
		s.log.Warn("the saved state cannot be read: starting without an instruction and with a fresh flap budget", "err", err)
		return
	}
	switch k.Instruction.Kind {
	case instructionDrain, instructionMaintenance, instructionLevel:
		s.instruction = k.Instruction
	}
	// The only use of the wall clock: a jump makes the penalty too large or too small, within a new process's limit.
	passed := max(0, time.Since(k.At))
	if k.Announced {
		k.Penalty += level.WithdrawPenalty
	}
	if f := s.cfg.Control.Flaps; f.Suppress > 0 && k.Penalty > 0 {
		s.machine.Owe(min(k.Penalty, f.Suppress), passed)
	}
	if s.instruction.Kind != "" {
		s.log.Info("an earlier instruction is still in force", "instruction", s.instruction.Kind, "level", s.instruction.Level, "since", s.instruction.At)
	}
}

func readState(path string) (kept, error) {
	var k kept
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return k, nil
	case err != nil:
		return k, fmt.Errorf("read the state: %w", err)
	case len(text) > maxState:
		return k, fmt.Errorf("read the state: %s is longer than %d bytes", path, maxState)
	}
	if err := json.Unmarshal(text, &k); err != nil {
		return kept{}, fmt.Errorf("read the state in %s: %w", path, err)
	}
	return k, nil
}

// save writes the state. s.mu is held.
func (s *site) save(now time.Time) {
	if s.cfg.State == "" {
		return
	}
	err := writeState(s.cfg.State, kept{
		Instruction: s.instruction, Penalty: s.decision.Penalty, At: now, Announced: s.decision.Level != s.cfg.Control.Withdrawn(),
	})
	if err != nil {
		s.log.Error("the state cannot be saved", "err", err)
	}
}

// writeState replaces the file atomically.
func writeState(path string, k kept) error {
	text, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	if err := renameio.WriteFile(path, append(text, '\n'), 0o600, renameio.WithTempDir(filepath.Dir(path))); err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	return nil
}
