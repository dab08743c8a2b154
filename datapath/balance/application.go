package balance

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cilium/ebpf"

	"baton/datapath"
)

// Applications mark new sockets of some control groups. Nothing is pinned: the programs go with the process. Marks stay on sockets.
//
// All act on the network namespace in which Set is called. One goroutine at a time may call the methods.
type Applications struct {
	Mask      uint32 // bits of a socket's mark that are ours
	Least     uint32 // mark of all applications
	groups    []*group
	hierarchy datapath.Hierarchy
}

// Application is a control group (version 2) by its path in the hierarchy, as in /proc/PID/cgroup, and the mark of its sockets and those
// of its descendants. Of nested groups the one with the least mark wins.
type Application struct {
	Group string
	Mark  uint32
}

type group struct {
	Application
	at      datapath.Cgroup
	program *ebpf.Program
}

// Needs is what marking the sockets of applications needs of a host.
var Needs = []datapath.Need{
	{Feature: datapath.CapBPF, For: "load programs"},
	{Feature: datapath.CapNetAdmin, For: "attach programs to control groups"},
	{Feature: datapath.BPF, For: "load programs"},
	{Feature: datapath.SockCreate, For: "mark the sockets of control groups"},
	{Feature: datapath.Cgroup2, For: "find the control groups"},
	{Feature: datapath.ProgramsOf("balance", loadApplication)},
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
		if err := datapath.Require("balance", Needs); err != nil {
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
	if err := datapath.LoadObjects(spec, &objects, nil); err != nil {
		return nil, err
	}
	return &group{Application: want, at: datapath.Cgroup{Dir: dir}, program: objects.ApplicationMark}, nil
}

// Attach attaches to control groups that did not exist before. Call it repeatedly: a restarted service has another group. missing are
// the groups that do not exist.
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

// Close detaches from all groups.
func (a *Applications) Close() error {
	errs := []error{a.Set(nil)}
	return errors.Join(append(errs, a.hierarchy.Close())...)
}
