package cdn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"baton/api"
)

// northbound is the controller's, of the example: on the services' node.
const northbound = "127.0.0.1:8080"

// controllerConfig is the example's but for the forwarders, and for files that are the machine's.
func (n *Network) controllerConfig(dir string) (string, error) {
	text, err := n.example("controller.yaml")
	if err != nil {
		return "", err
	}
	head, _, found := strings.Cut(text, "\nswitches:\n")
	if !found {
		return "", fmt.Errorf("controller.yaml of the example lists no switches")
	}
	var b strings.Builder
	b.WriteString(strings.NewReplacer("/run/baton/", dir+"/", "/var/lib/baton/", dir+"/").Replace(head) + "\nswitches:\n")
	for i := 1; i <= n.o.Forwarders; i++ {
		fmt.Fprintf(&b, "  - {id: %d, name: s%d, core: %v}\n", i, i, i > 1)
	}
	return b.String(), nil
}

func (n *Network) startController(ctx context.Context) error {
	dir := filepath.Join(n.lab.Dir(), "cdn")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := n.controllerConfig(dir)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "controller.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	if n.Controller, err = n.run(n.Services, "controller", file); err != nil {
		return err
	}
	if n.northbound != nil { // another one took its place
		return n.discovered(ctx)
	}
	n.northbound = n.Services.HTTPClient(5 * time.Second)
	n.lab.T().Cleanup(n.northbound.CloseIdleConnections)
	if err := ready(ctx, n.Controller, patience, func() error { _, err := n.Topology(ctx); return err }); err != nil {
		return err
	}
	at, err := expose(n.lab, n.Services, northbound)
	if err != nil {
		return err
	}
	n.Page = "http://" + at + n.front(ctx)
	return nil
}

// front is the path of what there is to see in a browser: the page, or the description of the API in a controller without one.
func (n *Network) front(ctx context.Context) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+northbound+"/", nil)
	if err != nil {
		return "/"
	}
	resp, err := n.northbound.Do(req)
	if err != nil {
		return "/"
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return "/v1/docs"
	}
	return "/"
}

// discovered waits until the controller knows all forwarders and the links between them.
func (n *Network) discovered(ctx context.Context) error {
	return ready(ctx, n.Controller, patience, func() error {
		t, err := n.Topology(ctx)
		if err != nil {
			return err
		}
		up := 0
		for _, s := range t.Switches {
			if s.Up {
				up++
			}
		}
		if links := 2 * (n.o.Forwarders - 1); up != n.o.Forwarders || len(t.Links) != links {
			return fmt.Errorf("the controller knows %d of %d forwarders and %d of %d links", up, n.o.Forwarders, len(t.Links), links)
		}
		return nil
	})
}

// Topology is the network as the controller knows it.
func (n *Network) Topology(ctx context.Context) (t api.ControllerTopology, err error) {
	return t, n.ask(ctx, "topology", &t)
}

// errNone says that the controller has no list of what was asked for: the part of it that would make one does not run.
var errNone = errors.New("the controller has no such list")

// ask reads a list of the controller's REST view.
func (n *Network) ask(ctx context.Context, what string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+northbound+"/v1/"+what, nil)
	if err != nil {
		return err
	}
	resp, err := n.northbound.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusServiceUnavailable {
		return errNone
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the controller answers %s to %s", resp.Status, what)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
