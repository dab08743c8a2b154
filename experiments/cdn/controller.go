package cdn

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"baton/api"
	"baton/lab"
)

// northbound is the controller's, of the example: on the services' node.
const northbound = Management + ":8080"

// writeTokens makes the tokens of the northbound: of the request router, and of those who look at its page.
func (n *Network) writeTokens(context.Context) error {
	dir := filepath.Join(n.lab.Dir(), "cdn")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	n.Token = rand.Text()
	router := rand.Text()
	all := fmt.Sprintf("operator %s demo\nrouter %s rr\n", n.Token, router)
	return errors.Join(os.WriteFile(filepath.Join(dir, "northbound.tokens"), []byte(all), 0o600),
		os.WriteFile(filepath.Join(dir, "router.token"), []byte(router+"\n"), 0o600))
}

// withTokens is a text of the example with the places of the tokens in the lab.
func (n *Network) withTokens(text string) string {
	return strings.ReplaceAll(text, "/etc/baton/", filepath.Join(n.lab.Dir(), "cdn")+"/")
}

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
	head = n.withTokens(head)
	if n.o.Standby {
		head = n.shared(head)
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
	file := n.controllerFile()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	if n.Controller, err = n.run(n.Services, "controller", file); err != nil {
		return err
	}
	n.controller = api.NewClient(filepath.Join(dir, "controller.sock"))
	n.lab.T().Cleanup(n.controller.Close)
	n.northbound, n.asked = n.Services.HTTPClient(5*time.Second), northbound
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

func (n *Network) controllerFile() string {
	return filepath.Join(n.lab.Dir(), "cdn", "controller.yaml")
}

// Reconfigure has the controller reload its configuration after a change. What a reload cannot change is refused.
func (n *Network) Reconfigure(ctx context.Context, edit func(string) string) error {
	if err := n.rewrite(edit); err != nil {
		return err
	}
	_, err := n.controller.Reload(ctx)
	return err
}

// Replace kills the controller as a power cut does, and starts another with a changed configuration. It returns when that knows all forwarders and
// links.
func (n *Network) Replace(ctx context.Context, edit func(string) string) error {
	if err := n.Controller.Kill(); err != nil {
		return err
	}
	if err := n.rewrite(edit); err != nil {
		return err
	}
	var err error
	if n.Controller, err = n.run(n.Services, "controller", n.controllerFile()); err != nil {
		return err
	}
	return n.Discovered(ctx)
}

// rewrite changes the controller's configuration; nil leaves it.
func (n *Network) rewrite(edit func(string) string) error {
	if edit == nil {
		return nil
	}
	text, err := os.ReadFile(n.controllerFile())
	if err != nil {
		return err
	}
	return os.WriteFile(n.controllerFile(), []byte(edit(string(text))), 0o644)
}

// Counts is the controller's state.
func (n *Network) Counts(ctx context.Context) (api.ControllerStatus, error) {
	return n.controller.Controller(ctx)
}

// Joined waits until the controller that is asked has found the request router's idle legs to all surrogates.
func (n *Network) Joined(ctx context.Context) error {
	return lab.Poll(patience, func() error {
		if ctx.Err() != nil {
			return nil // the caller looks
		}
		var all []api.ControllerSurrogate
		if err := n.ask(ctx, "surrogates", &all); err != nil {
			return err
		}
		for _, s := range all {
			if !s.Up || s.Legs == 0 {
				return fmt.Errorf("%s has %d legs, and is up: %v %s", s.Name, s.Legs, s.Up, s.Error)
			}
		}
		return nil
	})
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

// Discovered waits until the controller knows all forwarders and the links between them.
func (n *Network) Discovered(ctx context.Context) error {
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
		links := 2 * (n.o.Forwarders - 1)
		if n.o.Spare {
			links += 2
		}
		if up != n.o.Forwarders || len(t.Links) != links {
			return fmt.Errorf("the controller knows %d of %d forwarders and %d of %d links", up, n.o.Forwarders, len(t.Links), links)
		}
		return nil
	})
}

// Topology is the network as the controller knows it.
func (n *Network) Topology(ctx context.Context) (t api.ControllerTopology, err error) {
	return t, n.ask(ctx, "topology", &t)
}

// ask reads a list of the REST view of the controller that is asked.
func (n *Network) ask(ctx context.Context, what string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.asked+"/v1/"+what, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+n.Token)
	resp, err := n.northbound.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the controller answers %s to %s", resp.Status, what)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
