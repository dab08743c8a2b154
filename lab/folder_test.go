package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Labs of several processes come and go at once, and the last one takes the common folder with it.
func TestFoldersOfManyLabs(t *testing.T) {
	root := filepath.Join(t.TempDir(), "labs")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			path := filepath.Join(root, string(rune('a'+i)))
			for range 2000 {
				if err := makeFolder(path); err != nil {
					t.Error(err)
					return
				}
				if err := os.Remove(path); err != nil {
					t.Error(err)
					return
				}
				_ = os.Remove(root)
			}
		})
	}
	wg.Wait()
}

// A folder with mounts in it goes, and is said to have gone, once.
func TestRemovedFolderIsReported(t *testing.T) {
	NeedRoot(t)
	dir := filepath.Join(t.TempDir(), "with space")
	inner := filepath.Join(dir, "inner")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := shareFolder(dir); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", inner, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	mounts, there, err := removeState(dir)
	if want := []string{inner, dir}; err != nil || !there || !slices.Equal(mounts, want) {
		t.Errorf("removed mounts %q, folder %v, %v; want %q and the folder", mounts, there, err, want)
	}
	if left := mountsUnder(dir); len(left) > 0 {
		t.Errorf("mounts left: %q", left)
	}
	if mounts, there, err := removeState(dir); err != nil || there || len(mounts) > 0 {
		t.Errorf("removed again: mounts %q, folder %v, %v", mounts, there, err)
	}
}

// A lab's folder is found by its mount, whatever this process's folder for temporary files is.
func TestFoldersElsewhereAreFound(t *testing.T) {
	NeedRoot(t)
	self, err := selfOwner()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), stateName, self.prefix()+"999")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := shareFolder(dir); err != nil {
		t.Fatal(err)
	}
	found := folders()
	if _, _, err := removeState(dir); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(found, dir) {
		t.Errorf("folders %q, want %s among them", found, dir)
	}
}

func TestLogFileIsBounded(t *testing.T) {
	l := &logFile{path: filepath.Join(t.TempDir(), "host", "x.log")}
	block := bytes.Repeat([]byte("0123456789abcde\n"), 1<<10)
	for range logLimit/len(block) + 1 {
		if n, err := l.Write(block); n != len(block) || err != nil {
			t.Fatalf("write: %d, %v", n, err)
		}
	}
	l.close()
	_, _ = l.Write([]byte("late"))
	for path, want := range map[string]int64{l.path: int64(len(block)), l.path + ".old": logLimit / 2} {
		if st, err := os.Stat(path); err != nil || st.Size() != want {
			t.Errorf("%s: %v, %v; want %d bytes", path, st, err, want)
		}
	}
}
