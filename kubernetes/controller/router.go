package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"sigs.k8s.io/yaml"

	"baton/api"
	"baton/kubernetes/translate"
	"baton/router/config"
)

// Router is the request router of this node, and the folder of its files.
type Router struct {
	Folder  string // absolute
	Control string // path of the router's socket
	Metrics string // host:port of the router's metrics; "" for none
	State   string // the router's key state; "": its default

	applied []byte // router.yaml as the running router has it; nil: not known
}

// ConfigFile is the router's configuration.
func (r *Router) ConfigFile() string { return filepath.Join(r.Folder, "router.yaml") }

// Lists is the folder of the pools' surrogates.
func (r *Router) Lists() string { return filepath.Join(r.Folder, "pools") }

// Prepare makes the folders, and a configuration that serves nothing where there is none: the router starts before this node knows any
// object. One of an earlier run stays, so that its sessions go on.
func (r *Router) Prepare() error {
	if err := os.MkdirAll(r.Lists(), 0o755); err != nil {
		return fmt.Errorf("make the folder of the router's files: %w", err)
	}
	if _, err := os.Stat(r.ConfigFile()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := r.text(&translate.Result{})
	if err != nil {
		return err
	}
	return write(r.ConfigFile(), text)
}

func (r *Router) text(result *translate.Result) ([]byte, error) {
	f := translate.File{Control: r.Control, Metrics: r.Metrics, State: r.State, VIPs: result.VIPs, Pools: result.Pools}
	f.Complete()
	return f.Text()
}

// Apply has the router serve a result: lists of surrogates first, which it reads as they change, then its configuration if that is another
// one. Lists that no pool has are removed at last.
func (r *Router) Apply(ctx context.Context, result *translate.Result) error {
	kept := map[string]bool{}
	for pool, surrogates := range result.Surrogates {
		file := result.Pools[pool].Discover.File
		kept[file] = true
		text, err := yaml.Marshal(surrogates)
		if err != nil {
			return fmt.Errorf("encode surrogates of pool %s: %w", pool, err)
		}
		if err := write(file, text); err != nil {
			return err
		}
	}
	text, err := r.text(result)
	if err != nil {
		return err
	}
	if r.applied == nil || !bytes.Equal(r.applied, text) {
		r.applied = nil
		if err := r.reload(ctx, text); err != nil {
			return err
		}
		r.applied = text
	}
	return r.removeOthers(kept)
}

// reload puts a configuration in force. One that the router refuses does not stay in the file, where it would keep the router from starting;
// its decoder is asked first, as the router may not run.
func (r *Router) reload(ctx context.Context, text []byte) error {
	if _, err := config.Parse(r.ConfigFile(), text); err != nil {
		return fmt.Errorf("the router would refuse its configuration: %w", api.Refused(err))
	}
	before, err := os.ReadFile(r.ConfigFile())
	if err != nil {
		return fmt.Errorf("read the router's configuration: %w", err)
	}
	if err := write(r.ConfigFile(), text); err != nil {
		return err
	}
	c := api.NewClient(r.Control)
	defer c.Close()
	_, err = c.Reload(ctx)
	if errors.Is(err, api.ErrConflict) {
		return errors.Join(fmt.Errorf("the router refuses its configuration: %w", err), write(r.ConfigFile(), before))
	}
	if err != nil {
		return fmt.Errorf("reload the router: %w", err)
	}
	return nil
}

func (r *Router) removeOthers(kept map[string]bool) error {
	entries, err := os.ReadDir(r.Lists())
	if err != nil {
		return fmt.Errorf("list the pools' files: %w", err)
	}
	for _, e := range entries {
		file := filepath.Join(r.Lists(), e.Name())
		if strings.HasSuffix(file, ".yaml") && !kept[file] {
			if err := os.Remove(file); err != nil {
				return fmt.Errorf("remove the file of a pool that is gone: %w", err)
			}
		}
	}
	return nil
}

// write replaces a file, unless it has that content.
func write(file string, text []byte) error {
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := renameio.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
