package balance

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"baton/datapath"
)

// Applications have the sockets of some control groups marked, those that are made from now on. Nothing of it is pinned: it goes with the
// process. Marks stay on sockets.
//
// All is of the network namespace in which Set is called. Its methods are called by one goroutine at a time.
type Applications struct {
	Mask      uint32 // bits of a socket's mark that are ours
	Least     uint32 // mark that any application has
	groups    []*group
	hierarchy datapath.Hierarchy
}

// Application is a control group (version 2) by its path in the hierarchy, as in /proc/PID/cgroup, and the mark of its sockets and of those
// of the groups below it. Of groups within each other the one with the least mark has a socket.
type Application struct {
	Group string
	Mark  uint32
}

type group struct {
	Application
	at      datapath.Cgroup
	program *ebpf.Program
}

// Probe refuses a kernel or a user that cannot mark sockets, and says what is missing.
func Probe() error {
	err := datapath.RequireCapabilities([]datapath.Capability{
		{Bit: unix.CAP_BPF, Name: "CAP_BPF", Why: "to load programs"},
		{Bit: unix.CAP_NET_ADMIN, Name: "CAP_NET_ADMIN", Why: "to attach programs to control groups"},
	})
	if err != nil {
		return err
	}
	return datapath.RequireCgroups(ebpf.CGroupSock)
}

// Set says which control groups there are from now on. Those that are as they were stay attached.
func (a *Applications) Set(all []Application) error {
	var groups []*group
	for _, want := range all {
		at := slices.IndexFunc(a.groups, func(g *group) bool { return g.Application == want })
		if at >= 0 {
			groups = append(groups, a.groups[at])
			continue
		}
		g, err := a.load(want)
		if err != nil {
			return fmt.Errorf("mark the sockets of the control group %s: %w", want.Group, err)
		}
		groups = append(groups, g)
		a.groups = append(a.groups, g) // so that it is closed if the next one fails
	}
	var errs []error
	for _, g := range a.groups {
		if !slices.Contains(groups, g) {
			errs = append(errs, g.close())
		}
	}
	a.groups = groups
	return errors.Join(errs...)
}

func (a *Applications) load(want Application) (*group, error) {
	if len(a.groups) == 0 {
		if err := Probe(); err != nil {
			return nil, err
		}
	}
	dir, err := a.hierarchy.Dir(want.Group)
	if err != nil {
		return nil, err
	}
	spec, err := loadApplication()
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	netns, err := datapath.OwnNetns()
	if err != nil {
		return nil, err
	}
	err = datapath.SetConstants(spec, map[string]any{
		applicationVarOwnNetns: netns, applicationVarMark: want.Mark, applicationVarMask: a.Mask, applicationVarLeastMark: a.Least,
	})
	if err != nil {
		return nil, err
	}
	var objects applicationObjects
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return nil, fmt.Errorf("load the program: %w", err)
	}
	return &group{Application: want, at: datapath.Cgroup{Dir: dir}, program: objects.ApplicationMark}, nil
}

// Attach attaches to the control groups that are there and were not before: to be called again and again, as that of a service which is
// restarted is another one. missing are those that there are none of.
func (a *Applications) Attach() (missing []string, err error) {
	var errs []error
	for _, g := range a.groups {
		_, err := g.at.Attach(g.program, ebpf.AttachCGroupInetSockCreate)
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, g.Group)
		} else if err != nil {
			errs = append(errs, fmt.Errorf("attach to the control group %s: %w", g.Group, err))
		}
	}
	return missing, errors.Join(errs...)
}

func (g *group) close() error { return errors.Join(g.at.Detach(), g.program.Close()) }

// Close detaches from all of them.
func (a *Applications) Close() error {
	errs := []error{a.Set(nil)}
	return errors.Join(append(errs, a.hierarchy.Close())...)
}
