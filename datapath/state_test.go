package datapath_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"baton/datapath"
	"baton/datapath/kerneltest"
)

func TestMain(m *testing.M) {
	kerneltest.Main(m, func() error { return datapath.SetUp("lo") })
}

// pinned are maps of a version, whose values have some members of 4 bytes, and their layout.
type pinned struct {
	all    map[string]*ebpf.Map
	layout datapath.Layout
}

func version(t *testing.T, members []string, names ...string) pinned {
	t.Helper()
	u32 := &btf.Int{Name: "unsigned int", Size: 4}
	value := &btf.Struct{Name: "session", Size: 8}
	for i, m := range members {
		value.Members = append(value.Members, btf.Member{Name: m, Type: u32, Offset: btf.Bits(32 * i)})
	}
	spec := &ebpf.CollectionSpec{Maps: make(map[string]*ebpf.MapSpec)}
	v := pinned{all: make(map[string]*ebpf.Map)}
	for _, name := range names {
		spec.Maps[name] = &ebpf.MapSpec{Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 4, Key: u32, Value: value}
		m, err := ebpf.NewMap(spec.Maps[name])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		v.all[name] = m
	}
	var err error
	if v.layout, err = datapath.LayoutOf(spec, datapath.Stored{Maps: names}); err != nil {
		t.Fatal(err)
	}
	return v
}

// Maps outlive the process for a version with the same layout, with what is in them. One with another layout is refused, and leaves them.
func TestPinnedMaps(t *testing.T) {
	kerneltest.Need(t)
	dir := filepath.Join(datapath.BPFFS, "baton-state-test")
	half := dir + "_new"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	old := []string{"state", "seen"}
	first := version(t, old, "a", "b")
	if all, err := datapath.OpenMaps(dir, first.layout); err != nil || all != nil {
		t.Fatalf("there is %v, %v", all, err)
	}
	must(os.Mkdir(half, 0o700)) // of a process that was killed
	must(first.all["a"].Put(uint32(1), uint64(7)))
	must(datapath.PinMaps(dir, half, first.all, first.layout))

	opened, err := datapath.OpenMaps(dir, version(t, old, "a", "b").layout)
	must(err)
	defer datapath.CloseMaps(opened)
	var got uint64
	if err := opened["a"].Lookup(uint32(1), &got); err != nil || got != 7 || len(opened) != 2 {
		t.Errorf("%d in %v, %v", got, opened, err)
	}

	// a map more is pinned beside the others, and is held to its layout from now on
	second := version(t, old, "a", "b", "c")
	must(datapath.PinMissing(dir, second.all, opened, second.layout))
	again, err := datapath.OpenMaps(dir, second.layout)
	must(err)
	datapath.CloseMaps(again)
	if names := slices.Sorted(maps.Keys(again)); !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("pinned: %v", names)
	}

	for _, other := range []pinned{version(t, []string{"state", "since"}, "a"), version(t, []string{"seen", "state"}, "c")} {
		all, err := datapath.OpenMaps(dir, other.layout)
		if !errors.Is(err, datapath.ErrLayout) || !strings.Contains(err.Error(), "struct session") || all != nil {
			t.Errorf("another layout: %v, %v", all, err)
		}
	}
	must(os.Remove(filepath.Join(dir, "layout")))
	if all, err := datapath.OpenMaps(dir, first.layout); !errors.Is(err, datapath.ErrLayout) {
		t.Errorf("without a record: %v, %v", all, err)
	}
}

// A state is one process's.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	first, err := datapath.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := datapath.Lock(dir); !errors.Is(err, datapath.ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	first.Close()
	if _, err := datapath.Lock(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("locked what is not there: %v", err)
	}
}
