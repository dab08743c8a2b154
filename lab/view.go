package lab

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Namespaces are the paths of what the processes of a host have in common: network, mounts and host name. They are
// good for as long as the lab's owner lives.
type Namespaces struct {
	Net   string `json:"net"`
	Mount string `json:"mount"`
	UTS   string `json:"uts"`
}

// Namespaces lets another process come to the host and see it as the host's own processes do.
func (h *Host) Namespaces() Namespaces {
	thread := fmt.Sprintf("/proc/%d/task/%d/ns/", os.Getpid(), h.spawn.tid)
	return Namespaces{Net: filepath.Join(netnsDir, h.netns), Mount: thread + "mnt", UTS: thread + "uts"}
}

// Enter moves the calling thread into the namespaces, with / as its working directory, for the program that it will execute. The goroutine
// must be locked to the thread and never unlocked: this cannot be undone.
func (n Namespaces) Enter() error {
	// Mounts can be changed only by a thread that does not share its root and working directory.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("enter host: unshare: %w", err)
	}
	for _, s := range []struct {
		path string
		kind int
	}{{n.Net, unix.CLONE_NEWNET}, {n.UTS, unix.CLONE_NEWUTS}, {n.Mount, unix.CLONE_NEWNS}} {
		fd, err := unix.Open(s.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("enter host: open %s: %w", s.path, err)
		}
		err = unix.Setns(fd, s.kind)
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("enter host: %s: %w", s.path, err)
		}
	}
	return nil
}

// AdmitForeign allows processes that the lab did not start to run on its hosts (Namespaces). Close then kills them, and does not report
// them as leaks.
func (l *Lab) AdmitForeign() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.foreign = true
}

// killForeign kills what runs in a host's network, or sees its mounts from another network.
func killForeign(hosts []*Host) error {
	networks, mounts := map[uint64]bool{}, map[uint64]bool{}
	for _, h := range hosts {
		networks[h.inode] = true
		if ns, err := inode(h.Namespaces().Mount); err == nil {
			mounts[ns] = true
		}
	}
	_, err := killMatching(func(pid int) bool {
		net, err1 := inode(fmt.Sprintf("/proc/%d/ns/net", pid))
		mnt, err2 := inode(fmt.Sprintf("/proc/%d/ns/mnt", pid))
		return err1 == nil && networks[net] || err2 == nil && mounts[mnt]
	})
	return err
}

// Private gives the host's processes an empty folder of their own in place of the machine's, which stays as it is and is made if there is none:
// for what programs keep in a place that is not to be configured, as in /run. What is in it goes with the host, also when the lab's owner is killed.
func (h *Host) Private(dir string) {
	h.lab.t.Helper()
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		h.spawn.do(func() { err = unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755") })
	}
	if err != nil {
		h.lab.t.Fatalf("lab: host %s: a folder %s of its own: %v", h.name, dir, err)
	}
}

// etc are the files that a host has of its own, where the machine has them.
var etc = []string{"hosts", "resolv.conf", "nsswitch.conf"}

func (h *Host) etcFile(name string) string { return filepath.Join(h.lab.dir, "etc", h.name, name) }

// writeEtc writes a file in place, so that whoever has it mounted sees it.
func (h *Host) writeEtc(name, text string) error {
	if err := os.WriteFile(h.etcFile(name), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write /etc/%s: %w", name, err)
	}
	return nil
}

func (h *Host) writeDefaults() error {
	if err := os.MkdirAll(filepath.Join(h.lab.dir, "etc", h.name), 0o755); err != nil {
		return err
	}
	return errors.Join(h.writeEtc("hosts", h.hostsText(nil)), h.writeEtc("resolv.conf", resolvText(nil, nil)),
		h.writeEtc("nsswitch.conf", nameSwitch()))
}

// Hosts writes the host's /etc/hosts anew: localhost and these names. Without it a host knows localhost and itself.
func (h *Host) Hosts(names map[string][]netip.Addr) {
	h.lab.t.Helper()
	h.change("hosts", h.hostsText(names))
}

// Resolv writes the host's /etc/resolv.conf anew. Without it a host has no nameserver, so that nothing asks the
// machine's by accident.
func (h *Host) Resolv(nameservers []netip.Addr, search ...string) {
	h.lab.t.Helper()
	const most = 3 // MAXNS of resolv.conf(5); the C library overlooks the others
	if len(nameservers) > most {
		h.lab.t.Fatalf("lab: host %s: %d nameservers, of which programs would ask %d", h.name, len(nameservers), most)
	}
	h.change("resolv.conf", resolvText(nameservers, search))
}

func (h *Host) change(name, text string) {
	h.lab.t.Helper()
	err := h.writeEtc(name, text)
	if _, missing := os.Stat("/etc/" + name); err == nil && missing != nil {
		err = fmt.Errorf("this machine has no file for a host's to be mounted on: %w", missing)
	}
	if err != nil {
		h.lab.t.Fatalf("lab: host %s: %v", h.name, err)
	}
}

func (h *Host) hostsText(names map[string][]netip.Addr) string {
	var b strings.Builder
	b.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	if len(names[h.name]) == 0 {
		fmt.Fprintf(&b, "127.0.1.1\t%s\n", h.name)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for _, a := range names[name] {
			fmt.Fprintf(&b, "%s\t%s\n", a, name)
		}
	}
	return b.String()
}

func resolvText(nameservers []netip.Addr, search []string) string {
	var b strings.Builder
	for _, a := range nameservers {
		fmt.Fprintf(&b, "nameserver %s\n", a)
	}
	if len(search) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(search, " "))
	}
	return b.String()
}

var hostsLine = regexp.MustCompile(`(?m)^hosts:.*$`)

// nameSwitch is the machine's nsswitch.conf with names looked up only in files and by DNS: other methods, a resolver's socket or multicast,
// lead out of the lab.
func nameSwitch() string {
	text, _ := os.ReadFile("/etc/nsswitch.conf") // without it there is nothing to mount on either
	return hostsLine.ReplaceAllString(string(text), "hosts: files dns")
}

// enterView moves the calling thread to the host: its network, its name, and mounts in which /sys, the BPF file system in it and some
// files of /etc are the host's own.
func (h *Host) enterView() error {
	if err := netns.Set(h.ns); err != nil {
		return fmt.Errorf("enter the network: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Sethostname([]byte(h.name[:min(len(h.name), maxHostname)])); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	// What the lab mounts in its folder comes to the host, what the host's processes mount stays with them.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("part with the machine's mounts: %w", err)
	}
	if err := mountSysfs(); err != nil {
		return err
	}
	// What is pinned there goes with the host.
	if err := unix.Mount("bpffs", "/sys/fs/bpf", "bpf", 0, ""); err != nil && err != unix.ENOENT {
		return fmt.Errorf("mount /sys/fs/bpf: %w", err)
	}
	for _, name := range etc {
		err := unix.Mount(h.etcFile(name), "/etc/"+name, "", unix.MS_BIND, "")
		if err != nil && err != unix.ENOENT {
			return fmt.Errorf("mount /etc/%s: %w", name, err)
		}
	}
	return nil
}

const maxHostname = 64 // bytes, __NEW_UTS_LEN of linux/utsname.h

// mountSysfs mounts the /sys of the thread's network namespace, and moves into it what is mounted in the machine's:
// control groups, BPF, tracing.
func mountSysfs() error {
	var kept []string
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for _, path := range mountsUnder("/sys") {
		within := func(outer string) bool { return path == outer || strings.HasPrefix(path, outer+"/") }
		if path == "/sys" || slices.ContainsFunc(kept, within) {
			continue // it moves with the one around it
		}
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		kept, fds = append(kept, path), append(fds, fd)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	for i, path := range kept {
		err := unix.Mount(fmt.Sprintf("/proc/thread-self/fd/%d", fds[i]), path, "", unix.MS_MOVE, "")
		if err != nil && err != unix.ENOENT { // mounted on a folder of another network's /sys
			return fmt.Errorf("keep %s: %w", path, err)
		}
	}
	return nil
}

// shareFolder makes the lab's folder a mount of its own which passes on to the hosts what is mounted in it later.
func shareFolder(dir string) error {
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the lab's folder: %w", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		return fmt.Errorf("share the lab's folder: %w", err)
	}
	return nil
}
