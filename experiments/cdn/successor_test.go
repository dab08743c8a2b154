package cdn

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"baton/api"
	"baton/experiments/experimentstest"
	"baton/lab"
)

// A session that a controller has handed over outlives it; the next controller knows the session, and brings it to another path when its link is cut.
func TestSuccessor(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Programs(t)
	err := lab.Run(t.Output(), func(l *lab.Lab) error {
		n, err := Build(t.Context(), l, Options{Program: program, Examples: examples, Controller: true, OpenVSwitch: true, Spare: true})
		if err != nil {
			return err
		}
		if err := n.Joined(t.Context()); err != nil {
			return err
		}
		client := n.Clients[0].HTTPClient(30 * time.Second)
		get := func(when string, again bool) {
			t.Helper()
			reused, err := n.fetch(t.Context(), client)
			if err != nil || reused != again {
				t.Errorf("%s: %v, on the connection of before: %v", when, err, reused)
			}
		}
		get("at first", false)
		before := n.live(t)
		if before == "" {
			t.Error("the controller knows no session that it has handed over")
		}
		get("on the session that was handed over", true)
		if err := n.Replace(t.Context(), nil); err != nil {
			return err
		}
		get("with the next controller", true)
		lab.Eventually(t, patience, func() error {
			if after := n.live(t); after != before {
				return fmt.Errorf("the next controller knows %q, and the one before knew %q", after, before)
			}
			return nil
		})
		for _, link := range []*lab.Link{n.Line[1], n.SpareLink} { // the session is on one of them
			link.A.SetDown()
			get("with a link cut", true)
			link.A.SetUp()
			if err := n.Discovered(t.Context()); err != nil {
				return err
			}
		}
		get("with both links", true)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fetch gets a picture by the reactive mode, and tells whether on a connection that was open.
func (n *Network) fetch(ctx context.Context, client *http.Client) (reused bool, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ReactiveAt+":8084/images/02.png", nil)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return false, err
	}
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("status %d", resp.StatusCode)
	}
	return reused, nil
}

// live are the sessions that the controller knows as handed over.
func (n *Network) live(t *testing.T) (text string) {
	t.Helper()
	var all []api.ControllerSession
	if err := n.ask(t.Context(), "sessions", &all); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.State == api.ControllerHandedOff {
			text += fmt.Sprintf("%v by %s (%d) ", s.Client, s.Surrogate, s.Handoff)
		}
	}
	return text
}
