// Package journal keeps on disk what must survive the forwarder: an append-only file of OpenFlow messages, each with the time at
// which it took effect. Replaying them in order gives the state at the last one.
//
// The file holds 8 bytes that say what it is, and records. A record is a CRC-32C of the rest, 4 bytes; the time, nanoseconds since
// 1970, 8 bytes; and the message, whose header has its length. Numbers are big-endian.
//
// The page cache outlives a process that is killed, so appending does not wait for the disk; a machine that stops without notice
// loses what the disk has not seen. A record that was cut at the end is forgotten. Other damage is stepped over, to the next record that
// matches its CRC, and told ([Journal.Damage]).
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
	// smallest is the size in bytes below which a journal is not worth a rewrite: about 100,000 flow entries come and go in it.
	smallest = 16 << 20
	// largest is the size in bytes that a journal never exceeds.
	largest = 1 << 30
)

var (
	// ErrInUse is returned by [Open] for a journal that another process holds.
	ErrInUse = errors.New("another forwarder of this name is running")
	// ErrFull is returned by [Journal.Append] when the record would make the file larger than a journal may be.
	ErrFull = errors.New("the journal is full")
)

// Journal is an open journal. It is not for several goroutines at once. The owner calls Close.
type Journal struct {
	path    string
	file    *os.File
	size    int64
	records int
	torn    int64
	damage  Damage
	floor   int64  // below it a rewrite is not due
	record  []byte // room for one, used again
}

// Open opens or creates a journal, and its folder, and locks it against other processes until Close. The beginning of a record at its
// end, as a crash may leave it, is cut off, unless there is damage: then the file stays as it is until Repair. The errors of the operating
// system apply, [ErrInUse], and one for a file that is no journal.
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
	_ = os.Remove(j.temporary()) // of a rewrite that did not end
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

// Torn returns how many bytes at the end are the beginning of a record.
func (j *Journal) Torn() int64 { return j.torn }

// Len returns how many records the journal holds.
func (j *Journal) Len() int { return j.records }

// Size returns how many bytes the file has.
func (j *Journal) Size() int64 { return j.size }

// All yields the records in the order in which they were appended, each good until the next. It ends with an error, and no
// record, if the file cannot be read.
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

// Append writes a message at the end. If it fails, the journal is as it was.
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
		_ = j.file.Truncate(j.size) // else the next record is written over the part of this one
		return fmt.Errorf("append to journal: %w", err)
	}
	j.size += int64(len(b))
	j.records++
	return nil
}

// Due reports whether a Rewrite is worth its while when live messages would do: the file is not small, has more than four times as
// many records, and has grown since the last one, so that even a wrong live, or a disk that refuses, does not make each Append cost
// a Rewrite.
func (j *Journal) Due(live int) bool { return j.size > max(smallest, j.floor) && j.records > 4*live }

// Rewrite replaces all records at once by others, which may be fewer. It waits for the disk. If it fails, or the process ends
// meanwhile, the journal is as it was.
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
	// Locked before it has the name, so that at no moment the name stands for a file without a lock.
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
	_ = syncFolder(filepath.Dir(j.path)) // the name is in force; a disk that cannot do this much fails the next rewrite
	return nil
}

// fill makes a file a journal of records.
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

// Close waits until the disk has the journal and gives it free.
func (j *Journal) Close() error {
	if err := errors.Join(j.file.Sync(), j.file.Close()); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}

func (j *Journal) temporary() string { return j.path + ".new" }
