package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"baton/lab"
)

// Spec is a guest to boot. The zero value is a guest of this machine's architecture with the suite's own kernel and no network card.
type Spec struct {
	Name       string   // host name; default: guest
	Kernel     string   // a series (6.12), a version, trixie, or newest; default: trixie
	Flavour    Flavour  // Cloud or Plain; default: Cloud
	Arch       string   // amd64 or arm64; default: this machine's
	Packages   []string // of Debian, beside the ones that every root has
	Folder     string   // copied to /srv; "": an empty one
	Memory     int      // MiB; default: 3072
	Processors int      // default: 2
	Systemd    bool     // boots Debian's init; without, the shell is all that runs
	Append     string   // to the kernel's command line
	Cards      []Card
	Boot       time.Duration // until there is a shell; default: 5 minutes
}

func (s *Spec) setDefaults() {
	if s.Name == "" {
		s.Name = "guest"
	}
	if s.Kernel == "" {
		s.Kernel = Suite
	}
	if s.Flavour == "" {
		s.Flavour = Cloud
	}
	if s.Arch == "" {
		s.Arch = runtime.GOARCH
	}
	if s.Memory == 0 {
		s.Memory = 3072
	}
	if s.Processors == 0 {
		s.Processors = 2
	}
	if s.Boot == 0 {
		s.Boot = 5 * time.Minute
	}
	s.Cards = slices.Clone(s.Cards)
	for i := range s.Cards {
		s.Cards[i].setDefaults()
	}
}

// acceleratorVariable chooses QEMU's accelerator: tcg works everywhere, kvm is fast where /dev/kvm runs stock kernels.
const acceleratorVariable = "BATON_LAB_ACCEL"

// machine is what QEMU needs to know of an architecture.
type machine struct {
	program, model, console string
	pkg                     string // of Debian
}

var machines = map[string]machine{
	"amd64": {"qemu-system-x86_64", "q35", "ttyS0", "qemu-system-x86"},
	"arm64": {"qemu-system-aarch64", "virt", "ttyAMA0", "qemu-system-arm"},
}

// Guest is a booted guest. It ends with the lab of its host.
type Guest struct {
	Name    string
	Kernel  string // uname -r
	process *lab.Process
	dir     string
	client  *ssh.Client
}

// Boot makes what is missing of root and kernel, starts the guest on a lab's host and waits for its shell.
func Boot(ctx context.Context, h *lab.Host, s Spec) (*Guest, error) {
	s.setDefaults()
	if err := s.checkTools(); err != nil {
		return nil, err
	}
	cache, err := OpenCache()
	if err != nil {
		return nil, err
	}
	root, err := cache.ensureRoot(ctx, s.Arch, s.Packages)
	if err != nil {
		return nil, err
	}
	k, err := cache.ensureKernel(ctx, s.Arch, s.Flavour, s.Kernel, root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(h.Lab().Dir(), "guest-"+s.Name+"-")
	if err != nil {
		return nil, err
	}
	g := &Guest{Name: s.Name, Kernel: k.version, dir: dir}
	if s.Folder != "" {
		if err := makeDisk(ctx, filepath.Join(dir, "folder.img"), s.Folder, 1<<30); err != nil {
			return nil, err
		}
	}
	if err := g.startQEMU(h, &s, k, root); err != nil {
		return nil, err
	}
	if err := g.connect(ctx, s.Boot); err != nil {
		return nil, errors.Join(fmt.Errorf("boot guest %s with Linux %s: %w\n%s", s.Name, k.version, err, lastLines(g.Console(), 20)), g.Kill())
	}
	if err := g.nameCards(ctx, s.Cards); err != nil {
		return nil, errors.Join(err, g.Kill())
	}
	return g, nil
}

// checkTools says what is missing on this machine.
func (s *Spec) checkTools() error {
	m, ok := machines[s.Arch]
	if !ok {
		return fmt.Errorf("boot guest %s: architecture %q is unknown (amd64 or arm64)", s.Name, s.Arch)
	}
	tools := map[string]string{
		m.program: m.pkg, "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "depmod": "kmod", "xz": "xz-utils", "dpkg-deb": "dpkg", "apt-get": "apt",
		"busybox": "busybox-static",
	}
	if s.Arch != runtime.GOARCH {
		tools["arch-test"], tools[foreign[s.Arch].emulator] = "arch-test", "qemu-user-static"
	}
	for program, pkg := range tools {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("boot guest %s: %s is not installed: apt install %s", s.Name, program, pkg)
		}
	}
	return nil
}

func (g *Guest) startQEMU(h *lab.Host, s *Spec, k *kernel, root string) error {
	m := machines[s.Arch]
	line := "console=" + m.console + " panic=-1 net.ifnames=0 guest_name=" + s.Name + " " + s.Append
	if s.Systemd {
		line += " guest_init=/sbin/init systemd.show_status=0"
	} else {
		line += " quiet"
	}
	accelerator := os.Getenv(acceleratorVariable)
	processor := "host"
	if accelerator == "" || accelerator == "tcg" {
		// Several threads of Debian 12's QEMU 7.2 corrupt kernels of 7.x as they patch their text at start.
		accelerator, processor = "tcg,thread=single", "max"
	}
	args := []string{
		"-machine", m.model, "-accel", accelerator, "-cpu", processor, "-smp", strconv.Itoa(s.Processors), "-m", strconv.Itoa(s.Memory),
		"-display", "none", "-monitor", "none", "-no-reboot", "-nodefaults", "-serial", "file:" + g.path("console"),
		"-kernel", filepath.Join(k.dir, "vmlinuz"), "-initrd", filepath.Join(k.dir, "initrd"), "-append", strings.TrimSpace(line),
		"-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
		"-chardev", "socket,id=shell,path=" + g.path("shell") + ",server=on,wait=on", "-device", "virtserialport,chardev=shell,name=shell",
	}
	for i, image := range []string{filepath.Join(root, "root.img"), filepath.Join(k.dir, "modules.img"), g.path("folder.img")} {
		if _, err := os.Stat(image); err == nil {
			args = append(args, "-drive", fmt.Sprintf("file=%s,if=none,id=disk%d,format=raw,cache=unsafe,snapshot=on", image, i), "-device", fmt.Sprintf("virtio-blk-pci,drive=disk%d", i))
		}
	}
	cards, files, err := openCards(s.Cards)
	if err != nil {
		return err
	}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	g.process, err = h.Start(lab.Program{Path: m.program, Args: append(args, cards...), Name: "qemu-" + s.Name, Files: files, Env: []string{"TMPDIR=" + g.dir}})
	return err
}

func (g *Guest) path(name string) string { return filepath.Join(g.dir, name) }

// dialPort connects to the port of the guest's shell, for which QEMU waits before it boots.
func (g *Guest) dialPort(ctx context.Context) (conn net.Conn, err error) {
	err = lab.Poll(10*time.Second, func() (err error) {
		if conn, err = net.Dial("unix", g.path("shell")); err != nil && ctx.Err() != nil {
			return fmt.Errorf("QEMU has ended: %s", g.process.Stderr())
		}
		return err
	})
	return conn, err
}

// connect waits for the shell of the guest.
func (g *Guest) connect(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
		case <-g.process.Done():
			cancel()
		}
	}()
	conn, err := g.dialPort(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	c, channels, requests, err := ssh.NewClientConn(conn, g.Name, &ssh.ClientConfig{User: "root", HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			return fmt.Errorf("there is no shell: %w", ctx.Err())
		}
		return fmt.Errorf("open its shell: %w", err)
	}
	g.client = ssh.NewClient(c, channels, requests)
	return nil
}

// Console returns what the guest's kernel and init have said.
func (g *Guest) Console() string {
	b, _ := os.ReadFile(g.path("console"))
	return string(b)
}

// Kill ends the guest as a power failure does.
func (g *Guest) Kill() error {
	if g.client != nil {
		g.client.Close()
	}
	return errors.Join(g.process.Kill(), os.RemoveAll(g.dir))
}
