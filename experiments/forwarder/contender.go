package forwarder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"baton/lab"
	"baton/lab/peers"
	"baton/openflow"
)

// routing is the kernel's.
func routing() Contender {
	return Contender{Name: "routing", Is: "the kernel routes", Start: func(ctx context.Context, t *Turn) error {
		t.Topology.begin(true)
		return t.Topology.passes(ctx)
	}}
}

// bridge is the kernel's, one for each way.
func bridge() Contender {
	return Contender{Name: "bridge", Is: "two bridges of the kernel", Start: func(ctx context.Context, t *Turn) error {
		h := t.Topology.Switch
		t.Topology.begin(false)
		for i, w := range t.Topology.Ways() {
			b := h.Bridge(fmt.Sprintf("br%d", i+1))
			t.OnEnd(func() error {
				_, err := h.Exec(context.Background(), "ip", "link", "del", b.Name)
				return err
			})
			w.In.Attach(b)
			w.Out.Attach(b)
			if _, err := h.Exec(ctx, "bridge", "fdb", "replace", sinkMAC.String(), "dev", w.Out.Name, "master", "static"); err != nil {
				return err
			}
		}
		return t.Topology.passes(ctx)
	}}
}

// begin prepares the topology for a contender.
func (t *Topology) begin(toSwitch bool) {
	t.Control, t.Process, t.whole = nil, nil, false
	t.addressed(toSwitch)
}

// Baton is the forwarder of this project with the entries that make it up.
func Baton(name, is string, toSwitch bool, entries func(*Turn) []openflow.Message) Contender {
	return Contender{Name: name, Is: is, Start: func(ctx context.Context, t *Turn) error {
		t.Topology.begin(toSwitch)
		if err := t.Topology.startBaton(ctx, t); err != nil {
			return err
		}
		return t.Topology.open(ctx, entries(t))
	}}
}

// startBaton starts `baton forwarder` without an entry, for this turn.
func (t *Topology) startBaton(ctx context.Context, turn *Turn) error {
	const config = `name: %s
datapath_id: 0x1
ports: {1: p1, 2: p2, 3: p3, 4: p4}
controllers: [tcp:%s]
fail_mode: secure
control: %s
`
	// The name is for the whole machine; a process number is nobody else's.
	file := filepath.Join(t.Lab.Dir(), "forwarder.yaml")
	text := fmt.Sprintf(config, fmt.Sprintf("x%d", os.Getpid()), controllerAddress, filepath.Join(t.Lab.Dir(), "forwarder.sock"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("configure the forwarder: %w", err)
	}
	program := turn.Options.Program
	return t.controlled(ctx, turn, func() (*lab.Process, string, error) {
		p, err := t.Switch.Start(lab.Program{Path: program, Args: []string{"forwarder", "run", "-c", file}, Name: "forwarder"})
		if err != nil {
			return nil, "", err
		}
		turn.OnEnd(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			stopped := p.Stop(patience)
			_, err := t.Switch.Exec(ctx, program, "forwarder", "cleanup", "-c", file)
			return errors.Join(stopped, err)
		})
		return p, "", nil
	})
}

// ovs is Open vSwitch with the userspace datapath.
func ovs(name, is string, tso bool, entries func(*Turn) []openflow.Message) Contender {
	return Contender{Name: name, Is: is, Start: func(ctx context.Context, t *Turn) error {
		t.Topology.begin(false)
		t.Topology.whole = !tso
		if err := t.Topology.startOVS(ctx, t, tso); err != nil {
			return err
		}
		return t.Topology.open(ctx, entries(t))
	}}
}

// open gives the switch the entries that make it one.
func (t *Topology) open(ctx context.Context, entries []openflow.Message) error {
	if err := t.Control.Install(ctx, atOnce, entries...); err != nil {
		return err
	}
	return t.passes(ctx)
}

func (t *Topology) startOVS(ctx context.Context, turn *Turn, tso bool) error {
	return t.controlled(ctx, turn, func() (*lab.Process, string, error) {
		s := peers.OpenVSwitch(t.Switch, peers.OpenVSwitchOptions{Ports: []string{"p1", "p2", "p3", "p4"}, DatapathID: 1, FailMode: "secure",
			Controller: "tcp:" + controllerAddress, NoTSO: !tso})
		turn.OnEnd(func() error { return s.Stop(patience) })
		return s.Process, s.Version, nil
	})
}

// controlled starts a switch that connects to its controller, and waits for that.
func (t *Topology) controlled(ctx context.Context, turn *Turn, start func() (*lab.Process, string, error)) error {
	listener, err := t.Switch.Listen("tcp", controllerAddress)
	if err != nil {
		return fmt.Errorf("listen for the switch: %w", err)
	}
	defer listener.Close()
	p, version, err := start()
	if err != nil {
		return err
	}
	turn.Runs(p, version)
	t.Process = p
	if t.Control, err = accept(ctx, listener); err != nil {
		return fmt.Errorf("%w\n%s", err, p.Log())
	}
	turn.OnEnd(t.Control.close)
	return nil
}
