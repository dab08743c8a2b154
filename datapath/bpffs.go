package datapath

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// BPFFS is where the BPF file system is usually mounted.
const BPFFS = "/sys/fs/bpf"

// EnsureBPFFS makes sure that dir is on a BPF file system, and mounts the usual one when nobody has.
func EnsureBPFFS(dir string) error {
	if onBPFFS(dir) {
		return nil
	}
	if clean := filepath.Clean(dir); clean != BPFFS && !strings.HasPrefix(clean, BPFFS+"/") {
		return fmt.Errorf("state directory: %s is not on a BPF file system: use a directory below %s, such as %s/baton", dir, BPFFS, BPFFS)
	}
	if !onBPFFS(BPFFS) {
		if err := unix.Mount("bpf", BPFFS, "bpf", 0, "mode=0700"); err != nil {
			return fmt.Errorf("mount the BPF file system at %s: %w", BPFFS, err)
		}
	}
	if err := unix.Mkdir(dir, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	return nil
}

func onBPFFS(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.BPF_FS_MAGIC
}
