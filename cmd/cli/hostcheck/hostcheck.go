// Package hostcheck tells what a host can do: the command check-host, and what keeps a part from starting here.
package hostcheck

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"baton/cmd/cli"
	"baton/datapath"
)

// Tool is what check-host knows of a part, or of a command that is none.
type Tool struct {
	Name  string
	Needs []datapath.Need
}

// HostCheck is what this host is able to do.
type HostCheck struct {
	Kernel   string             `json:"kernel"`
	Minimum  string             `json:"minimum"`
	Machine  string             `json:"machine"`
	Features []HostFeature      `json:"features"`
	Settings []datapath.Setting `json:"settings"`
	Parts    []HostPart         `json:"parts"`
}

// HostFeature is something that parts use.
type HostFeature struct {
	Name   string         `json:"name"`
	Kind   datapath.Kind  `json:"kind"`
	State  datapath.State `json:"state"`
	Parts  []string       `json:"parts"`
	Reason string         `json:"reason,omitempty"`
	Remedy string         `json:"remedy,omitempty"`
}

// The verdicts on a part.
const (
	works    = "works"
	degraded = "degraded"
	refused  = "refused"
)

// HostPart is what a part can do here.
type HostPart struct {
	Name    string     `json:"name"`
	Verdict string     `json:"verdict"`           // works, degraded, refused
	Without []HostLoss `json:"without,omitempty"` // what it does without
	Lacks   []string   `json:"lacks,omitempty"`   // features without which it does not start
	Refusal []string   `json:"refusal,omitempty"` // what it says at its start
}

// HostLoss is what the lack of features costs.
type HostLoss struct {
	Features []string `json:"features"`
	Effect   string   `json:"effect"`
}

// examineHost tries what each part needs.
func examineHost(all []Tool) HostCheck {
	h := HostCheck{
		Kernel: datapath.Release(), Minimum: datapath.MinimumKernel, Machine: runtime.GOARCH,
		Features: []HostFeature{}, Settings: datapath.Settings(), Parts: []HostPart{},
	}
	var trials datapath.Trials
	for _, t := range all {
		findings := trials.Examine(t.Needs)
		h.Parts = append(h.Parts, hostPart(t.Name, findings))
		for _, f := range findings {
			h.add(t.Name, f)
		}
	}
	slices.SortStableFunc(h.Features, func(a, b HostFeature) int { return order(a.Kind) - order(b.Kind) })
	return h
}

// order is that of the table's lines.
func order(k datapath.Kind) int {
	return slices.Index([]datapath.Kind{
		datapath.KernelVersion, datapath.KernelFeature, datapath.FileSystem, datapath.Device, datapath.Capability, datapath.Programs,
	}, k)
}

// add notes that a part uses a feature.
func (h *HostCheck) add(part string, f datapath.Finding) {
	at := slices.IndexFunc(h.Features, func(have HostFeature) bool { return have.Name == f.Feature.Name })
	if at < 0 {
		at = len(h.Features)
		one := HostFeature{Name: f.Feature.Name, Kind: f.Feature.Kind, State: f.State, Parts: []string{}}
		if f.Err != nil {
			one.Reason, one.Remedy = f.Err.Error(), f.Feature.Remedy()
		}
		h.Features = append(h.Features, one)
	}
	if !slices.Contains(h.Features[at].Parts, part) {
		h.Features[at].Parts = append(h.Features[at].Parts, part)
	}
}

func hostPart(name string, findings []datapath.Finding) HostPart {
	p := HostPart{Name: name, Verdict: works}
	for _, f := range findings {
		switch {
		case f.Prevents():
			p.Lacks = append(p.Lacks, f.Feature.Name)
		case f.State == datapath.Absent:
			p.lose(f)
		}
	}
	for _, err := range datapath.Lacks(name, findings) {
		p.Refusal = append(p.Refusal, err.Error())
	}
	switch {
	case len(p.Lacks) > 0:
		p.Verdict = refused
	case len(p.Without) > 0:
		p.Verdict = degraded
	}
	return p
}

func (p *HostPart) lose(f datapath.Finding) {
	at := slices.IndexFunc(p.Without, func(l HostLoss) bool { return l.Effect == f.Without })
	if at < 0 {
		at = len(p.Without)
		p.Without = append(p.Without, HostLoss{Effect: f.Without})
	}
	p.Without[at].Features = append(p.Without[at].Features, f.Feature.Name)
}

// said is the part's line of the table.
func (p *HostPart) said() string {
	if len(p.Lacks) > 0 {
		return "lacks " + strings.Join(p.Lacks, ", ")
	}
	var losses []string
	for _, l := range p.Without {
		losses = append(losses, fmt.Sprintf("%s (without %s)", l.Effect, strings.Join(l.Features, ", ")))
	}
	return strings.Join(losses, "; ")
}

// Command makes the command that tells what this host can do.
func Command(e cli.Env, program string, all func() []Tool) *cobra.Command {
	var (
		format cli.Format
		kernel bool
	)
	c := &cobra.Command{
		Use: "check-host [PART]...", SuggestFor: []string{"doctor", "preflight", "features", "selftest"},
		Short: "Show what each part can do on this host, and what the host lacks",
		Long: `Show the kernel, the features, file systems, devices and capabilities that the parts use, and what each part can do here: works; degraded, and
without what; refused, why, and what helps. Each feature is tried, and nothing is changed. Programs are loaded and removed again.

The exit status is 1 if a part that is named cannot start here, and with --kernel if the kernel is too old.`,
		Example: strings.ReplaceAll("  baton check-host\n  baton check-host router relay\n  baton check-host -o json | jq '.parts[] | {name, verdict}'", "baton", program),
		RunE: func(_ *cobra.Command, named []string) error {
			if kernel {
				return checkKernel()
			}
			tools, err := chosenTools(all(), named)
			if err != nil {
				return err
			}
			h := examineHost(tools)
			err = format.Print(e.Out, h, func(out io.Writer, wide bool) error { return printHost(out, &h, wide) })
			return errors.Join(err, h.refusal(named))
		},
	}
	c.ValidArgsFunction = func(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		return slices.DeleteFunc(namesOf(all()), func(name string) bool { return slices.Contains(given, name) }), cobra.ShellCompDirectiveNoFileComp
	}
	format.Flag(c)
	c.Flags().BoolVar(&kernel, "kernel", false, "only compare the kernel's version, and say nothing if it is new enough")
	return c
}

// Lacking says what keeps a part from starting on this host, a line each. The file that its needs come from may be for another host, and who
// asks may have fewer rights than the daemon.
func Lacking(part string, needs []datapath.Need) (lines []string) {
	needs = slices.DeleteFunc(slices.Clone(needs), func(n datapath.Need) bool {
		return n.Without != "" || n.Feature.Kind == datapath.Capability || n.Feature.Kind == datapath.Programs
	})
	for _, lack := range datapath.Lacks(part, new(datapath.Trials).Examine(needs)) {
		lines = append(lines, lack.Error())
	}
	return lines
}

func checkKernel() error {
	return errors.Join(datapath.Lacks("data path", new(datapath.Trials).Examine([]datapath.Need{{Feature: datapath.Kernel}}))...)
}

func namesOf(all []Tool) (names []string) {
	for _, t := range all {
		names = append(names, t.Name)
	}
	return names
}

// chosenTools are those that are named, or all.
func chosenTools(all []Tool, named []string) ([]Tool, error) {
	if len(named) == 0 {
		return all, nil
	}
	var out []Tool
	for _, name := range named {
		at := slices.IndexFunc(all, func(t Tool) bool { return t.Name == name })
		if at < 0 {
			return nil, cli.Usagef("%q is not a part: one of %s", name, strings.Join(namesOf(all), ", "))
		}
		out = append(out, all[at])
	}
	return out, nil
}

// refusal is the error if one of the named parts cannot start.
func (h *HostCheck) refusal(named []string) error {
	var no []string
	for _, p := range h.Parts {
		if p.Verdict == refused && slices.Contains(named, p.Name) {
			no = append(no, p.Name)
		}
	}
	if len(no) == 0 {
		return nil
	}
	return fmt.Errorf("this host cannot run: %s", strings.Join(no, ", "))
}

// printHost prints the tables; wide, also why settings matter, and which parts use a feature.
func printHost(out io.Writer, h *HostCheck, wide bool) error {
	fmt.Fprintf(out, "Linux %s on %s; Baton needs %s or newer\n", h.Kernel, h.Machine, h.Minimum)
	features, settings, parts := [][]string{{"FEATURE", "KIND", "HERE"}}, [][]string{{"SETTING", "HERE"}}, [][]string{{"PART", "HERE", ""}}
	if wide {
		features[0], settings[0] = append(features[0], "USED BY"), append(settings[0], "ABOUT")
	}
	for _, f := range h.Features {
		row := []string{f.Name, string(f.Kind), string(f.State)}
		if wide {
			row = append(row, strings.Join(f.Parts, ", "))
		}
		features = append(features, row)
	}
	for _, s := range h.Settings {
		row := []string{s.Name, cli.Dash(s.Value)}
		if wide {
			row = append(row, s.About)
		}
		settings = append(settings, row)
	}
	for _, p := range h.Parts {
		parts = append(parts, []string{p.Name, p.Verdict, p.said()})
	}
	for _, rows := range [][][]string{features, settings, parts} {
		if err := printTable(out, rows); err != nil {
			return err
		}
	}
	h.printReasons(out)
	return nil
}

func printTable(out io.Writer, rows [][]string) error {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return w.Flush()
}

// printReasons prints a line for each feature that is not there, and one for all that could not be tried.
func (h *HostCheck) printReasons(out io.Writer) {
	var reasons, unknown, rights []string
	remedy := ""
	old := slices.ContainsFunc(h.Features, func(f HostFeature) bool { return f.Kind == datapath.KernelVersion && f.State == datapath.Absent })
	for _, f := range h.Features {
		switch {
		case f.State == datapath.Unknown:
			unknown = append(unknown, f.Name)
		case f.State == datapath.Absent && f.Kind == datapath.Capability:
			rights, remedy = append(rights, f.Name), f.Remedy
		case f.State == datapath.Absent && f.Kind == datapath.KernelFeature && old: // a newer kernel has it
		case f.State == datapath.Absent:
			reasons = append(reasons, strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", f.Name, f.Reason, f.Remedy), ": "))
		}
	}
	if len(rights) > 0 {
		reasons = append(reasons, fmt.Sprintf("%s: %s", strings.Join(rights, ", "), remedy))
	}
	if len(unknown) > 0 {
		reasons = append(reasons, "could not be tried, for lack of rights or of something above: "+strings.Join(unknown, ", "))
	}
	if len(reasons) > 0 {
		fmt.Fprint(out, "\n", cli.Lines(reasons))
	}
}
