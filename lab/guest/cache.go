package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Cache is a folder of roots, kernels and package lists. Several processes may use it at a time.
type Cache struct{ dir string }

// cacheVariable names another folder than the default.
const cacheVariable = "BATON_LAB_CACHE"

// unused is how long an entry stays that nobody boots: a root is several hundred MB, and gets another name with each change of its packages.
const unused = 30 * 24 * time.Hour

// OpenCache opens the cache of this machine, $BATON_LAB_CACHE or /var/cache/baton-lab, makes the folder if it is missing, and removes what has
// not been used for 30 days.
func OpenCache() (*Cache, error) {
	dir := cmp.Or(os.Getenv(cacheVariable), "/var/cache/baton-lab")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open the cache of guests: %w (%s names another folder)", err, cacheVariable)
	}
	return &Cache{dir: dir}, removeUnused(dir, time.Now().Add(-unused))
}

// removeUnused removes entries that were last used before a time.
func removeUnused(dir string, before time.Time) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.IsDir() && info.ModTime().Before(before) {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what is unused from the cache of guests: %w", err)
		}
	}
	return nil
}

// make returns the path of an entry; if it is missing, build makes it in an empty folder, which then gets that name. Nobody sees half an
// entry, and no two processes build the same one.
func (c *Cache) make(ctx context.Context, name string, build func(dir string) error) (string, error) {
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, path+".lock")
	if err != nil {
		return "", fmt.Errorf("lock %s: %w", path, err)
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, os.Chtimes(path, time.Time{}, time.Now()) // it is used
	}
	half := path + ".new"
	if err := errors.Join(os.RemoveAll(half), os.Mkdir(half, 0o755)); err != nil {
		return "", err
	}
	if err := build(half); err != nil {
		return "", errors.Join(err, os.RemoveAll(half))
	}
	return path, os.Rename(half, path)
}

// lockFile locks a file against other processes and goroutines.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	f.Close()
	return nil, err
}

// makeDisk makes an ext4 image of a folder, with so many bytes to spare.
func makeDisk(ctx context.Context, image, dir string, spare int64) error {
	size := spare + 64<<20
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		size += (info.Size()+4095)&^4095 + 4096
		return nil
	})
	if err != nil {
		return fmt.Errorf("make a disk of %s: %w", dir, err)
	}
	size += size / 16 // the file system's own
	return runTool(ctx, "mke2fs", "-q", "-t", "ext4", "-m", "0", "-O", "^has_journal", "-d", dir, image, fmt.Sprintf("%dk", size>>10))
}

// runTool runs a program that says something only when it fails.
func runTool(ctx context.Context, name string, args ...string) error {
	return runAs(ctx, nil, name, args...)
}

// runAs runs a program with attributes, such as namespaces of its own.
func runAs(ctx context.Context, attributes *syscall.SysProcAttr, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"), attributes
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return fmt.Errorf("%s: %w\n%s", name, err, lastLines(string(out), 15))
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
