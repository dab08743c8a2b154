package journal

import (
	"fmt"
	"iter"
	"os"
	"time"
)

// Damage is what is lost of a journal, but for a record that was being written when the process ended: what was appended there is not known.
type Damage struct {
	Places int   // that are no records; 0: there is no damage
	Bytes  int64 // of all of them
	At     int64 // where the first one is in the file
	// After and Before say when it was that what is lost was appended: the times of the whole records before the first place and behind the
	// last. They are zero where there is none.
	After, Before time.Time
}

func (d *Damage) add(at, bytes int64, after, before time.Time) {
	if d.Places == 0 {
		d.At, d.After = at, after
	}
	d.Places++
	d.Bytes += bytes
	d.Before = before
}

// Damage returns what Open has found to be lost. The records around it are those of the journal.
func (j *Journal) Damage() Damage { return j.damage }

// Repair rewrites a damaged journal as [Journal.Rewrite] does, and keeps the file as it was under the name that it returns. If it fails, the
// journal is as it was, but for damage at its end.
func (j *Journal) Repair(records iter.Seq[Record]) (kept string, err error) {
	kept = j.path + ".damaged"
	_ = os.Remove(kept) // of another time
	if err = os.Link(j.path, kept); err == nil {
		err = j.Rewrite(records)
	}
	if err != nil {
		_ = j.file.Truncate(j.size) // else what is appended is written over a part of it
		return "", fmt.Errorf("repair journal %s: %w", j.path, bareLink(err))
	}
	return kept, nil
}
