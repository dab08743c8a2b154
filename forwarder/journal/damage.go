package journal

import (
	"fmt"
	"iter"
	"os"
	"time"
)

// Damage is what a journal has lost, other than an incomplete last record. The lost messages are unknown.
type Damage struct {
	Places int   // runs of bytes that are not records; 0: no damage
	Bytes  int64 // total
	At     int64 // offset of the first
	// After and Before bound the time of the lost records: the times of the intact records before the first and after the last gap; zero if
	// there is none.
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

// Damage returns the damage found by Open. The intact records are still in the journal.
func (j *Journal) Damage() Damage { return j.damage }

// Repair rewrites a damaged journal like [Journal.Rewrite], and keeps the damaged file under the returned name. If it fails, the journal is
// unchanged, except for damage at its end.
func (j *Journal) Repair(records iter.Seq[Record]) (kept string, err error) {
	kept = j.path + ".damaged"
	_ = os.Remove(kept) // of an earlier repair
	if err = os.Link(j.path, kept); err == nil {
		err = j.Rewrite(records)
	}
	if err != nil {
		_ = j.file.Truncate(j.size) // otherwise appends would overwrite a part of it
		return "", fmt.Errorf("repair journal %s: %w", j.path, bareLink(err))
	}
	return kept, nil
}
