package packages_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
)

// distribution is what a test installs packages on.
type distribution struct {
	name, suite string
	include     string // packages of a plain server
}

var (
	debian12 = distribution{"Debian 12", "bookworm", "systemd,systemd-sysv,iproute2,man-db"}
	debian13 = distribution{"Debian 13", "trixie", "systemd,systemd-sysv,iproute2,man-db"}
)

// root returns the folder of a clean installation, which nobody writes to. It is made once and kept in the user's cache.
func (d distribution) root(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "baton", fmt.Sprintf("%s-%.6x", d.suite, sha256.Sum256([]byte(d.include))))
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(dir + ".lock") // of runs at the same time one makes it
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	unfinished := dir + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil { // of a run that was killed
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mmdebstrap", "--variant=apt", "--include="+d.include, "--aptopt=Acquire::Retries 3", d.suite, unfinished)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a root of %s: %v\n%s", d.name, err, out)
	}
	if err := os.Rename(unfinished, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// container is a machine of its own with systemd: a root on a lab's host.
type container struct {
	t    *testing.T
	root string // as this machine sees it: what is laid over the clean root
	boot *lab.Process
}

// bootScript makes the calling process the init of a container. It needs no manager of containers: systemd wants its own control groups, /proc,
// /sys, /dev, /run, and to be process 1, which the lab's programs are. The host's hybrid control groups have no controllers in the second version,
// of which the container sees its own part.
const bootScript = `set -e
root=$1 lower=$2 over=$3 group=$4
mount -t tmpfs none "$over"
mkdir "$over/upper" "$over/work"
mount -t overlay none -o "lowerdir=$lower,upperdir=$over/upper,workdir=$over/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 none "$root/sys/fs/cgroup"
mount -t bpf bpf "$root/sys/fs/bpf"
mount -t tmpfs -o mode=755 none "$root/run"
mount -t tmpfs -o mode=755 none "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/net"
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs none "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for d in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0" "net/tun 10 200"; do
	set -- $d
	mknod -m 666 "$root/dev/$1" c "$2" "$3"
done
echo $HOST_NAME >"$root/etc/hostname"
: >"$root/etc/machine-id"
cd "$root"
pivot_root . mnt
umount -l mnt
exec env -i container=baton-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=console --show-status=no
`

// start boots a container with d's root in a host's network and waits until systemd has started everything.
func (d distribution) start(t *testing.T, h *lab.Host) *container {
	t.Helper()
	lower := d.root(t)
	dir := t.TempDir()
	c := &container{t: t, root: filepath.Join(dir, "root")}
	for _, p := range []string{c.root, filepath.Join(dir, "over")} {
		if err := os.Mkdir(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	group := newGroup(t)
	script := filepath.Join(dir, "boot.sh")
	if err := os.WriteFile(script, []byte(bootScript), 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	c.boot, err = h.Start(lab.Program{
		Path: "sh", Name: "systemd", Env: []string{"HOST_NAME=" + h.Name()},
		Args: []string{"-c", `echo 0 >"$1/cgroup.procs" && shift && exec unshare --mount --ipc --cgroup --propagation=slave sh "$@"`, "sh", group,
			script, c.root, lower, filepath.Join(dir, "over"), group},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.boot.Kill() })
	lab.Eventually(t, time.Minute, func() error {
		out, err := c.try("systemctl is-system-running")
		if state := strings.TrimSpace(out); state != "running" && state != "degraded" {
			return fmt.Errorf("systemd on %s: %q, %v\n%s", d.name, state, err, c.boot.Log())
		}
		return nil
	})
	return c
}

// newGroup makes a control group, which goes with the test, and removes those that a test which was killed has left.
func newGroup(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "findmnt", "-n", "-o", "TARGET", "-t", "cgroup2").Output()
	parent, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil || parent == "" {
		t.Skip("SKIP: no control groups of version 2 are mounted")
	}
	const prefix = "baton-packages-"
	stale, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range stale {
		if _, err := os.Stat("/proc/" + strings.TrimPrefix(filepath.Base(dir), prefix)); os.IsNotExist(err) {
			removeGroups(t, dir)
		}
	}
	group := filepath.Join(parent, prefix+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeGroups(t, group) })
	return group
}

// removeGroups removes a control group and those in it, whose processes have ended.
func removeGroups(t *testing.T, group string) {
	var all []string
	_ = filepath.WalkDir(group, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	err := lab.Poll(10*time.Second, func() error {
		for i := len(all) - 1; i >= 0; i-- {
			if err := os.Remove(all[i]); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("remove the container's control groups: %v", err)
	}
}

// try runs a shell script in the container and returns its output.
func (c *container) try(script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--target", fmt.Sprint(c.boot.Pid()), "--all", "--root", "--wd", "sh", "-c", script)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "HOME=/root"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// do is try, and fails the test if the script does.
func (c *container) do(script string) string {
	c.t.Helper()
	out, err := c.try(script)
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

// put copies a file into the container's /root.
func (c *container) put(files ...string) {
	c.t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			c.t.Fatal(err)
		}
		name := "/root/" + filepath.Base(file)
		if err := os.WriteFile(filepath.Join("/proc", fmt.Sprint(c.boot.Pid()), "root", name), text, 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
}
