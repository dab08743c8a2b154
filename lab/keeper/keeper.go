// Package keeper keeps the network of a topology up as long as its process lives, and lets other processes find it, look at
// it, change it and take it down.
//
// A lab belongs to a living process; this is one that does nothing else. Beside what a lab leaves in its folder there is a
// record of it (for those who enter its hosts) and a control socket (for those who ask or change), both for root alone. Its
// name is held by an abstract socket, which the kernel releases with the process, however that ends.
package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"baton/lab"
	"baton/lab/topology"

	"github.com/google/renameio/v2"
)

// Options say where a keeper reports to.
type Options struct {
	Log   io.Writer          // progress, and what goes wrong
	Begun func(dir string)   // the keeper's folder is there; may be nil
	Ready func(Record) error // the network is up; an error takes it down again
}

// State of a lab.
type State string

const (
	Building State = "building"
	Up       State = "up"
)

// Record is what a keeper writes down of its lab.
type Record struct {
	Name    string          `json:"name"`
	State   State           `json:"state"`
	PID     int             `json:"pid"` // of the keeper
	Started time.Time       `json:"started"`
	File    string          `json:"file"` // of the topology
	Dir     string          `json:"dir"`  // of the keeper: record, control socket, log
	Hosts   map[string]Host `json:"hosts,omitempty"`
	Links   int             `json:"links"`
}

// Host is how another process comes to a host, bridge or switch, and to what runs there.
type Host struct {
	Namespaces lab.Namespaces `json:"namespaces"`
	Processes  []Process      `json:"processes,omitempty"`
	Env        []string       `json:"env,omitempty"` // with which the tools of a switch find it
}

// Process is a process of the topology, or of a switch.
type Process struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	Log  string `json:"log"` // path of the file
}

// Names within a keeper's folder, and of that folder in the lab's.
const (
	folder     = "keeper"
	recordFile = "lab.json"
	socketFile = "control.sock"
	logFile    = "log"
)

// InUseError is that of a second lab of one name.
type InUseError struct{ Name string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("a lab %s is up: baton-lab lab down %s takes it down, --name gives this one another name", e.Name, e.Name)
}

// Keep builds the topology, keeps it up until the context ends, and takes it down. It returns the context's error when that
// ends before the network is up.
func Keep(ctx context.Context, t *topology.Topology, file string, o Options) error {
	name, err := net.Listen("unix", "@baton-lab/"+t.Name)
	if errors.Is(err, syscall.EADDRINUSE) {
		return &InUseError{t.Name}
	}
	if err != nil {
		return fmt.Errorf("hold the lab's name: %w", err)
	}
	defer name.Close()
	return lab.Run(o.Log, func(l *lab.Lab) error {
		l.AdmitForeign()
		k := &keeper{
			lab: l, topology: t, down: make(map[string]bool),
			record: Record{
				Name: t.Name, State: Building, PID: os.Getpid(), Started: time.Now(), File: file,
				Dir: filepath.Join(l.Dir(), folder), Links: len(t.Links),
			},
		}
		return k.keep(ctx, o)
	})
}

func (k *keeper) keep(ctx context.Context, o Options) error {
	if err := os.Mkdir(k.record.Dir, 0o700); err != nil {
		return fmt.Errorf("make the keeper's folder: %w", err)
	}
	if o.Begun != nil {
		o.Begun(k.record.Dir)
	}
	if err := k.record.write(); err != nil {
		return err
	}
	var err error
	if k.network, err = topology.Build(ctx, k.lab, k.topology); err != nil {
		return err
	}
	stop, err := k.serve()
	if err != nil {
		return err
	}
	defer stop()
	k.record.State, k.record.Hosts = Up, make(map[string]Host)
	for name, h := range k.network.Hosts {
		host := Host{Namespaces: h.Namespaces()}
		for _, process := range slices.Sorted(maps.Keys(k.network.Processes[name])) {
			p := k.network.Processes[name][process]
			host.Processes = append(host.Processes, Process{process, p.Pid(), p.LogFile()})
		}
		if s := k.network.Switches[name]; s != nil {
			host.Env = []string{"OVS_RUNDIR=" + s.Dir}
		}
		k.record.Hosts[name] = host
	}
	if err := k.record.write(); err != nil {
		return err
	}
	if err := o.Ready(k.record); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// write replaces the record as a whole.
func (r Record) write() error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the lab's record: %w", err)
	}
	path := filepath.Join(r.Dir, recordFile)
	if err := renameio.WriteFile(path, b, 0o600, renameio.WithTempDir(r.Dir)); err != nil {
		return fmt.Errorf("write the lab's record: %w", err)
	}
	return nil
}

// Running lists the labs that living keepers have, by name.
func Running() []Record {
	var found []Record
	for _, f := range lab.Folders() {
		if !f.Alive {
			continue
		}
		b, err := os.ReadFile(filepath.Join(f.Path, folder, recordFile))
		if err != nil {
			continue // the lab of a test or an experiment, or one that goes at this moment
		}
		var r Record
		if json.Unmarshal(b, &r) == nil && r.PID == f.Owner {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b Record) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// NotRunningError is that of a name that no lab has, or of none where one is needed.
type NotRunningError struct {
	Name    string   // "" when any lab would do
	Running []string // names of those that there are
}

func (e *NotRunningError) Error() string {
	switch {
	case e.Name != "" && len(e.Running) > 0:
		return fmt.Sprintf("no lab %s is up; there are %v", e.Name, e.Running)
	case e.Name != "":
		return fmt.Sprintf("no lab %s is up: baton-lab lab up FILE starts one", e.Name)
	case len(e.Running) > 0:
		return fmt.Sprintf("several labs are up, %v: choose one with --lab", e.Running)
	}
	return "no lab is up: baton-lab lab up FILE starts one"
}

// Find gives the lab of that name, or without a name the only one. The error is a *NotRunningError.
func Find(name string) (Record, error) {
	running := Running()
	names := make([]string, len(running))
	for i, r := range running {
		names[i] = r.Name
		if r.Name == name || name == "" && len(running) == 1 {
			return r, nil
		}
	}
	return Record{}, &NotRunningError{name, names}
}
