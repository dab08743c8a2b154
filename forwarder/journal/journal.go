// Package journal stores the forwarder's state on disk: an append-only file of OpenFlow messages, each with the time at which it took effect.
// Replaying them in order restores the state.
//
// The file has an 8-byte magic, then records. A record is the CRC-32C of the rest, 4 bytes; the time in nanoseconds since 1970, 8 bytes; and
// the message, whose header has its length. Numbers are big-endian.
//
// Appending does not wait for the disk: the page cache survives a killed process, and a machine that crashes loses what was not written yet.
// An incomplete record at the end is dropped. Other damage is skipped, up to the next record with a valid CRC, and reported
// ([Journal.Damage]).
package journal

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"time"
)

// magic begins every journal. Its last byte is the version.
const magic = "batonjn\x01"

const (
	// smallest is the size in bytes below which a journal is not rewritten: about 100,000 flow entries added and removed.
	smallest = 16 << 20
	// largest is the maximum size in bytes.
	largest = 1 << 30
)

var (
	// ErrInUse is returned by [Open] if another process holds the journal.
	ErrInUse = errors.New("another forwarder of this name is running")
	// ErrFull is returned by [Journal.Append] if the file would exceed its maximum size.
	ErrFull = errors.New("the journal is full")
)

// Journal is an open journal. It must not be used concurrently. The owner calls Close.
type Journal struct {
	path    string
	file    *os.File
	size    int64
	records int
	torn    int64
	damage  Damage
	floor   int64  // no rewrite is due below it
	record  []byte // reused buffer
}

// Open opens or creates a journal and its folder, and locks it against other processes until Close. An incomplete record at its end, as a
// crash leaves it, is truncated, unless there is other damage: then the file is unchanged until Repair. It returns errors of the operating
// system, [ErrInUse], or an error for a file that is not a journal.
func Open(path string) (*Journal, error) {
	j := &Journal{path: path}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("open journal %s: %w", path, err)
	}
	return j, nil
}

func (j *Journal) open() (err error) {
	if err := os.MkdirAll(filepath.Dir(j.path), 0o700); err != nil {
		return bare(err)
	}
	if j.file, err = openLocked(j.path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			j.file.Close()
		}
	}()
	_ = os.Remove(j.temporary()) // of an interrupted rewrite
	info, err := j.file.Stat()
	if err != nil {
		return err
	}
	j.size = int64(len(magic))
	began := make([]byte, min(info.Size(), j.size))
	if _, err := j.file.ReadAt(began, 0); err != nil {
		return err
	}
	if string(began) != magic[:len(began)] {
		return errors.New("not a journal, or one of another version")
	}
	if len(began) < len(magic) {
		j.torn = int64(len(began))
		_, err := j.file.WriteAt([]byte(magic), 0)
		return err
	}
	s := newScanner(j.file, j.size, info.Size())
	for s.next() {
		j.records++
	}
	if s.err != nil {
		return s.err
	}
	j.size, j.damage = s.at, s.damage
	j.torn = info.Size() - j.size
	cut, err := isCut(j.file, j.size, info.Size())
	if err != nil {
		return err
	}
	if !cut {
		j.damage.add(j.size, j.torn, s.record.Time, time.Time{})
		j.torn = 0
	}
	if j.torn > 0 && j.damage.Places == 0 {
		return j.file.Truncate(j.size)
	}
	return nil
}

// Torn returns the size of the incomplete record at the end.
func (j *Journal) Torn() int64 { return j.torn }

// Len returns the number of records.
func (j *Journal) Len() int { return j.records }

// Size returns the size of the file.
func (j *Journal) Size() int64 { return j.size }

// All yields the records in order, each valid until the next. It ends with an error, and no record, if the file cannot be read.
func (j *Journal) All() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		s := newScanner(j.file, int64(len(magic)), j.size)
		for s.next() {
			if !yield(s.record, nil) {
				return
			}
		}
		if s.err != nil {
			yield(Record{}, fmt.Errorf("read journal %s: %w", j.path, s.err))
		}
	}
}

// Append appends a message. If it fails, the journal is unchanged.
func (j *Journal) Append(message []byte, at time.Time) error {
	b, err := appendRecord(j.record[:0], Record{at, message})
	if err == nil && j.size+int64(len(b)) > largest {
		err = ErrFull
	}
	if err != nil {
		return fmt.Errorf("append to journal %s: %w", j.path, err)
	}
	j.record = b
	if _, err := j.file.WriteAt(b, j.size); err != nil {
		_ = j.file.Truncate(j.size) // otherwise the next record would overwrite a part of this one
		return fmt.Errorf("append to journal: %w", err)
	}
	j.size += int64(len(b))
	j.records++
	return nil
}

// Due reports whether a Rewrite with live messages would be worthwhile: the file is not small, has more than four times as many records, and
// has grown since the last one, so that even with a wrong live, or a failing disk, not every Append costs a Rewrite.
func (j *Journal) Due(live int) bool { return j.size > max(smallest, j.floor) && j.records > 4*live }

// Rewrite atomically replaces all records by others, and waits for the disk. If it fails or is interrupted, the journal is unchanged.
func (j *Journal) Rewrite(records iter.Seq[Record]) error {
	err := j.rewrite(records)
	if err != nil {
		j.floor = j.size + smallest
		return fmt.Errorf("rewrite journal %s: %w", j.path, err)
	}
	j.floor = 2 * j.size
	return nil
}

func (j *Journal) rewrite(records iter.Seq[Record]) (err error) {
	// Lock it before renaming, so that the name never stands for an unlocked file.
	next, err := openLocked(j.temporary())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			next.Close()
			_ = os.Remove(j.temporary())
		}
	}()
	size, n, err := fill(next, records)
	if err != nil {
		return err
	}
	if err := next.Sync(); err != nil {
		return err
	}
	if err := os.Rename(j.temporary(), j.path); err != nil {
		return err
	}
	j.file.Close()
	j.file, j.size, j.records = next, size, n
	_ = syncFolder(filepath.Dir(j.path)) // renamed already; a disk that fails here fails the next rewrite, too
	return nil
}

// fill writes records to a new file.
func fill(f *os.File, records iter.Seq[Record]) (size int64, n int, err error) {
	if err := f.Truncate(0); err != nil {
		return 0, 0, err
	}
	w := bufio.NewWriterSize(f, 1<<18)
	size = int64(len(magic))
	_, err = w.WriteString(magic)
	var b []byte
	for r := range records {
		if err != nil {
			break
		}
		if b, err = appendRecord(b[:0], r); err == nil {
			_, err = w.Write(b)
		}
		if size += int64(len(b)); err == nil && size > largest {
			err = ErrFull
		}
		n++
	}
	return size, n, errors.Join(err, w.Flush())
}

// Close syncs the journal to disk, and releases it.
func (j *Journal) Close() error {
	if err := errors.Join(j.file.Sync(), j.file.Close()); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}

func (j *Journal) temporary() string { return j.path + ".new" }
