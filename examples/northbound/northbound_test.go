package northbound_test

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/api"
	"baton/controller/northbound"
	"baton/lab"
)

const secret = "0123456789abcdef0123456789abcdef"

func python(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../bin/python/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.CommandContext(t.Context(), path, "-c", "import websockets.sync.client").Run(); err != nil {
		if lab.Required() {
			t.Fatalf("bin/python with websockets is required here: make deps: %v", err)
		}
		t.Skip("SKIP: bin/python with websockets is not there: make deps brings it")
	}
	return path
}

// serve starts a northbound with one session, and returns its address and where to publish.
func serve(t *testing.T) (string, *northbound.Hub) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hub := northbound.NewHub()
	s := northbound.New(northbound.Config{
		Source: northbound.Source{
			Sessions: func() []api.ControllerSession {
				return []api.ControllerSession{{Client: netip.MustParseAddrPort("10.1.0.2:40000"), Service: netip.MustParseAddrPort("10.9.9.9:80"), State: api.ControllerEstablished}}
			},
			Handoffs: func() []api.ControllerHandoff { return nil },
		},
		Hub: hub, Access: northbound.Access{Tokens: []northbound.Token{northbound.NewToken(northbound.Viewer, secret, "follow")}},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), hub
}

func tokenFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFollow runs the script as it stands.
func TestFollow(t *testing.T) {
	interpreter := python(t)
	address, hub := serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	script := exec.CommandContext(ctx, interpreter, "follow.py", "ws://"+address, tokenFile(t, secret))
	out, err := script.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	script.Stderr = os.Stderr
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = script.Wait()
	}()
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "session 10.1.0.2:40000 -> 10.9.9.9:80 established -" {
		t.Fatalf("it prints %q", lines.Text())
	}
	for !hub.Watched(api.TopicHandoffs) && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	hub.Publish(api.TopicHandoffs, api.ControllerHandoff{
		ID: 7, Client: netip.MustParseAddrPort("10.1.0.2:40000"), Surrogate: "se1", Request: "GET /gallery", Took: 2_500_000,
	})
	if !lines.Scan() || lines.Text() != "handoff 7 10.1.0.2:40000 -> se1 GET /gallery 2.5 ms" {
		t.Fatalf("it prints %q", lines.Text())
	}
}

func TestFollowWithAWrongToken(t *testing.T) {
	interpreter := python(t)
	address, _ := serve(t)
	out, err := exec.CommandContext(t.Context(), interpreter, "follow.py", "ws://"+address, tokenFile(t, "wrong")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "401") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestReadme: the example's output in the guide is what the tests see.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"session 10.1.0.2:40000 -> 10.9.9.9:80 established -", "handoff 7 10.1.0.2:40000 -> se1 GET /gallery 2.5 ms"} {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("the guide lacks %s", line)
		}
	}
}
