package cdn

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"baton/api"
	"baton/lab/peers"
)

// startEtcd starts a cluster on the services' node.
func (n *Network) startEtcd(context.Context) error {
	place := peers.EtcdMember{Host: n.Services, Address: Management}
	n.Etcd = peers.Etcd(n.lab, peers.EtcdOptions{}, place, place, place)
	return os.WriteFile(n.secret(), []byte(rand.Text()+rand.Text()+rand.Text()), 0o600)
}

// secret is the file by which both controllers sign their discovery.
func (n *Network) secret() string { return filepath.Join(n.lab.Dir(), "cdn", "discovery.secret") }

var storeLine = regexp.MustCompile(`(?m)^store: .*$`)

// shared is the controller's configuration of the example for one of several controllers.
func (n *Network) shared(text string) string {
	return storeLine.ReplaceAllString(text, fmt.Sprintf("store: {etcd: {endpoints: [%s]}}\ndiscovery: {secret: %s}", `"`+strings.Join(n.Etcd.Endpoints(), `", "`)+`"`, n.secret()))
}

// bothControllers has a configuration name both controllers where it names one.
func (n *Network) bothControllers(text string) string {
	if !n.o.Standby {
		return text
	}
	return strings.NewReplacer(`[tcp:`+Management+`:6653]`, `[tcp:`+Management+`:6653, tcp:`+StandbyAt+`:6653]`,
		`url: "ws://`+Management+`:8080"`, `url: ["ws://`+Management+`:8080", "ws://`+StandbyAt+`:8080"]`).Replace(text)
}

// startStandby starts the second controller, which has the first one's configuration but for its addresses and its name.
func (n *Network) startStandby(ctx context.Context) (err error) {
	dir := filepath.Join(n.lab.Dir(), "cdn", "standby")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := n.controllerConfig(dir)
	if err != nil {
		return err
	}
	// The addresses of etcd stay: they have other ports.
	text = strings.NewReplacer(Management+":6653", StandbyAt+":6653", Management+":8080", StandbyAt+":8080").Replace(text)
	file := filepath.Join(dir, "controller.yaml")
	if err := os.WriteFile(file, []byte("name: standby\n"+text), 0o644); err != nil {
		return err
	}
	if n.Standby, err = n.run(n.second, "controller", file); err != nil {
		return err
	}
	n.standby = api.NewClient(filepath.Join(dir, "controller.sock"))
	n.lab.T().Cleanup(n.standby.Close)
	return ready(ctx, n.Standby, patience, func() error {
		s, err := n.standby.Controller(ctx)
		if err == nil && s.Store.Master {
			err = errors.New("the standby controller is the master")
		}
		return err
	})
}
