package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Kernels lists the newest kernel of each series in Debian's archive, oldest first, as uname -r gives them.
func (c *Cache) Kernels(ctx context.Context, arch string, flavour Flavour) ([]string, error) {
	a, err := c.openArchive(ctx, arch)
	if err != nil {
		return nil, err
	}
	all, err := a.releases(ctx, flavour)
	if err != nil {
		return nil, err
	}
	var newest []string
	for i, r := range all {
		if i+1 == len(all) || Series(all[i+1].version) != Series(r.version) {
			newest = append(newest, r.version)
		}
	}
	return newest, nil
}

// kernel is a bootable kernel in the cache.
type kernel struct {
	version string
	dir     string // vmlinuz, initrd, modules.img
}

// ensureKernel returns the kernel that a name means, and fetches it if it is missing.
func (c *Cache) ensureKernel(ctx context.Context, arch string, flavour Flavour, name, root string) (*kernel, error) {
	a, err := c.openArchive(ctx, arch)
	if err != nil {
		return nil, err
	}
	all, err := a.releases(ctx, flavour)
	if err != nil {
		return nil, err
	}
	version, err := chooseRelease(all, name)
	if err != nil {
		return nil, err
	}
	dir, err := c.make(ctx, "kernel-"+version, func(dir string) error { return a.buildKernel(ctx, dir, version, root) })
	if err != nil {
		return nil, fmt.Errorf("make kernel %s: %w", version, err)
	}
	return &kernel{version: version, dir: dir}, nil
}

// buildKernel unpacks a kernel's packages and makes what QEMU boots of them.
func (a *archive) buildKernel(ctx context.Context, dir, version, root string) error {
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		return err
	}
	packages := []string{"linux-image-" + version}
	for _, kind := range []string{"linux-base-", "linux-binary-", "linux-modules-"} { // where the image is split
		if a.has(ctx, kind+version) {
			packages = append(packages, kind+version)
		}
	}
	if err := a.download(ctx, work, packages...); err != nil {
		return err
	}
	files, _ := filepath.Glob(filepath.Join(work, "*.deb"))
	for _, file := range files {
		if err := runTool(ctx, "dpkg-deb", "-x", file, work); err != nil {
			return err
		}
	}
	modules := filepath.Join(work, "usr/lib/modules", version)
	if err := moveFirst(filepath.Join(dir, "vmlinuz"), filepath.Join(work, "boot/vmlinuz-"+version), filepath.Join(modules, "vmlinuz")); err != nil {
		return err
	}
	_ = moveFirst(filepath.Join(modules, "config"), filepath.Join(work, "boot/config-"+version)) // nothing needs it, and not every series has it
	if err := runTool(ctx, "depmod", "-b", filepath.Join(work, "usr"), version); err != nil {
		return err
	}
	if err := buildInitrd(ctx, filepath.Join(dir, "initrd"), modules, root); err != nil {
		return err
	}
	if err := makeDisk(ctx, filepath.Join(dir, "modules.img"), modules, 0); err != nil {
		return err
	}
	return os.RemoveAll(work)
}

// moveFirst moves the first of some files that exists.
func moveFirst(to string, from ...string) error {
	for _, f := range from {
		if _, err := os.Stat(f); err == nil {
			return os.Rename(f, to)
		}
	}
	return fmt.Errorf("find %s: none is in the packages", strings.Join(from, " or "))
}

// bootModules are what a guest needs to find its disks and the shell's port, where the kernel does not have them built in.
// ext4 asks for crc32c by name, which no list of dependencies tells.
var bootModules = []string{"virtio_pci", "virtio_blk", "virtio_console", "crc32c_generic", "ext4"}

// initScript mounts the disks and hands over to the root's init.
const initScript = `#!/bin/busybox sh
b=/bin/busybox
$b mkdir -p /dev /proc /root
$b mount -t devtmpfs dev /dev
$b mount -t proc proc /proc
for m in $($b cat /modules/order); do $b insmod /modules/$m; done
n=0
until [ -b /dev/vdb ]; do n=$((n+1)); [ $n -lt 100 ] || { echo "no disks: $($b ls /dev)"; $b poweroff -f; }; $b sleep 0.1; done
$b mount -t ext4 /dev/vda /root
$b mkdir -p /root/usr/lib/modules/$($b uname -r)
$b mount -t ext4 -o ro /dev/vdb /root/usr/lib/modules/$($b uname -r)
[ -b /dev/vdc ] && $b mount -t ext4 /dev/vdc /root/srv
$b ln -sf /usr/lib/modules/$($b uname -r)/config /root/boot/config-$($b uname -r)
$b umount /proc
$b mount --move /dev /root/dev
exec $b switch_root /root ${guest_init:-/usr/local/sbin/guest-init}
`

// buildInitrd makes the first file system: busybox of the root, and the modules that the disks need.
func buildInitrd(ctx context.Context, path, modules, root string) error {
	dir := path + ".d"
	defer os.RemoveAll(dir)
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "bin"), 0o755), os.MkdirAll(filepath.Join(dir, "modules"), 0o755)); err != nil {
		return err
	}
	dependencies, err := os.ReadFile(filepath.Join(modules, "modules.dep"))
	if err != nil {
		return err
	}
	var order bytes.Buffer
	for _, file := range loadOrder(string(dependencies), bootModules) {
		plain := strings.TrimSuffix(filepath.Base(file), ".xz")
		out, err := exec.CommandContext(ctx, "xz", "-dcf", filepath.Join(modules, file)).Output()
		if err != nil {
			return fmt.Errorf("unpack %s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "modules", plain), out, 0o644); err != nil {
			return err
		}
		fmt.Fprintln(&order, plain)
	}
	busybox, err := os.ReadFile(filepath.Join(root, "busybox"))
	if err != nil {
		return err
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "modules/order"), order.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "bin/busybox"), busybox, 0o755),
		os.WriteFile(filepath.Join(dir, "init"), []byte(initScript), 0o755),
	); err != nil {
		return err
	}
	return runTool(ctx, "sh", "-c", `cd "$1" && find . | busybox cpio -o -H newc > "$2" 2>/dev/null`, "sh", dir, path)
}

var moduleFile = regexp.MustCompile(`([^/]+)\.ko(\.\w+)?$`)

// loadOrder returns the files of modules and all that they depend on, those first; names that modules.dep lacks are built in.
func loadOrder(dependencies string, names []string) []string {
	files, below := map[string]string{}, map[string][]string{}
	for line := range strings.Lines(dependencies) {
		file, deps, ok := strings.Cut(strings.TrimSpace(line), ":")
		if m := moduleFile.FindStringSubmatch(file); ok && m != nil {
			files[m[1]], below[file] = file, strings.Fields(deps)
		}
	}
	var order []string
	for _, name := range names {
		file, ok := files[name]
		if !ok {
			continue
		}
		for _, f := range slices.Backward(append([]string{file}, below[file]...)) { // depmod lists what is needed last first
			if !slices.Contains(order, f) {
				order = append(order, f)
			}
		}
	}
	return order
}
