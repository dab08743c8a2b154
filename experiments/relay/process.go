package relay

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"baton/experiments"
	"baton/lab"
)

// Start starts `baton relay` on a host, for this turn.
func Start[T any](t *experiments.Turn[T], h *lab.Host, config string) (*lab.Process, error) {
	file := filepath.Join(t.Lab.Dir(), h.Name()+".yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("configure the relay: %w", err)
	}
	p, err := h.Start(lab.Program{Path: t.Options.Program, Args: []string{"relay", "run", "-c", file}, Name: "relay"})
	if err != nil {
		return nil, err
	}
	t.OnEnd(func() error { return p.Stop(stopTime) })
	t.Runs(p, "")
	return p, nil
}

const (
	stopTime  = 10 * time.Second
	readiness = 20 * time.Second
)

// Await returns when a client is answered by the site's server through a relay, or with the words of the relays when one of them has
// ended, or none answers.
func Await(client *lab.Host, front netip.AddrPort, relays ...*lab.Process) error {
	browser := client.HTTPClient(5 * time.Second)
	defer browser.CloseIdleConnections()
	var ended error
	err := lab.Poll(readiness, func() error {
		for _, p := range relays {
			select {
			case <-p.Done():
				ended = errors.New("it has ended")
				return nil
			default:
			}
		}
		response, err := browser.Get(fmt.Sprintf("http://%s/healthz", front))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return err
	})
	if err = errors.Join(err, ended); err == nil {
		return nil
	}
	text := ""
	for _, p := range relays {
		text += fmt.Sprintf("\n--- %s on %s\n%s", p.Name(), p.Host().Name(), p.Log())
	}
	return fmt.Errorf("relay: %w%s", err, text)
}

// writeSecret writes what relays know each other by.
func writeSecret(file string) error {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	if err := os.WriteFile(file, []byte(hex.EncodeToString(b)), 0o600); err != nil {
		return fmt.Errorf("write the relays' secret: %w", err)
	}
	return nil
}
