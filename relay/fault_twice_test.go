package relay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"baton/lab"
	"baton/relay/config"
)

// TestTwice starts a second relay beside one that runs: it ends with one line that names the place, and the first one is as it was.
func TestTwice(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, config.Plaintext)
	plain, intercepting := settings(nil), n.intercepting()
	alone := func(text string) string { // with a control socket and metrics of its own
		return strings.NewReplacer(n.file("near.sock"), n.file("second.sock"), metricsAddress, "127.0.0.1:9465").Replace(text)
	}
	n.relays(plain, nil)
	open := n.listen(openPort)
	pairs := n.chatters(open, 2)
	second := func(text, want string) {
		t.Helper()
		r, err := n.launch(n.first, "second", text)
		if err != nil {
			t.Fatal(err)
		}
		defer r.control.Close()
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		if err := r.Wait(ctx); err == nil {
			t.Errorf("it ends well:\n%s", r.Log())
		}
		var lines []string
		for line := range strings.Lines(r.Log()) {
			if strings.HasPrefix(line, "baton: ") {
				lines = append(lines, line)
			}
		}
		if len(lines) != 1 || !strings.Contains(lines[0], want) {
			t.Errorf("it says %q, want one line with %q:\n%s", lines, want, r.Log())
		}
		if err := n.works(open); err != nil {
			t.Errorf("the first one, after %q: %v", want, err)
		}
	}
	second(n.nearConfig(plain), "control: ")
	second(alone(n.nearConfig(plain)), "listen at "+entryAt(openPort))
	second(n.nearConfig(intercepting), "control: ")
	if err := allComplete(pairs); err != nil {
		t.Error(err)
	}
	n.near.end()
	n.near = n.near.restart(n.nearConfig(intercepting))
	busy, err := n.kernelState()
	if err != nil {
		t.Fatal(err)
	}
	second(n.nearConfig(intercepting), "control: ")
	second(alone(n.nearConfig(intercepting)), "second.yaml: entry transparent-9000: intercept: another relay")
	second(alone(n.nearConfig(plain)), "listen at "+entryAt(openPort))
	if after, err := n.kernelState(); err != nil || after != busy {
		t.Errorf("the second one has changed the kernel: %v\n%s\nwant\n%s", err, after, busy)
	}
}

// TestSimultaneousStart starts two relays at the same time, at the same addresses, with nothing else in common: one of them runs.
func TestSimultaneousStart(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, config.Plaintext)
	n.far = n.start(n.second, "far", n.farConfig(nil))
	open := n.listen(openPort)
	for round := range 8 {
		var both [2]*relay
		var starts errgroup.Group
		for i := range both {
			name := fmt.Sprintf("near%d", i)
			text := strings.NewReplacer(n.file("near.sock"), n.file(name+".sock"), metricsAddress, fmt.Sprintf("127.0.0.1:%d", 9470+i)).Replace(n.nearConfig(nil))
			starts.Go(func() (err error) {
				both[i], err = n.launch(n.first, name, text)
				return err
			})
		}
		if err := starts.Wait(); err != nil {
			t.Fatal(err)
		}
		ended := func(r *relay) bool {
			select {
			case <-r.Done():
				return true
			default:
				return false
			}
		}
		var runs *relay
		err := lab.Poll(soon, func() error {
			for i, r := range both {
				if ended(both[1-i]) && r.isReady() == nil {
					runs = r
					return nil
				}
			}
			return errors.New("not one that is ready and one that has ended")
		})
		if err != nil {
			t.Fatalf("round %d: %v\nthe one:\n%s\nthe other:\n%s", round, err, both[0].Log(), both[1].Log())
		}
		if err := n.works(open); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		if err := runs.Stop(soon); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		for _, r := range both {
			r.control.Close()
		}
	}
}
