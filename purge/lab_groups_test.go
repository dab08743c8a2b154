package purge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
)

// groups is a place where control groups can be made.
type groups struct {
	t   *testing.T
	dir string
}

// newGroups has the named ones removed in the end, when the lab that is made after it is gone.
func newGroups(t *testing.T, names ...string) *groups {
	t.Helper()
	lab.NeedRoot(t)
	g := &groups{t: t, dir: t.TempDir()}
	if err := unix.Mount("none", g.dir, "cgroup2", 0, ""); err != nil {
		t.Fatalf("mount control groups: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(g.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	var fs unix.Statfs_t
	if err := unix.Statfs(g.dir, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Flags&unix.ST_RDONLY != 0 { // the whole hierarchy, wherever it is mounted
		g.remount(0)
		t.Cleanup(func() { g.remount(unix.MS_RDONLY) })
	}
	for _, name := range names {
		t.Cleanup(func() { g.remove(name) })
	}
	return g
}

// in is the same for a test within.
func (g groups) in(t *testing.T) *groups {
	g.t = t
	return &g
}

func (g *groups) remount(flags uintptr) {
	g.t.Helper()
	if err := unix.Mount("none", g.dir, "cgroup2", unix.MS_REMOUNT|flags, ""); err != nil {
		g.t.Fatalf("mount control groups otherwise: %v", err)
	}
}

// make makes a group.
func (g *groups) make(name string) {
	g.t.Helper()
	if err := os.Mkdir(filepath.Join(g.dir, name), 0o755); err != nil {
		g.t.Fatal(err)
	}
}

// remove removes a group when its last process has gone.
func (g *groups) remove(name string) {
	g.t.Helper()
	lab.Eventually(g.t, soon, func() error {
		err := unix.Rmdir(filepath.Join(g.dir, name))
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	})
}

// server starts one within a group that sends some MB a second.
func (g *groups) server(h *lab.Host, group string, port int) *lab.Process {
	g.t.Helper()
	script := fmt.Sprintf("echo 0 > %s/cgroup.procs; exec socat -d -d TCP4-LISTEN:%d,fork,reuseaddr "+
		"SYSTEM:'while head -c 20000 /dev/zero; do sleep 0.01; done'", filepath.Join(g.dir, group), port)
	p, err := h.Start(lab.Program{Path: "sh", Args: []string{"-c", script}, Name: fmt.Sprint("server-", port)})
	if err != nil {
		g.t.Fatal(err)
	}
	lab.Eventually(g.t, soon, func() error {
		out, err := h.Exec(g.t.Context(), "ss", "-Htln", fmt.Sprintf("sport = %d", port))
		if err == nil && out == "" {
			err = fmt.Errorf("nobody listens:\n%s", p.Log())
		}
		return err
	})
	return p
}

// TestGroups: connections that policies match but that belong to other groups than the purge's, and groups that come and go.
func TestGroups(t *testing.T) {
	t.Parallel()
	first, second := fmt.Sprintf("baton-purge-%d", os.Getpid()), fmt.Sprintf("baton-purge-later-%d", os.Getpid())
	g := newGroups(t, first, first+"/inner", second)
	var running sync.WaitGroup
	running.Go(func() { t.Run("made anew", func(t *testing.T) { groupAnew(t, g.in(t), first) }) })
	running.Go(func() { t.Run("later", func(t *testing.T) { groupLater(t, g.in(t), second) }) })
	running.Wait()
}

// groupAnew: of the connections that a policy matches only those of the control group are ended, including older ones; and a group that
// is created again, as that of a restarted service, is watched again.
func groupAnew(t *testing.T, g *groups, name string) {
	n := newNetwork(t)
	inner := name + "/inner" // what is below a group belongs to it
	g.make(name)
	g.make(inner)
	server := g.server(n.a, inner, 7001)
	g.server(n.a, ".", 7002)
	watched, other := n.connectTo(vip4, 7001), n.connectTo(vip4, 7002)
	watched.drain()
	reads := other.drain()
	other.goesOn(reads)
	n.drop(n.toA, "meta l4proto tcp")
	lab.Eventually(t, soon, func() error { return n.retransmittedAt(7002, 2) })

	p := n.purge(n.a, fmt.Sprintf("cgroups: [/%s]\npolicies: [{name: web, ports: [7000-7010], floor: 1ms, wait: 0%%}]\n", name))
	p.untilEnded(1)
	n.gonePort(n.a, 7001)
	lab.Eventually(t, soon, func() error { return n.retransmittedAt(7002, 3) })
	n.drop(n.toA, "")
	other.goesOn(reads)

	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	g.remove(inner)
	g.remove(name)
	lab.Eventually(t, soon, func() error {
		if missing := p.status().CgroupsMissing; !slices.Equal(missing, []string{"/" + name}) {
			return fmt.Errorf("missing: %v", missing)
		}
		return nil
	})
	g.make(name)
	g.server(n.a, name, 7001)
	again := n.connectTo(vip4, 7001)
	again.drain()
	lab.Eventually(t, soon, func() error {
		if missing := p.status().CgroupsMissing; len(missing) > 0 {
			return fmt.Errorf("missing: %v", missing)
		}
		return nil
	})
	n.drop(n.toA, "meta l4proto tcp")
	p.untilEnded(2)
	lab.Eventually(t, soon, func() error { return n.retransmittedAt(7002, 2) })
	if s := p.status(); s.Policies[0].Ended != 2 || s.Policies[0].Found != 1 {
		t.Errorf("%+v", s.Policies[0])
	}
}

// groupLater: a purge may begin before the service, whose control group is created later.
func groupLater(t *testing.T, g *groups, name string) {
	n := newNetwork(t)
	p := n.purge(n.a, fmt.Sprintf("cgroups: [/%s]\npolicies: [{name: web, ports: [7001]}]\n", name))
	if missing := p.status().CgroupsMissing; !slices.Equal(missing, []string{"/" + name}) {
		t.Errorf("missing: %v", missing)
	}
	g.make(name)
	g.server(n.a, name, 7001)
	d := n.connectTo(vip4, 7001)
	d.goesOn(d.drain())
	lab.Eventually(t, soon, func() error {
		if v := p.status().Verdicts; v["armed"]+v["watched"] == 0 { // whichever came first
			return fmt.Errorf("%v", v)
		}
		return nil
	})
	begun := time.Now()
	n.drop(n.toA, "meta l4proto tcp")
	p.untilEnded(1)
	t.Logf("ended after %v", time.Since(begun))
	n.gonePort(n.a, 7001)
}
