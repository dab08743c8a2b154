package host

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/balance/links"
	"baton/lab"
)

// cgroups mounts the hierarchy for a test, and has a group and those below it removed in the end.
func cgroups(t *testing.T, group string) (dir string) {
	t.Helper()
	lab.NeedRoot(t)
	root := t.TempDir()
	mount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("none", root, "cgroup2", flags, ""); err != nil {
			t.Fatalf("mount control groups: %v", err)
		}
	}
	mount(0)
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Flags&unix.ST_RDONLY != 0 { // the whole hierarchy, wherever it is mounted
		mount(unix.MS_REMOUNT)
		t.Cleanup(func() { mount(unix.MS_REMOUNT | unix.MS_RDONLY) })
	}
	dir = filepath.Join(root, group)
	t.Cleanup(func() { removeGroup(t, filepath.Join(dir, "inner")); removeGroup(t, dir) })
	return dir
}

// removeGroup removes a group when its last process has gone.
func removeGroup(t *testing.T, dir string) {
	t.Helper()
	lab.Eventually(t, 10*time.Second, func() error {
		if err := unix.Rmdir(dir); !errors.Is(err, unix.ENOENT) {
			return err
		}
		return nil
	})
}

// TestClasses has applications of a user and of control groups sent to the gateways of their classes.
func TestClasses(t *testing.T) {
	group := fmt.Sprintf("baton-internal-%d", os.Getpid())
	dir := cgroups(t, group)
	n := newNetwork(t)
	s := n.state() // class 1 is a user's
	for k := 2; k <= 3; k++ {
		s.Classes = append(s.Classes, Class{
			IPv4: netip.AddrFrom4([4]byte{192, 0, 0, byte(k + 2)}), IPv6: netip.MustParseAddr(fmt.Sprintf("64:ff9b:1::%d", k+2)),
			MAC: links.MAC{0x02, 0x42, 0x74, 0, 0, byte(k)},
		})
	}
	s.Classes[2].Group, s.Classes[3].Group = "/"+group+"/inner", "/"+group
	h := n.open()
	n.divert(h, s)
	refresh := func(want ...string) {
		t.Helper()
		n.do(func() error {
			missing, err := h.Refresh()
			if !slices.Equal(missing, want) {
				t.Errorf("missing %q, want %q", missing, want)
			}
			return err
		})
	}
	refresh("/"+group+"/inner", "/"+group)
	for round := range 2 { // groups that are made anew are others
		for _, d := range []string{dir, filepath.Join(dir, "inner")} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		refresh()
		for _, tt := range []struct {
			before string
			class  byte
		}{
			{"", 0}, {"exec setpriv --reuid 4711 ", 1}, {"exec setpriv --reuid 4712 ", 0},
			{"echo 0 > " + dir + "/cgroup.procs; ", 3}, {"echo 0 > " + dir + "/inner/cgroup.procs; ", 2},
			{"echo 0 > " + dir + "/cgroup.procs; exec setpriv --reuid 4711 ", 1},
		} {
			for _, to := range []string{"UDP4:" + server4 + ":9", "UDP6:[" + server6 + "]:9"} {
				c := n.host.Interface("bal0").Capture(lab.CaptureOptions{Keep: func(frame []byte) bool {
					return frame[12] == 0x08 && frame[23] == unix.IPPROTO_UDP || frame[12] == 0x86 && frame[20] == unix.IPPROTO_UDP
				}})
				n.mustExec("sh", "-c", tt.before+"socat -u EXEC:'echo hello' "+to)
				lab.Eventually(t, 10*time.Second, func() error {
					if len(c.Packets()) == 0 {
						return fmt.Errorf("%q %s: no packet", tt.before, to)
					}
					return nil
				})
				if got := c.Stop()[0].Data[:6]; !slices.Equal(got, []byte{0x02, 0x42, 0x74, 0, 0, tt.class}) {
					t.Errorf("round %d, %q %s: to % x, want class %d", round, tt.before, to, got, tt.class)
				}
			}
		}
		removeGroup(t, filepath.Join(dir, "inner"))
		removeGroup(t, dir)
	}
	s.Classes = s.Classes[:1]
	n.do(func() error { return h.Prepare(Make(s)) })
	refresh()
	n.do(h.Close)
}
