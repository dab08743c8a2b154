package part

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/document"
)

// Command is a part's command with all its verbs.
func (p *Part) Command(e cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use: p.Name, Short: p.Short, Long: p.Long,
		Example: fmt.Sprintf("  %[2]s %[1]s run -c %[1]s.yaml\n  %[2]s %[1]s check -c %[1]s.yaml\n  %[2]s %[1]s status", p.Name, p.program()),
		Annotations: map[string]string{cli.Elsewhere: fmt.Sprintf("start=systemctl start baton-%[1]s,stop=systemctl stop baton-%[1]s,"+
			"restart=systemctl restart baton-%[1]s,logs=journalctl -u baton-%[1]s", p.Name)},
	}
	c.AddCommand(p.runCommand(e), p.checkCommand(e), p.statusCommand(e), p.reloadCommand(e), p.cleanupCommand(e), p.schemaCommand(e))
	for _, more := range p.More {
		c.AddCommand(more(p, e))
	}
	return c
}

func (p *Part) schemaCommand(e cli.Env) *cobra.Command {
	return Schema(e, p.program(), p.Name, p.Schema)
}

// Schema makes the command that prints what an editor needs to check and complete a configuration while it is written.
func Schema(e cli.Env, program, name string, schema func() document.Schema) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration, for editors",
		Long: fmt.Sprintf(`Print the JSON Schema of %[1]s.yaml. Editors with a YAML language server check and complete the file by it if its first line names the schema:
# yaml-language-server: $schema=/etc/baton/%[1]s.schema.json
The schema knows the keys and the forms of their values. %[2]s %[1]s check finds more.`, name, program),
		Example: fmt.Sprintf("  %[2]s %[1]s schema > /etc/baton/%[1]s.schema.json", name, program),
		RunE: func(*cobra.Command, []string) error {
			out := json.NewEncoder(e.Out)
			out.SetEscapeHTML(false)
			out.SetIndent("", "  ")
			return out.Encode(schema())
		},
	}
}

// configFlag adds -c, --config.
func (p *Part) configFlag(c *cobra.Command, file *string) {
	c.Flags().StringVarP(file, "config", "c", p.File(), "configuration `file`")
	_ = c.MarkFlagFilename("config", "yaml", "yml")
}

// there refuses a missing default configuration file, and says how to name another one.
func (p *Part) there(verb, file string) error {
	if file == p.File() && !Exists(file) {
		return cli.Usagef("there is no %s: write it, or name another file: %[4]s %[2]s %[3]s -c %[2]s.yaml", file, p.Name, verb, p.program())
	}
	return nil
}

// checked reads and checks a configuration. Mistakes are usage errors.
func (p *Part) checked(verb, file string) (Checked, error) {
	if err := p.there(verb, file); err != nil {
		return Checked{}, err
	}
	have, err := p.Check(file)
	if err != nil {
		return Checked{}, cli.UsageError{Err: err}
	}
	have.Config = file
	return have, nil
}

func (p *Part) runCommand(e cli.Env) *cobra.Command {
	var (
		file string
		log  cli.Log
	)
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the " + p.Noun + " until SIGTERM or Ctrl-C",
		Long:  "Run the " + p.Noun + " until SIGTERM or Ctrl-C.\n\n" + p.Runs,
		Example: fmt.Sprintf(`  %[2]s %[1]s run
  %[2]s %[1]s run -c %[1]s.yaml --log-level debug
  %[2]s %[1]s run --log-format json`, p.Name, p.program()),
		RunE: func(cmd *cobra.Command, _ []string) error {
			have, err := p.checked("run", file)
			if err != nil {
				return log.Failed(log.Logger(e.Err), err)
			}
			d := Daemon{File: file, Log: log.Logger(e.Err), Err: e.Err}
			slog.SetDefault(d.Log) // that of libraries without one of their own, such as net/http
			for _, w := range have.Warnings {
				d.Log.Warn(w)
			}
			return log.Failed(d.Log, mended(p.Run(cmd.Context(), d)))
		},
	}
	p.configFlag(c, &file)
	log.Flags(c)
	return c
}

// mended makes an error about a configuration a usage error: some mistakes are found only when a configuration is applied to the host.
func mended(err error) error {
	var wrong *document.Error
	if errors.As(err, &wrong) {
		return cli.UsageError{Err: err}
	}
	return err
}

func (p *Part) checkCommand(e cli.Env) *cobra.Command {
	var (
		file    string
		connect bool
		format  cli.Format
	)
	c := &cobra.Command{
		Use: "check", SuggestFor: []string{"validate", "verify", "test", "lint"},
		Short: "Check a configuration file for mistakes",
		Long: `Check a configuration file as run and reload do, and change nothing. Each mistake is printed with its line and column; the exit
status is then 2. Warnings leave it at 0.`,
		Example: fmt.Sprintf("  %[2]s %[1]s check -c %[1]s.yaml\n  %[2]s %[1]s check -o json", p.Name, p.program()),
		RunE: func(cmd *cobra.Command, _ []string) error {
			have, err := p.checked("check", file)
			if err == nil {
				err = p.fitsHost(file, &have)
			}
			if err == nil && p.Fits != nil {
				err = p.Fits(file, &have)
			}
			if err == nil && connect {
				err = p.Connects(cmd.Context(), file, &have)
			}
			if err != nil {
				return mended(err)
			}
			cli.Warn(e.Err, have.Warnings)
			return format.Print(e.Out, have, func(out io.Writer, _ bool) error {
				for _, note := range have.Notes {
					fmt.Fprintln(out, note)
				}
				_, err := fmt.Fprintf(out, "%s: configuration OK: %s\n", file, have.Has)
				return err
			})
		},
	}
	p.configFlag(c, &file)
	format.Flag(c)
	if p.Connects != nil {
		c.Example += fmt.Sprintf("\n  %[2]s %[1]s check --connect -c %[1]s.yaml", p.Name, p.program())
		c.Flags().BoolVar(&connect, "connect", false, "also connect to the servers from here, and warn of what does not fit")
	}
	return c
}

// fitsHost warns of what keeps the part from starting on this host.
func (p *Part) fitsHost(file string, have *Checked) error {
	if p.Lacks == nil {
		return nil
	}
	lacks, err := p.Lacks(file)
	have.Warnings = append(have.Warnings, lacks...)
	return err
}

func (p *Part) statusCommand(e cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use: "status", SuggestFor: []string{"show", "state", "info"},
		Short: "Show " + p.Shows,
		Example: fmt.Sprintf("  %[2]s %[1]s status\n  %[2]s %[1]s status -o wide -w\n  %[2]s %[1]s status -o json | jq .version", p.Name, p.program()) +
			p.Examples,
	}
	return p.Show(e, c, func(ctx context.Context, client *api.Client, format *cli.Format) error {
		s, err := p.Status(ctx, client)
		if err != nil {
			return err
		}
		return format.Print(e.Out, s.Data, s.Table)
	})
}

// Show makes a command that queries a running daemon and prints the answer, repeatedly with -w.
func (p *Part) Show(e cli.Env, c *cobra.Command, show func(context.Context, *api.Client, *cli.Format) error) *cobra.Command {
	var watch cli.Watch
	p.Ask(c, func(ctx context.Context, client *api.Client, format *cli.Format, _ []string) error {
		return watch.Run(ctx, e.Out, func(ctx context.Context) error { return show(ctx, client, format) })
	})
	watch.Flag(c)
	return c
}

// Ask makes a command that queries a running daemon.
func (p *Part) Ask(c *cobra.Command, ask func(ctx context.Context, client *api.Client, format *cli.Format, args []string) error) *cobra.Command {
	var (
		at     = Asked{Part: p}
		format cli.Format
	)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := at.Choose(cmd); err != nil {
			return err
		}
		return at.Ask(cmd.Context(), func(ctx context.Context, client *api.Client) error { return ask(ctx, client, &format, args) })
	}
	at.Flags(c)
	format.Flag(c)
	return c
}

func (p *Part) reloadCommand(e cli.Env) *cobra.Command {
	return p.Ask(&cobra.Command{
		Use:   "reload",
		Short: "Reload the configuration of the running " + p.Noun,
		Long: `Reload the configuration of the running ` + p.Noun + `, as SIGHUP does, and print the changes. If the new configuration is refused, nothing
changes and the exit status is 2. ` + p.Reloads,
		Example: fmt.Sprintf("  %[2]s %[1]s reload\n  %[2]s %[1]s reload -c %[1]s.yaml -o json", p.Name, p.program()),
	}, func(ctx context.Context, client *api.Client, format *cli.Format, _ []string) error {
		result, err := client.Reload(ctx)
		if errors.Is(err, api.ErrConflict) || errors.Is(err, api.ErrInvalid) {
			return cli.Usagef("the new configuration was refused, the old one stays in force: %s", reason(err))
		}
		if err != nil {
			return err
		}
		return format.Print(e.Out, result, func(out io.Writer, _ bool) error {
			_, err := fmt.Fprintf(out, "%s is in force\n%s", result.Config, cli.Lines(result.Changed))
			return err
		})
	})
}

func (p *Part) cleanupCommand(e cli.Env) *cobra.Command {
	var (
		file   string
		format cli.Format
	)
	c := &cobra.Command{
		Use: "cleanup", SuggestFor: []string{"restore", "remove", "unload", "reset"},
		Short: "Remove the kernel state of a " + p.Noun + " that no longer runs",
		Long: "Remove the kernel state of a " + p.Noun + " that no longer runs, and its stale control socket. " + p.Cleans +
			"\nThe command is refused while the " + p.Noun + " runs, and does nothing if nothing is left.",
		Example: fmt.Sprintf("  %[2]s %[1]s cleanup\n  %[2]s %[1]s cleanup -c %[1]s.yaml", p.Name, p.program()),
		RunE: func(*cobra.Command, []string) error {
			removed, err := p.clean(file)
			if err != nil && len(removed) == 0 {
				return err
			}
			data := struct {
				Removed []string `json:"removed"`
			}{append([]string{}, removed...)}
			return errors.Join(err, format.Print(e.Out, data, func(out io.Writer, _ bool) error {
				if len(removed) == 0 {
					_, err := fmt.Fprintf(out, "nothing is left of the %s of %s\n", p.Noun, file)
					return err
				}
				for _, what := range removed {
					fmt.Fprintln(out, "removed", what)
				}
				return nil
			}))
		},
	}
	p.configFlag(c, &file)
	format.Flag(c)
	return c
}

// clean removes the state that the daemon of a configuration has left.
func (p *Part) clean(file string) ([]string, error) {
	if err := p.there("cleanup", file); err != nil {
		return nil, err
	}
	socket, err := p.SocketOf(file)
	if err != nil {
		return nil, err
	}
	if listens(socket) {
		return nil, fmt.Errorf("the %s of %s runs: stop it first: systemctl stop baton-%s", p.Noun, file, p.Name)
	}
	removed, err := p.Cleanup(file)
	if err != nil {
		return removed, err
	}
	if err := os.Remove(socket); err == nil {
		removed = append(removed, "control socket "+socket)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return removed, err
	}
	return removed, nil
}
