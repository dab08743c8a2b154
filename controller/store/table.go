package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Table is one kind of records. Reads are answered from memory, also while the store does not answer.
type Table[K cmp.Ordered, V any] struct {
	store *Store
	name  string
	key   func(V) K
	text  func(K) string

	// Guarded by the store's lock.
	records map[string]V
}

// raw is a table as the store sees it.
type raw interface {
	// set takes a value, or its absence, and reports whether that is a change.
	set(key string, value []byte) (changed bool, err error)
	keys() []string
}

func newTable[K cmp.Ordered, V any](s *Store, name string, key func(V) K, text func(K) string) *Table[K, V] {
	t := &Table[K, V]{store: s, name: name, key: key, text: text, records: map[string]V{}}
	s.tables[name] = t
	return t
}

func (t *Table[K, V]) keys() []string { return slices.Collect(maps.Keys(t.records)) }

func (t *Table[K, V]) set(key string, value []byte) (bool, error) {
	old, had := t.records[key]
	if value == nil {
		delete(t.records, key)
		return had, nil
	}
	var v V
	if err := json.Unmarshal(value, &v); err != nil {
		return false, fmt.Errorf("%s/%s: %w", t.name, key, err)
	}
	t.records[key] = v
	if !had {
		return true, nil
	}
	before, err := json.Marshal(old)
	return string(before) != string(value), err
}

// Get returns a record.
func (t *Table[K, V]) Get(key K) (V, bool) {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	v, ok := t.records[t.text(key)]
	return v, ok
}

// All returns all records, in the order of their keys.
func (t *Table[K, V]) All() []V {
	t.store.mu.Lock()
	all := slices.Collect(maps.Values(t.records))
	t.store.mu.Unlock()
	slices.SortFunc(all, func(a, b V) int { return cmp.Compare(t.key(a), t.key(b)) })
	return all
}

// Put writes a record and waits, a second at most. It is for what an operator changes: any controller may, also one that is not the
// master. The error is an api.ControllerError.
func (t *Table[K, V]) Put(ctx context.Context, v V) error {
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return t.store.put(ctx, op{t.name, t.text(t.key(v)), value})
}

// Delete removes a record as Put writes one.
func (t *Table[K, V]) Delete(ctx context.Context, key K) error {
	return t.store.put(ctx, op{table: t.name, key: t.text(key)})
}

// Record writes a record soon, and does not wait: it is for the master's packets. It is written when the store answers and this is the
// master, the latest value alone; if another controller becomes the master before, it is dropped. Get has it at once.
func (t *Table[K, V]) Record(v V) {
	value, err := json.Marshal(v)
	if err != nil {
		t.store.log.Error("a record cannot be stored", "table", t.name, "err", err)
		return
	}
	t.store.later(op{t.name, t.text(t.key(v)), value})
}

// Forget removes a record as Record writes one.
func (t *Table[K, V]) Forget(key K) { t.store.later(op{table: t.name, key: t.text(key)}) }
