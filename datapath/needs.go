package datapath

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Kind is what sort of thing a Feature is.
type Kind string

// The kinds of features.
const (
	KernelVersion Kind = "kernel"
	Capability    Kind = "capability"
	KernelFeature Kind = "feature"
	Programs      Kind = "programs" // of ours, which the kernel's verifier may refuse
	FileSystem    Kind = "file system"
	Device        Kind = "device"
)

// Feature is something that a host may lack. It is found out by trying.
type Feature struct {
	Name string
	Kind Kind
	// Try returns why it is not there. An error that wraps EPERM says that the user may not find out.
	Try    func() error
	Remedy func() string // what the operator of the host can do
}

// Need is a Feature that a part uses.
type Need struct {
	Feature *Feature
	For     string // "attach programs to interfaces"
	Without string // what the part does without it; "": it does not start
}

// Optional makes needs of which the part does without any.
func Optional(needs []Need, without string) []Need {
	out := slices.Clone(needs)
	for i := range out {
		out[i].Without = without
	}
	return out
}

// State is what a trial has found.
type State string

// The states of a feature.
const (
	Present State = "yes"
	Absent  State = "no"
	Unknown State = "unknown" // it could not be tried
)

// Finding is the result of a trial for a Need.
type Finding struct {
	Need
	State State
	Err   error // why it is not present
}

// Prevents tells whether a part cannot start for it.
func (f Finding) Prevents() bool { return f.State == Absent && f.Without == "" }

// Trials remembers what was tried, by name. The zero value is ready.
type Trials struct{ found map[string]Finding }

// Examine tries what a part needs. Programs are not tried where something is missing that they are needed for, too: they would be refused for that.
func (t *Trials) Examine(needs []Need) []Finding {
	if t.found == nil {
		t.found = make(map[string]Finding)
	}
	out := make([]Finding, 0, len(needs))
	for _, n := range needs {
		f, tried := t.found[n.Feature.Name]
		if !tried {
			if n.Feature.Kind == Programs && slices.ContainsFunc(out, n.dependsOn) {
				f.Err = errUnknown
			} else {
				f.Err = n.Feature.Try()
			}
			f.State = stateOf(f.Err)
			t.found[n.Feature.Name] = f
		}
		f.Need = n
		out = append(out, f)
	}
	return out
}

// dependsOn tells whether it is for another lack that programs would be refused.
func (n Need) dependsOn(f Finding) bool {
	return f.State != Present && (f.Feature.Kind == KernelVersion || f.Without == n.Without)
}

// errUnknown is of a trial that depends on something else that is not there.
var errUnknown = errors.New("unknown")

func stateOf(err error) State {
	switch {
	case err == nil:
		return Present
	case errors.Is(err, unix.EPERM), errors.Is(err, errUnknown):
		return Unknown
	}
	return Absent
}

// Lack is why a part cannot start on this host. Its text is one line.
type Lack struct {
	Part string
	Finding
}

func (l Lack) Error() string {
	remedy := l.Feature.Remedy()
	switch l.Feature.Kind {
	case KernelVersion:
		return fmt.Sprintf("this is Linux %s, and the %s needs %s or newer: %s", Release(), l.Part, MinimumKernel, remedy)
	case Programs:
		return l.Err.Error()
	}
	return fmt.Sprintf("this host lacks %s, which the %s needs to %s: %v: %s", l.Feature.Name, l.Part, l.For, l.Err, remedy)
}

// Unwrap returns what the trial has returned.
func (l Lack) Unwrap() error { return l.Err }

// Lacks are the reasons for which a part cannot start, one error a line. What only follows from another is left out: a kernel that is too old
// explains all, and without capabilities not everything can be tried. All missing capabilities are one line.
func Lacks(part string, findings []Finding) (lacks []error) {
	var names []string
	var remedy string
	for _, f := range findings {
		switch {
		case !f.Prevents():
		case f.Feature.Kind == KernelVersion:
			return []error{Lack{part, f}}
		case f.Feature.Kind == Capability:
			names, remedy = append(names, fmt.Sprintf("%s (to %s)", f.Feature.Name, f.For)), f.Feature.Remedy()
		default:
			lacks = append(lacks, Lack{part, f})
		}
	}
	if len(names) > 0 {
		lacks = slices.Insert(lacks, 0, error(fmt.Errorf("missing capability: %s: %s", strings.Join(names, ", "), remedy)))
	}
	return lacks
}

// Require refuses a host on which a part cannot start, by all that it lacks. Programs are not tried: they are loaded next.
func Require(part string, needs []Need) error {
	needs = slices.DeleteFunc(slices.Clone(needs), func(n Need) bool { return n.Feature.Kind == Programs || n.Without != "" })
	return errors.Join(Lacks(part, new(Trials).Examine(needs))...)
}
