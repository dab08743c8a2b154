package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/pflag"

	"baton/cmd/cli"
	"baton/experiments/cdn"
	"baton/experiments/demo"
)

// cdnFlags are those of demo --cdn.
type cdnFlags struct {
	cdn, once, ovs, alone bool
	forwarders            int
	examples              string
}

func (c *cdnFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&c.cdn, "cdn", false, "show a content delivery network, until Ctrl-C")
	f.BoolVar(&c.once, "once", false, "with --cdn: end after the checks")
	f.BoolVar(&c.ovs, "openvswitch", false, "with --cdn: Open vSwitch at the access")
	f.BoolVar(&c.alone, "no-controller", false, "with --cdn: without the controller; the forwarders are learning bridges")
	f.IntVar(&c.forwarders, "forwarders", 3, "with --cdn: `number` of forwarders in line")
	f.StringVar(&c.examples, "examples", "", "with --cdn: `folder` of the configurations (default: examples/cdn, here or above the program)")
}

func (c *cdnFlags) run(ctx context.Context, e cli.Env, program string, json bool) error {
	if c.forwarders < 2 || c.forwarders > 100 {
		return cli.Usagef("--forwarders: %d is out of range (from 2 to 100)", c.forwarders)
	}
	folder, err := c.folder()
	if err != nil {
		return err
	}
	show := func(r *cdn.Report) error {
		if json {
			return cli.PrintJSON(e.Out, r)
		}
		r.Text(e.Out)
		return nil
	}
	o := cdn.DemoOptions{Options: cdn.Options{
		Program: program, Examples: folder, Forwarders: c.forwarders, OpenVSwitch: c.ovs, Controller: !c.alone, Progress: e.Err,
	}}
	if !c.once {
		o.Keep = func(r *cdn.Report, commands []cdn.Command) {
			err = show(r)
			var list []demo.Command
			for _, one := range commands {
				list = append(list, demo.Command(one))
			}
			listCommands(e.Err, list)
			<-ctx.Done()
		}
	}
	r, failed := cdn.Demo(ctx, o)
	if r != nil && c.once {
		err = show(r)
	}
	return errors.Join(failed, err)
}

// folder is that of the configurations.
func (c *cdnFlags) folder() (string, error) {
	if c.examples != "" {
		return filepath.Abs(c.examples)
	}
	return cdn.Examples()
}
