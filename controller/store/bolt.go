package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// format is the version of what is written. Another one is refused, not converted by guessing.
const format = "1"

// bolt is the embedded store: a file that one process has.
type bolt struct {
	db         *bbolt.DB
	generation uint64
}

var (
	metaBucket    = []byte("meta")
	formatKey     = []byte("format")
	generationKey = []byte("generation")
)

// openBolt opens or makes the file, for its owner alone, and begins a new generation.
func openBolt(path string) (*bolt, error) {
	if path == "" {
		return nil, errors.New("store: no file is given")
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("store: another process has %s: is a controller running?", path)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("store: %w", err)
	case err != nil:
		return nil, fmt.Errorf("store: %s: %w: if it is damaged move it away: weights and states are then those of the configuration", path, err)
	}
	b := &bolt{db: db}
	err = os.Chmod(path, 0o600)
	if err == nil {
		err = b.checkFormat(path)
	}
	if err == nil {
		b.generation, err = b.raise(0)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return b, nil
}

func (b *bolt) checkFormat(path string) error {
	return b.db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return fmt.Errorf("store: %s: %w", path, err)
		}
		if found := meta.Get(formatKey); found != nil && string(found) != format {
			return fmt.Errorf("store: %s has format %q, and this controller reads format %s", path, found, format)
		}
		return meta.Put(formatKey, []byte(format))
	})
}

// raise begins a generation that is greater than every earlier one and than the given one.
func (b *bolt) raise(above uint64) (generation uint64, err error) {
	err = b.db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if v := meta.Get(generationKey); len(v) == 8 {
			generation = binary.BigEndian.Uint64(v)
		}
		generation = max(generation, above) + 1
		return meta.Put(generationKey, binary.BigEndian.AppendUint64(nil, generation))
	})
	if err != nil {
		return 0, fmt.Errorf("store: the generation: %w", err)
	}
	return generation, nil
}

func (b *bolt) kind() string { return "file" }

func (b *bolt) load(context.Context) (all []op, revision int64, err error) {
	err = b.db.View(func(tx *bbolt.Tx) error {
		for _, table := range []string{Surrogates, Handoffs, Hosts} {
			bucket := tx.Bucket([]byte(table))
			if bucket == nil {
				continue
			}
			err := bucket.ForEach(func(k, v []byte) error {
				all = append(all, op{table, string(k), append([]byte(nil), v...)})
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return all, 0, err
}

func (b *bolt) write(_ context.Context, _ int64, ops []op) (int64, error) {
	return 0, b.db.Update(func(tx *bbolt.Tx) error {
		for _, o := range ops {
			bucket, err := tx.CreateBucketIfNotExists([]byte(o.table))
			if err != nil {
				return err
			}
			if o.value == nil {
				err = bucket.Delete([]byte(o.key))
			} else {
				err = bucket.Put([]byte(o.key), o.value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// watch waits: nobody else writes the file.
func (b *bolt) watch(ctx context.Context, _ int64, _ func([]op, int64)) error {
	<-ctx.Done()
	return ctx.Err()
}

func (b *bolt) close() error { return b.db.Close() }
