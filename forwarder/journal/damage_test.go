package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"baton/openflow"
)

// damagedRecords are how many records the journals of these tests have, each of more bytes than the one before.
const damagedRecords = 9

// written is the file of a journal with that many records, and where each of them begins; the last is the end.
func written(t *testing.T) (file []byte, at []int) {
	t.Helper()
	file = []byte(magic)
	for r := range records(0, damagedRecords) {
		at = append(at, len(file))
		var err error
		if file, err = appendRecord(file, r); err != nil {
			t.Fatal(err)
		}
	}
	return file, append(at, len(file))
}

func mustWrite(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamage: what is whole before and behind damage is there, and what is lost is told.
func TestDamage(t *testing.T) {
	whole, at := written(t)
	flip := func(b []byte, n int) { b[at[n]+headSize+3] ^= 0x10 }
	tests := []struct {
		name  string
		spoil func(b []byte) []byte
		left  []int
		want  Damage
		torn  int64
	}{
		{"none", func(b []byte) []byte { return b }, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, Damage{}, 0},
		{"the first", func(b []byte) []byte { flip(b, 0); return b }, []int{1, 2, 3, 4, 5, 6, 7, 8},
			Damage{Places: 1, Bytes: size(at, 0, 1), At: int64(at[0]), Before: record(1).Time}, 0},
		{"two places", func(b []byte) []byte { flip(b, 2); flip(b, 5); return b }, []int{0, 1, 3, 4, 6, 7, 8},
			Damage{Places: 2, Bytes: size(at, 2, 3) + size(at, 5, 6), At: int64(at[2]), After: record(1).Time, Before: record(6).Time}, 0},
		{"neighbours", func(b []byte) []byte { flip(b, 2); flip(b, 3); return b }, []int{0, 1, 4, 5, 6, 7, 8},
			Damage{Places: 1, Bytes: size(at, 2, 4), At: int64(at[2]), After: record(1).Time, Before: record(4).Time}, 0},
		{"zeros over the middle", func(b []byte) []byte { clear(b[at[3]+5 : at[6]+2]); return b }, []int{0, 1, 2, 7, 8},
			Damage{Places: 1, Bytes: size(at, 3, 7), At: int64(at[3]), After: record(2).Time, Before: record(7).Time}, 0},
		{"bytes missing", func(b []byte) []byte { return slices.Delete(b, at[3]+5, at[3]+8) }, []int{0, 1, 2, 4, 5, 6, 7, 8},
			Damage{Places: 1, Bytes: size(at, 3, 4) - 3, At: int64(at[3]), After: record(2).Time, Before: record(4).Time}, 0},
		{"the last", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, []int{0, 1, 2, 3, 4, 5, 6, 7},
			Damage{Places: 1, Bytes: size(at, 8, 9), At: int64(at[8]), After: record(7).Time}, 0},
		{"zeros at the end", func(b []byte) []byte { clear(b[at[7]:]); return b }, []int{0, 1, 2, 3, 4, 5, 6},
			Damage{Places: 1, Bytes: size(at, 7, 9), At: int64(at[7]), After: record(6).Time}, 0},
		{"all", func(b []byte) []byte { clear(b[at[0]:]); return b }, nil, Damage{Places: 1, Bytes: size(at, 0, 9), At: int64(at[0])}, 0},
		{"a torn end", func(b []byte) []byte { return b[:len(b)-1] }, []int{0, 1, 2, 3, 4, 5, 6, 7}, Damage{}, size(at, 8, 9) - 1},
		{"damage and a torn end", func(b []byte) []byte { flip(b, 4); return b[:at[8]+7] }, []int{0, 1, 2, 3, 5, 6, 7},
			Damage{Places: 1, Bytes: size(at, 4, 5), At: int64(at[4]), After: record(3).Time, Before: record(5).Time}, 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			spoilt := tt.spoil(bytes.Clone(whole))
			mustWrite(t, path, spoilt)
			j := mustOpen(t, path)
			wantList(t, j, tt.left)
			if d := cmp.Diff(tt.want, j.Damage()); d != "" {
				t.Errorf("damage (-want +got):\n%s", d)
			}
			if j.Torn() != tt.torn {
				t.Errorf("%d torn bytes, want %d", j.Torn(), tt.torn)
			}
			if b, err := os.ReadFile(path); err != nil || tt.want.Places > 0 && !bytes.Equal(b, spoilt) {
				t.Errorf("the damaged file has changed: %v", err)
			}
		})
	}
}

func size(at []int, from, to int) int64 { return int64(at[to] - at[from]) }

// TestDamageAnywhere: whichever byte of a record is wrong, the others are there.
func TestDamageAnywhere(t *testing.T) {
	whole, at := written(t)
	path := filepath.Join(t.TempDir(), "journal")
	for i := at[2]; i < at[3]; i++ {
		spoilt := bytes.Clone(whole)
		spoilt[i] ^= 0x10
		mustWrite(t, path, spoilt)
		j := mustOpen(t, path)
		wantList(t, j, []int{0, 1, 3, 4, 5, 6, 7, 8})
		j.file.Close()
	}
}

// TestDamageLong: what is whole is found behind more damage than is read at once.
func TestDamageLong(t *testing.T) {
	whole, at := written(t)
	path := filepath.Join(t.TempDir(), "journal")
	for _, n := range []int{searched - 1, searched, 3*searched - headSize - openflow.HeaderSize, 3*searched + 5} {
		junk := bytes.Repeat([]byte{openflow.Version, 0, 0, 200}, n/4+1)[:n]
		mustWrite(t, path, slices.Insert(bytes.Clone(whole), at[4], junk...))
		j := mustOpen(t, path)
		wantList(t, j, []int{0, 1, 2, 3, 4, 5, 6, 7, 8})
		if d := j.Damage(); d.Bytes != int64(n) || d.Places != 1 {
			t.Errorf("%d bytes of junk: %+v", n, d)
		}
		j.file.Close()
	}
}

// TestRepair: a repaired journal holds what it is told, and the file as it was is kept.
func TestRepair(t *testing.T) {
	whole, at := written(t)
	for _, end := range []int{len(whole), at[8] + 7} {
		path := filepath.Join(t.TempDir(), "journal")
		spoilt := bytes.Clone(whole[:end])
		spoilt[at[4]] ^= 1
		mustWrite(t, path, spoilt)
		mustWrite(t, path+".damaged", []byte("of another time"))
		j := mustOpen(t, path)
		kept, err := j.Repair(records(20, 25))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(kept); err != nil || !bytes.Equal(b, spoilt) {
			t.Errorf("kept: %v\n%x, want\n%x", err, b, spoilt)
		}
		wantRecords(t, j, 20, 25)
		mustAppend(t, j, 25, 27)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = mustOpen(t, path)
		wantRecords(t, j, 20, 27)
		if d := j.Damage(); d != (Damage{}) {
			t.Errorf("damage after the repair: %+v", d)
		}
	}
}

// TestRepairFails: the journal goes on, with the damage in it.
func TestRepairFails(t *testing.T) {
	whole, at := written(t)
	path := filepath.Join(t.TempDir(), "journal")
	whole[at[4]] ^= 1
	clear(whole[at[8]:])
	mustWrite(t, path, whole)
	if err := os.MkdirAll(filepath.Join(path+".damaged", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	j := mustOpen(t, path)
	if kept, err := j.Repair(records(0, 1)); err == nil {
		t.Errorf("no error, kept %s", kept)
	}
	mustAppend(t, j, 8, 10)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = mustOpen(t, path)
	wantList(t, j, []int{0, 1, 2, 3, 5, 6, 7, 8, 9})
	if d := j.Damage(); d.Places != 1 || !d.After.Equal(record(3).Time) || time.Time.Equal(d.Before, time.Time{}) {
		t.Errorf("damage: %+v", d)
	}
}
